/** Compiled with the other sources, and never run: what the types of clients accept, and what they refuse. */
import type { GlideClient, GlideClusterClient } from '@valkey/valkey-glide'
import type { Cluster, Redis } from 'ioredis'
import type { Redis as Valkey, Cluster as ValkeyCluster } from 'iovalkey'
import type { createClient, createCluster, createSentinel } from 'redis'
import { DelayQueue, RateLimiter, RedisStore, Semaphore, SharedRateLimiter } from '../../src/index.js'

type Clients = [
  Redis,
  Cluster,
  Valkey,
  ValkeyCluster,
  ReturnType<typeof createClient>,
  ReturnType<typeof createCluster>,
  ReturnType<typeof createSentinel>,
  GlideClient,
  GlideClusterClient,
  object,
]

export const stores = (clients: Clients): RedisStore[] => clients.map(client => new RedisStore(client))

export function mistakes(client: Redis, promised: Promise<GlideClient>, sentinel: ReturnType<typeof createSentinel>) {
  // @ts-expect-error: the client itself is expected
  new RedisStore({ client })
  // @ts-expect-error: the same of another client
  new RedisStore({ client: sentinel })
  // @ts-expect-error: a client that was not awaited
  new RedisStore(promised)
  // @ts-expect-error: the same for shared objects
  new Semaphore(promised, 'name')
  // @ts-expect-error: the client itself is expected
  new SharedRateLimiter({ client }, 'name', { rate: 1, interval: '1s' })
  // @ts-expect-error: the client itself is expected
  new DelayQueue({ client }, 'name')
  // @ts-expect-error: a URL is no client
  new RedisStore('redis://127.0.0.1:6379')
}

/** Durations come from settings and from objects whose texts were widened. */
export function durations(): RateLimiter {
  const limits = { deadline: '50ms', window: '1m' }
  const window = process.env.WINDOW ?? limits.window
  return new RateLimiter({ policy: { quota: 5, window }, deadline: limits.deadline })
}

// The clients of a run: every kind that knows the servers' topology.
import { setTimeout as pause } from 'node:timers/promises'
import type { RedisClient } from '../../src/redis/client.js'
import { olderModule } from '../../test/support/older.js'
import {
  type Address,
  type ClientKind,
  type Glide,
  type Ioredis,
  ioredis,
  type NodeRedis,
  nodeRedis,
  type Upstash,
  upstash,
  valkeyGlide,
} from '../../test/support/redis-clients.js'
import type { ProgramOptions } from './recording.js'
import type { Topology } from './servers.js'

/** Each is loaded only where it is used: GLIDE alone is as large as all of the rest. */
const KINDS: Readonly<Record<string, () => Promise<ClientKind>>> = {
  ioredis: async () => ioredis((await import('ioredis')) as unknown as Ioredis),
  'ioredis 5': async () => ioredis(olderModule<Ioredis>('ioredis5')),
  'node-redis': async () => nodeRedis((await import('redis')) as unknown as NodeRedis),
  iovalkey: async () => ioredis((await import('iovalkey')) as unknown as Ioredis),
  glide: async () => valkeyGlide((await import('@valkey/valkey-glide')) as unknown as Glide, true),
  upstash: async () => upstash((await import('@upstash/redis')) as unknown as Upstash),
}

/** Process by process, in turn. */
export const CLIENTS_OF: Readonly<Record<Topology, readonly string[]>> = {
  single: ['ioredis', 'node-redis', 'iovalkey', 'glide', 'upstash'],
  cluster: ['ioredis', 'node-redis', 'iovalkey', 'glide'],
  sentinel: ['ioredis', 'node-redis', 'iovalkey'],
}

/** A client that comes through this process' doors, with the strategy that `docs/operating.md` recommends. */
export async function connected({ client, place }: Pick<ProgramOptions, 'client' | 'place'>): Promise<RedisClient> {
  const kind = await KINDS[client]()
  const doorOf = ({ host, port }: Address): Address => place.doors[port] ?? { host, port }
  const retries = { retryMs: (times: number) => Math.min(times * 50, 1000) }
  const opened = {
    single: () => kind.single(doorOf(place.servers[0]), retries),
    cluster: () => kind.cluster?.({ nodes: place.servers }, retries, doorOf),
    sentinel: () => kind.sentinel?.(place, retries, doorOf),
  }
  for (;;) {
    try {
      return (await opened[place.topology]()) as RedisClient
    } catch (error) {
      // GLIDE gives up if it cannot connect at once, as within a fault: its process would be started again.
      if ((error as Error).name !== 'ClosingError') throw error
      await pause(200)
    }
  }
}

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { RedisClient } from '../../src/redis/client.js'
import { eventually } from './eventually.js'
import { type ClientKind, closeClients } from './redis-clients.js'
import { RedisCluster } from './redis-cluster.js'
import { RedisServer } from './redis-server.js'
import { describeStore } from './store-contract.js'

/** The behaviour of a store and its waiters with every client, on one server and on a cluster. */
export function describeClients(kinds: Readonly<Record<string, ClientKind>>): void {
  let redis: RedisServer
  let cluster: RedisCluster
  beforeAll(async () => {
    ;[redis, cluster] = await Promise.all([RedisServer.start(), RedisCluster.start()])
  }, 60_000)
  afterAll(async () => {
    await closeClients()
    await Promise.all([redis.stop(), cluster.stop()])
  })

  const forms = Object.entries(kinds).flatMap(([name, { single, cluster: clustered }]) => [
    { name, make: () => single(redis) },
    ...(clustered ? [{ name: `a cluster of ${name}`, make: () => clustered(cluster) }] : []),
  ])
  let stores = 0
  for (const { name, make } of forms) {
    let client: RedisClient
    describeStore(`RedisStore over ${name}`, {
      make: clock => new RedisStore(client, { clock, prefix: `store ${stores++}` }),
      start: async () => {
        client = await make()
      },
    })
  }

  describe('acquire', () => {
    test.concurrent.each(forms)(
      'a waiter moves up when the one before it gives up, and that is no failure of the store, over $name',
      async ({ name, make }) => {
        const client = await make()
        const failures: Error[] = []
        const limiter = new RateLimiter({
          policy: '1/2s',
          store: new RedisStore(client, { prefix: `acquire ${name}` }),
          deadline: '5s',
          observer: { storeFailed: error => failures.push(error) },
        })
        await eventually('Redis decides', async () => (await limiter.consume('warm')).source === 'redis')
        await limiter.acquire('k')
        const impatient = new AbortController()
        const first = limiter.acquire('k', { signal: impatient.signal })
        first.catch(() => {})
        const second = limiter.acquire('k')
        const askedAt = performance.now()
        // A while before its turn, which comes by the clock of Redis.
        await new Promise(done => setTimeout(done, 150))
        impatient.abort(new Error('gone'))
        await expect(first).rejects.toThrow('gone')
        expect((await second).source).toBe('redis')
        // The turn after that of the waiter that gave up comes after four seconds.
        expect(performance.now() - askedAt).toBeLessThan(3800)
        expect(failures).toEqual([])
      },
    )
  })
}

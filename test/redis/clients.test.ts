import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { RedisClient } from '../../src/redis/client.js'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import { closeClients } from '../support/redis-clients.js'
import { RedisCluster } from '../support/redis-cluster.js'
import { eventually } from '../support/redis-process.js'
import { RedisServer } from '../support/redis-server.js'
import { describeStore } from '../support/store-contract.js'
import { CLIENTS } from '../support/tested-clients.js'

let redis: RedisServer
let cluster: RedisCluster
beforeAll(async () => {
  ;[redis, cluster] = await Promise.all([RedisServer.start(), RedisCluster.start()])
}, 60_000)
afterAll(async () => {
  await closeClients()
  await Promise.all([redis.stop(), cluster.stop()])
})

const FORMS = Object.entries(CLIENTS).flatMap(([name, kind]) => [
  { name, make: () => kind.single(redis) },
  { name: `a cluster of ${name}`, make: () => kind.cluster(cluster) },
])
/** ioredis 5 and 6 pass this contract in test/stores/redis, with more random traffic. */
const ELSEWHERE = ['ioredis 6', 'ioredis 5', 'a cluster of ioredis 6']
/** The oldest versions do on one server. */
const OLDEST = /^a cluster of .+ (5\.0|4\.6|0\.2)$/

let stores = 0
for (const { name, make } of FORMS.filter(({ name }) => !ELSEWHERE.includes(name) && !OLDEST.test(name))) {
  let client: RedisClient
  describeStore(`RedisStore over ${name}`, {
    make: clock => new RedisStore(client, { clock, prefix: `store ${stores++}` }),
    promises: 20,
    properties: 2,
    start: async () => {
      client = await make()
    },
  })
}

describe('acquire', () => {
  test.concurrent.each(FORMS)(
    'a waiter moves up when the one before it gives up, and that is no failure of the store, over $name',
    async ({ name, make }) => {
      const client = await make()
      const failures: Error[] = []
      const limiter = new RateLimiter({
        policy: '1/1s',
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
      await new Promise(done => setTimeout(done, 150))
      impatient.abort(new Error('gone'))
      await expect(first).rejects.toThrow('gone')
      expect((await second).source).toBe('redis')
      expect(performance.now() - askedAt).toBeLessThan(1800)
      expect(failures).toEqual([])
    },
  )
})

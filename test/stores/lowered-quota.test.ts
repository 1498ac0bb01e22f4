import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { parseLimit } from '../../src/core/limit.js'
import { MemoryStore } from '../../src/stores/memory/memory-store.js'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import { ManualClock } from '../../src/testing.js'
import { RedisServer } from '../support/redis-server.js'
import { START } from '../support/stories.js'

let redis: RedisServer
let client: Redis
beforeAll(async () => {
  redis = await RedisServer.start()
  client = redis.client()
})
afterAll(() => redis.stop())

// A bucket regains by the quota that is asked with: under a lower one what is owed takes longer than its key was to live.
describe.each(['token-bucket', 'leaky-bucket'] as const)(
  'what a %s owes is not forgotten when its quota is lowered',
  algorithm => {
    const limitOf = (quota: number) => parseLimit({ quota, window: '1m', algorithm, burst: 100, name: 'plan' })
    const [high, low] = [limitOf(100), limitOf(1)]

    test('in the process', () => {
      const clock = new ManualClock(START)
      const store = new MemoryStore({ clock })
      store.consume([{ key: 'k', limit: high }], 100)
      clock.advance(30_000)
      const [{ allowed, retryAfterMs }] = store.consume([{ key: 'k', limit: low }], 100)
      expect([allowed, retryAfterMs]).toEqual([false, 100 * 60_000 - 30_000])
      // Traffic of others sweeps what has expired.
      clock.advance(retryAfterMs - 1)
      for (let i = 0; i < 5000; i++) store.consume([{ key: `other ${i}`, limit: low }], 1)
      expect(store.consume([{ key: 'k', limit: low }], 100)).toMatchObject([{ allowed: false, retryAfterMs: 1 }])
      clock.advance(1)
      expect(store.consume([{ key: 'k', limit: low }], 100)).toMatchObject([{ allowed: true }])
      store.close()
    })

    test('in Redis', async () => {
      const store = new RedisStore(client, { prefix: algorithm })
      const life = async () => {
        const [key] = await client.keys(`${algorithm}*`)
        return client.pttl(key)
      }
      await store.consume([{ key: 'k', limit: high }], 100)
      expect(await life()).toBeLessThanOrEqual(60_000 + 5000)
      await store.peek([{ key: 'k', limit: low }], 1)
      expect(await life()).toBeLessThanOrEqual(60_000 + 5000)
      const [{ retryAfterMs }] = await store.consume([{ key: 'k', limit: low }], 100)
      expect(retryAfterMs).toBeGreaterThan(5_900_000)
      expect(await life()).toBeGreaterThan(retryAfterMs)
      // A denial under the higher one again does not take from that.
      await store.consume([{ key: 'k', limit: high }], 100)
      expect(await life()).toBeGreaterThan(retryAfterMs - 5000)
    })
  },
)

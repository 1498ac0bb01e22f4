import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { parseLimit } from '../../src/limiter/core/limit.js'
import type { Charge } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { START } from '../../test/support/stories.js'
import { testRedis } from '../../test/support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.bulkClient()
})
afterEach(() => client.flushall())

const limit = parseLimit({ quota: 1_000_000, window: '1h' })
const charge: Charge[] = [{ key: 'k', limit }]

describe('no call is long', () => {
  /** µs that the server spent in the scripts of `work`. */
  async function scriptUs(work: () => Promise<unknown>): Promise<number> {
    await client.config('RESETSTAT')
    await work()
    const line = (await client.info('commandstats')).split('\r\n').find(line => line.startsWith('cmdstat_evalsha:'))
    return Number(/usec=(\d+)/.exec(line ?? '')?.[1])
  }

  test('when 100 000 entries of a log expire at once, or half of them', async () => {
    const clocks = Array.from({ length: 250 }, () => new ManualClock())
    const stores = clocks.map(clock => new RedisStore(client, { clock }))
    for (let at = 0; at < 100_000; at += clocks.length) {
      clocks.forEach((clock, i) => {
        clock.set(START + at + i)
      })
      await Promise.all(stores.map(store => store.consume(charge, 1)))
    }
    const [key] = await client.keys('*')
    expect(await client.llen(key)).toBe(100_001)
    const [clock] = clocks
    const consumeAt = (at: number) => {
      clock.set(START + at)
      return scriptUs(() => stores[0].consume(charge, 1))
    }
    clock.set(START + 3_649_999)
    const lookUs = await scriptUs(() => stores[0].peek(charge, 1))
    const halfUs = await consumeAt(3_649_999)
    expect(await client.llen(key)).toBe(50_001 + 1)
    const allUs = await consumeAt(3_649_999 + 3_600_000)
    expect(await client.llen(key)).toBe(2)
    console.log(`of 100 000 entries expire half: ${halfUs} µs (peek ${lookUs} µs), the rest: ${allUs} µs`)
    expect(Math.max(lookUs, halfUs, allUs)).toBeLessThan(10_000)
  }, 30_000)

  test('when 100 000 units come back at once', async () => {
    const clock = new ManualClock(START)
    const store = new RedisStore(client, { clock })
    for (let i = 0; i < 20_000; i++) {
      clock.advance(1)
      const answer = store.consume(charge, 5)
      await (i % 100 === 99 ? answer : new Promise(resolve => setImmediate(resolve)))
    }
    expect(await scriptUs(() => store.refund(charge, 99_999))).toBeLessThan(10_000)
    expect((await store.peek(charge, 0))[0].remaining).toBe(999_999)
  }, 30_000)
})

import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import { ALGORITHM_NAMES, type LimitOptions } from '../../../src/limiter/core/limit.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})
afterEach(() => client.flushall())

const QUOTA = 4
const BACK_MS = 9000

/** Whatever opens a state that nothing fits into. */
const OPENERS: readonly (readonly [string, (limiter: RateLimiter) => Promise<unknown>])[] = [
  ['a decision', limiter => limiter.consume('k')],
  ['a batch', limiter => Promise.all([1, 2, 1].map(cost => limiter.consume('k', cost)))],
  ['consumeUpTo', limiter => limiter.consumeUpTo('k', 2)],
  ['acquire', limiter => limiter.acquire('k', { timeout: 0 }).catch(() => {})],
  ['a charge', limiter => limiter.charge('k', 1)],
  ['a refund', limiter => limiter.refund('k', 1)],
]

// The server's clock was set back, or the state came by MIGRATE from a server whose clock is ahead.
describe.each(OPENERS)('a state from the future is moved to now, for good, by %s', (_, open) => {
  test.each([1, 2])('under each algorithm (%i limits)', async count => {
    for (const algorithm of ALGORITHM_NAMES) {
      const clock = new ManualClock(START)
      const store = new RedisStore(client, { clock, prefix: algorithm })
      const burst = algorithm.endsWith('bucket') ? { burst: QUOTA } : {}
      const limit: LimitOptions = { quota: QUOTA, window: '10s', algorithm, ...burst }
      const policy = ['a', 'b'].slice(0, count).map(name => ({ ...limit, name }))
      const limiter = new RateLimiter({ policy, name: 'l', store, denyCache: false, deadline: '5s' })
      expect(await limiter.consume('k', QUOTA)).toMatchObject({ allowed: true })
      clock.advance(-BACK_MS)
      await open(limiter)
      const opened = await limiter.peek('k', 0)
      expect([algorithm, opened.remaining <= 1]).toEqual([algorithm, true])
      clock.advance(1500)
      const later = await limiter.peek('k', 0)
      // Not moved, it would still matter for the whole window, counted from this moment.
      expect([algorithm, opened.resetAfterMs - later.resetAfterMs]).toEqual([algorithm, 1500])
    }
  })
})

test('a refused consumeUpTo tells the truth after the clock was set back: it is allowed then', async () => {
  for (const algorithm of ALGORITHM_NAMES) {
    const clock = new ManualClock(START)
    const store = new RedisStore(client, { clock, prefix: algorithm })
    const limiter = new RateLimiter({
      policy: { quota: 3, window: '10s', algorithm },
      name: 'l',
      store,
      denyCache: false,
    })
    for (let i = 0; i < 3; i++) await limiter.consume('k')
    clock.advance(-BACK_MS)
    const { retryAfterMs } = await limiter.consumeUpTo('k', 2)
    clock.advance(retryAfterMs - 1)
    expect([algorithm, (await limiter.consumeUpTo('k', 2)).allowed]).toEqual([algorithm, false])
    clock.advance(1)
    expect([algorithm, (await limiter.consumeUpTo('k', 2)).allowed]).toEqual([algorithm, true])
  }
})

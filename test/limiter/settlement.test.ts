import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { StoreError } from '../../src/limiter/core/errors.js'
import { ALGORITHM_NAMES, type AlgorithmName } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { START } from '../support/stories.js'
import { StubStore } from '../support/stub-store.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()
let client: Redis
let prefixes = 0
beforeAll(() => {
  client = redis.client()
})

const policyOf = (algorithm: AlgorithmName) => `10/10s ${algorithm}`

describe.each<[string, (clock: ManualClock) => Store]>([
  ['memory', clock => new MemoryStore({ clock })],
  ['Redis', clock => new RedisStore(client, { clock, prefix: `settle ${prefixes++}` })],
])('on %s', (_, makeStore) => {
  const stores: Store[] = []
  afterEach(() => {
    for (const store of stores.splice(0)) store.close?.()
  })
  const setUp = (options: Partial<RateLimiterOptions> & { policy: string }) => {
    const clock = new ManualClock(START)
    const store = makeStore(clock)
    stores.push(store)
    const limiter = new RateLimiter({ store, deadline: '5s', ...options })
    const left = async (key = 'k') => (await limiter.peek(key, 0)).remaining
    return { clock, limiter, left }
  }

  describe.each(ALGORITHM_NAMES)('settling under %s', algorithm => {
    const policy = policyOf(algorithm)

    test('less gives back, more is charged, at once and later', async () => {
      const { clock, limiter, left } = setUp({ policy })
      await limiter.settle(await limiter.consume('k', 6), 2)
      expect(await left()).toBe(8)
      const decision = await limiter.consume('k', 2)
      clock.advance(500)
      const before = await left()
      await limiter.settle(decision, 4)
      expect(await left()).toBe(before - 2)
    })

    test('a second time changes nothing, whatever it says', async () => {
      const { limiter, left } = setUp({ policy })
      const decision = await limiter.consume('k', 6)
      await Promise.all([limiter.settle(decision, 5), limiter.settle(decision, 0), limiter.settle(decision, 9)])
      expect(await left()).toBe(5)
    })

    test('a denied decision changes nothing', async () => {
      const { limiter, left } = setUp({ policy })
      await limiter.consume('k', 9)
      await limiter.settle(await limiter.consume('k', 2), 0)
      await limiter.settle(await limiter.consume('k', 2), 5)
      expect(await left()).toBe(1)
    })

    test('to less, when it does not count any more, takes nothing from later decisions', async () => {
      const { clock, limiter, left } = setUp({ policy })
      const decision = await limiter.consume('k', 6)
      clock.advance(decision.resetAfterMs)
      await limiter.consume('k', 6)
      await limiter.settle(decision, 0)
      expect(await left()).toBe(4)
    })

    test('to more, when it does not count any more, is still charged', async () => {
      const { clock, limiter, left } = setUp({ policy })
      const decision = await limiter.consume('k', 6)
      clock.advance(decision.resetAfterMs)
      await limiter.settle(decision, 9)
      expect(await left()).toBe(7)
    })

    test('after a refund gives back no more than is spent', async () => {
      const { limiter, left } = setUp({ policy })
      const decision = await limiter.consume('k', 6)
      await limiter.refund('k', 4)
      await limiter.settle(decision, 0)
      expect(await left()).toBe(10)
      expect((await limiter.consume('k', 11)).allowed).toBe(false)
      expect((await limiter.consume('k', 10)).allowed).toBe(true)
    })

    test('to more than fits is a debt: denied until the promised moment, allowed at it', async () => {
      const { clock, limiter } = setUp({ policy })
      await limiter.settle(await limiter.consume('k', 1), 25)
      const { retryAfterMs, remaining } = await limiter.consume('k', 1)
      expect(remaining).toBe(0)
      clock.advance(retryAfterMs - 1)
      expect(await limiter.consume('k', 1)).toMatchObject({ allowed: false, retryAfterMs: 1 })
      clock.advance(1)
      expect(await limiter.consume('k', 1)).toMatchObject({ allowed: true })
    })
  })

  test('settling reaches every limit, and only the keys that were charged', async () => {
    const { limiter } = setUp({ policy: '10/10s name=ip; 20/1m token-bucket name=user' })
    const decision = await limiter.consume({ ip: 'a', user: 'u' }, 5)
    await limiter.consume({ ip: 'b', user: 'v' }, 5)
    await limiter.settle(decision, 3)
    const left = (all: Decision) => all.verdicts.map(({ remaining }) => remaining)
    expect(left(await limiter.peek({ ip: 'a', user: 'u' }, 0))).toEqual([7, 17])
    expect(left(await limiter.peek({ ip: 'b', user: 'v' }, 0))).toEqual([5, 15])
  })

  describe.each(ALGORITHM_NAMES)('charging under %s', algorithm => {
    test('spends although it does not fit, and later requests wait for that', async () => {
      const { clock, limiter, left } = setUp({ policy: policyOf(algorithm) })
      await limiter.charge('k', 4)
      expect(await left()).toBe(6)
      await limiter.charge('k', 0)
      await limiter.charge('k', 9)
      expect(await left()).toBe(0)
      const { allowed, retryAfterMs } = await limiter.consume('k', 1)
      expect(allowed).toBe(false)
      clock.advance(retryAfterMs - 1)
      expect(await limiter.consume('k', 1)).toMatchObject({ allowed: false, retryAfterMs: 1 })
      clock.advance(1)
      expect((await limiter.consume('k', 1)).allowed).toBe(true)
    })

    test('units that were charged can be refunded', async () => {
      const { limiter, left } = setUp({ policy: policyOf(algorithm) })
      await limiter.charge('k', 12)
      await limiter.refund('k', 5)
      expect(await left()).toBe(3)
    })
  })

  describe.each(ALGORITHM_NAMES)('a block under %s', algorithm => {
    test('is reported to the ms, and ends at its end although nothing was spent', async () => {
      const { clock, limiter } = setUp({ policy: policyOf(algorithm) })
      await limiter.block('k', '1m')
      for (const passedMs of [0, 1, 59_998]) {
        clock.advance(passedMs)
        const { allowed, blocked, retryAfterMs, remaining } = await limiter.consume('k')
        expect([allowed, blocked, retryAfterMs, remaining]).toEqual([false, true, START + 60_000 - clock.now(), 10])
      }
      clock.advance(1)
      const decision = await limiter.consume('k')
      expect([decision.allowed, decision.blocked, decision.remaining]).toEqual([true, undefined, 9])
    })

    test('that ends before the spent units are free promises the later of the two moments', async () => {
      const { clock, limiter } = setUp({ policy: policyOf(algorithm) })
      await limiter.consume('k', 10)
      const unblocked = await limiter.peek('k', 10)
      await limiter.block('k', 500)
      const { retryAfterMs } = await limiter.consume('k', 10)
      expect(retryAfterMs).toBe(unblocked.retryAfterMs)
      clock.advance(retryAfterMs)
      expect((await limiter.consume('k', 10)).allowed).toBe(true)
    })

    test('outlives a reset and a refund, which concern spent units, and ends with unblock', async () => {
      const { limiter } = setUp({ policy: policyOf(algorithm) })
      await limiter.consume('k', 3)
      await limiter.block('k', '1m')
      await limiter.refund('k', 1)
      await limiter.reset('k')
      expect(await limiter.consume('k')).toMatchObject({ allowed: false, blocked: true, retryAfterMs: 60_000 })
      await limiter.unblock('k')
      expect(await limiter.consume('k')).toMatchObject({ allowed: true, remaining: 9 })
    })
  })

  test('a block under one limit denies every request under it, whatever its other keys are', async () => {
    const { limiter } = setUp({ policy: '10/10s name=ip; 20/1m token-bucket name=user' })
    await limiter.block({ user: 'u' }, '1m')
    expect(await limiter.consume({ ip: 'a', user: 'u' })).toMatchObject({ allowed: false, blocked: true, key: 'u' })
    expect(await limiter.consume({ ip: 'a', user: 'v' })).toMatchObject({ allowed: true, remaining: 9 })
    expect(await limiter.consume({ ip: 'a' })).toMatchObject({ allowed: true, remaining: 8 })
  })

  test('a block is not shared with limiters of another name', async () => {
    const { limiter } = setUp({ policy: '10/10s' })
    const other = new RateLimiter({ policy: '10/10s', store: stores[0], name: 'other', deadline: '5s' })
    await limiter.block('k', '1m')
    expect((await other.consume('k')).allowed).toBe(true)
  })
})

test('a block works with a key prefix of the client', async () => {
  const store = new RedisStore(redis.client({ keyPrefix: 'app:' }))
  const limiter = new RateLimiter({ policy: '10/10s', store, deadline: '5s' })
  await limiter.block('k', '1m')
  expect(await limiter.consume('k')).toMatchObject({ allowed: false, blocked: true })
  await limiter.unblock('k')
  expect(await limiter.consume('k')).toMatchObject({ allowed: true })
})

test('a store that cannot charge or block says so, and a settlement to more changes nothing there', async () => {
  const store: Store = new StubStore()
  Object.assign(store, { charge: undefined, block: undefined })
  const limiter = new RateLimiter({ policy: '10/10s', store })
  await expect(limiter.charge('k')).rejects.toThrow(StoreError)
  await expect(limiter.charge('k')).rejects.toThrow(/has no charge\(\); MemoryStore and RedisStore have/)
  await expect(limiter.block('k', '1s')).rejects.toThrow(/has no block\(\); MemoryStore and RedisStore have/)
  await limiter.settle(await limiter.consume('k'), 5)
})

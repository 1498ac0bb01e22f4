import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import type { Decision } from '../../src/limiter/core/decision.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
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

describe.each<[string, (clock: ManualClock) => Store]>([
  ['memory', clock => new MemoryStore({ clock })],
  ['Redis', clock => new RedisStore(client, { clock, prefix: `own ${prefixes++}` })],
])('on %s a settlement', (_, makeStore) => {
  const stores: Store[] = []
  afterEach(() => {
    for (const store of stores.splice(0)) store.close?.()
  })
  const setUp = (policy: string, options: Partial<RateLimiterOptions> = {}) => {
    const clock = new ManualClock(START)
    const store = makeStore(clock)
    stores.push(store)
    const limiter = new RateLimiter({ store, policy, deadline: '5s', denyCache: false, ...options })
    /** Asks at so many ms after the start. */
    const at = async (ms: number, cost: number): Promise<Decision> => {
      clock.set(START + ms)
      return limiter.consume('k', cost)
    }
    const left = async () => (await limiter.peek('k', 0)).remaining
    return { clock, limiter, at, left }
  }

  describe('of a sliding window', () => {
    test("gives back the decision's own units, not newer ones: never 15 of 10 in a window", async () => {
      const { limiter, at } = setUp('10/1s')
      const a = await at(0, 5)
      await at(999, 5)
      await limiter.settle(a, 0)
      expect((await at(999, 5)).allowed).toBe(true)
      // B and C of 999 ms are ten.
      expect(await at(1000, 5)).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 999 })
      expect((await at(1999, 5)).allowed).toBe(true)
    })

    test('gives back the newest units if they are its own, and the oldest ones expire as before', async () => {
      const { limiter, at, left } = setUp('10/1s')
      await at(0, 5)
      const b = await at(500, 5)
      await limiter.settle(b, 1)
      expect(await left()).toBe(4)
      expect(await at(500, 5)).toMatchObject({ allowed: false, retryAfterMs: 500 })
      expect(await at(1000, 9)).toMatchObject({ allowed: true, remaining: 0, resetAfterMs: 1000 })
      expect(await at(1499, 1)).toMatchObject({ allowed: false, retryAfterMs: 1 })
    })

    test('gives back units from the middle', async () => {
      const { limiter, at, left } = setUp('10/1s')
      await at(0, 2)
      const b = await at(100, 3)
      await at(200, 2)
      await limiter.settle(b, 0)
      expect(await left()).toBe(6)
      expect(await at(999, 7)).toMatchObject({ allowed: false, retryAfterMs: 1, resetAfterMs: 201 })
      expect(await at(1000, 8)).toMatchObject({ allowed: true, remaining: 0 })
    })

    test('gives back units at the ends and in the middle of one long log', async () => {
      const { limiter, at, left } = setUp('4000/1h')
      const decisions: Decision[] = []
      for (let ms = 0; ms < 300; ms++) decisions.push(await at(ms, 2))
      for (const place of [0, 1, 150, 298, 299]) await limiter.settle(decisions[place], place % 2)
      expect(await left()).toBe(4000 - 600 + 2 + 1 + 2 + 2 + 1)
      expect(await limiter.peek('k', 4000)).toMatchObject({ allowed: false, retryAfterMs: 3_600_000 })
      // What is left of the decision of 1 ms is the first to expire.
      expect(await limiter.peek('k', 3409)).toMatchObject({ retryAfterMs: 3_600_000 - 298 })
    })

    test('gives back nothing when the units have expired', async () => {
      const { limiter, at, left } = setUp('10/1s')
      const a = await at(0, 5)
      await at(999, 5)
      await at(1000, 1)
      await limiter.settle(a, 0)
      expect(await left()).toBe(4)
    })

    test('gives back at most the units that still count for its instant', async () => {
      const { limiter, at, left } = setUp('10/1s')
      const a = await at(0, 6)
      await limiter.refund('k', 4)
      await at(1, 5)
      await limiter.settle(a, 0)
      expect(await left()).toBe(5)
      const b = await at(2, 5)
      await limiter.reset('k')
      await at(3, 5)
      await limiter.settle(b, 0)
      expect(await left()).toBe(5)
    })

    test('gives back nothing for a decision whose moment the clock shows twice', async () => {
      const { limiter, at, left } = setUp('10/1s')
      const a = await at(500, 5)
      await at(400, 1)
      await at(500, 4)
      await limiter.settle(a, 0)
      expect(await left()).toBe(0)
    })
  })

  test.each(['fixed-window', 'sliding-counter'])(
    'of a %s does not give back units that others have spent since a refund or reset',
    async algorithm => {
      const { limiter, at, left } = setUp(`10/1s ${algorithm}`)
      const a = await at(0, 6)
      await limiter.refund('k', 4)
      await at(1, 5)
      await limiter.settle(a, 0)
      expect(await left()).toBe(5)
      await limiter.reset('k')
      const b = await at(2, 6)
      await at(3, 1)
      await limiter.reset('k')
      await at(4, 5)
      await limiter.settle(b, 0)
      expect(await left()).toBe(5)
    },
  )

  test('of a sliding counter gives back in the cell of the charge', async () => {
    const { limiter, at, left } = setUp('10/1s sliding-counter')
    const a = await at(0, 8)
    expect((await at(1500, 6)).allowed).toBe(true)
    await limiter.settle(a, 0)
    // Six of this cell, nothing of the one before: at one instant never more than ten.
    expect(await left()).toBe(4)
    expect((await at(1500, 5)).allowed).toBe(false)
    expect((await at(1500, 4)).allowed).toBe(true)
  })

  describe('of a token bucket', () => {
    test('gives back at most the units that the bucket has not regained', async () => {
      const { limiter, at, left } = setUp('10/1s token-bucket')
      const a = await at(0, 8)
      await limiter.settle(await at(500, 0), 0)
      await at(500, 5)
      await limiter.settle(a, 0)
      // Of the eight, three were not regained; the five are all there.
      expect(await left()).toBe(4)
      expect((await at(500, 6)).allowed).toBe(false)
    })

    test('gives back all units to decisions of one instant, whichever is settled first', async () => {
      for (const order of [
        [0, 1],
        [1, 0],
      ]) {
        const { limiter, at, left } = setUp('10/1s token-bucket')
        const both = [await at(0, 5), await at(0, 5)]
        for (const place of order) await limiter.settle(both[place], 0)
        expect(await left()).toBe(10)
      }
    })

    test('that was settled after other decisions gives back the rest of its own units', async () => {
      const { limiter, at } = setUp('10/1s token-bucket')
      const a = await at(0, 5)
      const b = await at(0, 5)
      await at(200, 0)
      await limiter.settle(a, 0)
      await at(600, 0)
      expect((await at(600, 9)).allowed).toBe(true)
      await limiter.settle(b, 0)
      // All of B was regained by then: the nine are the only ones that count.
      expect(await at(600, 2)).toMatchObject({ allowed: false })
    })
  })

  describe('of a leaky bucket', () => {
    test('gives a place back only if it is the last, so that two requests never leave together', async () => {
      const { limiter, at } = setUp('10/1s leaky-bucket')
      const [, b, c] = [await at(0, 1), await at(0, 1), await at(0, 1)]
      expect([b.delayMs, c.delayMs]).toEqual([100, 200])
      await limiter.settle(b, 0)
      expect((await at(0, 1)).delayMs).toBe(300)
    })

    test('gives the last place to the next request', async () => {
      const { limiter, at } = setUp('10/1s leaky-bucket')
      await at(0, 1)
      const b = await at(0, 1)
      await limiter.settle(b, 0)
      expect((await at(0, 1)).delayMs).toBe(100)
    })
  })
})

test('a settlement of a fallback decision uses the clock of the fallback: never 10 of 5', async () => {
  const store: Store = new StubStore()
  Object.assign(store, { consume: () => Promise.reject(new Error('down')), clock: undefined })
  // The window of the fallback ends by the time of the process.
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] })
  try {
    const limiter = new RateLimiter({ policy: '5/100ms', store, deadline: '5s' })
    const decision = await limiter.consume('k', 5)
    expect(decision).toMatchObject({ source: 'fallback', allowed: true })
    jest.advanceTimersByTime(110)
    expect((await limiter.consume('k', 5)).allowed).toBe(true)
    await limiter.settle(decision, 0)
    expect((await limiter.consume('k', 1)).allowed).toBe(false)
    await limiter.close()
  } finally {
    jest.useRealTimers()
  }
})

test("a fixed window's settlement does not change the next window, although the answer was late", async () => {
  const clock = new ManualClock(START)
  const memory = new MemoryStore({ clock })
  let answer = () => {}
  const late = new Promise<void>(resolve => {
    answer = resolve
  })
  const slow: Store = {
    clock,
    consume: async (charges, cost) => {
      const verdicts = memory.consume(charges, cost)
      await late
      return verdicts
    },
    peek: (charges, cost) => memory.peek(charges, cost),
    refund: (charges, cost) => memory.refund(charges, cost),
    reset: charges => memory.reset(charges),
  }
  const limiter = new RateLimiter({ policy: '10/1s fixed-window', store: slow, deadline: '5s' })
  const asked = limiter.consume('k', 5)
  clock.advance(999)
  answer()
  const decision = await asked
  clock.advance(1)
  await limiter.consume('k', 8)
  await limiter.settle(decision, 0)
  expect((await limiter.peek('k', 0)).remaining).toBe(2)
  memory.close()
})

test.each([
  ['memory', () => new MemoryStore()],
  ['Redis', () => new RedisStore(client, { prefix: `acquired ${prefixes++}` })],
] as const)('on %s what was acquired after a wait is given back when it is settled', async (_, makeStore) => {
  const store: Store = makeStore()
  const limiter = new RateLimiter({ policy: '2/400ms', store, deadline: '5s' })
  await limiter.consume('k', 2)
  const decision = await limiter.acquire('k', { cost: 2 })
  await limiter.settle(decision, 0)
  expect((await limiter.peek('k', 0)).remaining).toBe(2)
  await store.close?.()
})

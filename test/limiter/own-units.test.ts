import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import type { PolicyInput } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { SETTLEMENTS, START } from '../support/stories.js'
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
  const setUp = (policy: PolicyInput, options: Partial<RateLimiterOptions> = {}) => {
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

  test.each(SETTLEMENTS)('under %p gives back %s', async (policy, _title, steps) => {
    const { clock, limiter, at, left } = setUp(policy)
    const decisions: Decision[] = []
    for (const [ms, does, expected, retryAfterMs, why, delayMs = 0] of steps) {
      if (typeof does === 'number') {
        const decision = await at(ms, does)
        decisions.push(decision)
        const { allowed, remaining } = decision
        expect([why, allowed, remaining, decision.retryAfterMs, decision.delayMs ?? 0]).toEqual([
          why,
          retryAfterMs === 0,
          expected,
          retryAfterMs,
          delayMs,
        ])
        continue
      }
      clock.set(START + ms)
      if (does === 'reset') await limiter.reset('k')
      else if ('refund' in does) await limiter.refund('k', does.refund)
      else await limiter.settle(decisions[does.settle], does.to)
      expect([why, await left()]).toEqual([why, expected])
    }
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

import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { CostError } from '../../src/limiter/core/errors.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { randomFrom } from '../support/random.js'
import { START } from '../support/stories.js'
import { StubStore } from '../support/stub-store.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()
let client: Redis
let prefixes = 0
beforeAll(() => {
  client = redis.client()
})

const stores: [string, (clock: ManualClock) => Store][] = [
  ['memory', clock => new MemoryStore({ clock })],
  ['Redis', clock => new RedisStore(client, { clock, prefix: `up-to-${++prefixes}` })],
  ['Redis with leases', clock => new RedisStore(client, { clock, prefix: `up-to-${++prefixes}`, leases: true })],
]

describe.each(stores)('consumeUpTo over %s', (_, storeOf) => {
  const limiterOf = (policy: string, clock = new ManualClock(START)) =>
    new RateLimiter({ policy, store: storeOf(clock), deadline: '5s' })

  test('spends all requested units if they fit', async () => {
    const limiter = limiterOf('10/1s')
    const { allowed, cost, remaining } = await limiter.consumeUpTo('a', 4)
    expect({ allowed, cost, remaining }).toEqual({ allowed: true, cost: 4, remaining: 6 })
  })

  test.each(['sliding-window', 'fixed-window', 'sliding-counter', 'token-bucket', 'leaky-bucket'])(
    'spends the remaining units under %s, and no more',
    async algorithm => {
      const limiter = limiterOf(`10/1s ${algorithm}`)
      await limiter.consume('a', 7)
      const { allowed, cost, remaining } = await limiter.consumeUpTo('a', 10)
      expect({ allowed, cost, remaining }).toEqual({ allowed: true, cost: 3, remaining: 0 })
    },
  )

  test('is denied with a cost of 1 and the time at which 1 unit fits, and spends nothing', async () => {
    const clock = new ManualClock(START)
    const limiter = limiterOf('10/1s', clock)
    await limiter.consume('a', 4)
    clock.advance(300)
    await limiter.consume('a', 6)
    clock.advance(100)
    const { allowed, cost, retryAfterMs } = await limiter.consumeUpTo('a', 10)
    expect({ allowed, cost, retryAfterMs }).toEqual({ allowed: false, cost: 1, retryAfterMs: 600 })
    clock.advance(600)
    expect((await limiter.consumeUpTo('a', 10)).cost).toBe(4)
  })

  test('under several limits spends as many units as fit under all of them', async () => {
    const limiter = limiterOf('10/1s; 5/1m name=slow')
    const { cost, verdicts } = await limiter.consumeUpTo('a', 8)
    expect({ cost, remaining: verdicts.map(({ remaining }) => remaining) }).toEqual({ cost: 5, remaining: [5, 0] })
  })

  test('a remembered denial of a larger cost does not refuse it', async () => {
    const limiter = limiterOf('10/1s')
    await limiter.consume('a', 8)
    expect((await limiter.consume('a', 5)).allowed).toBe(false)
    const { allowed, cost } = await limiter.consumeUpTo('a', 5)
    expect({ allowed, cost }).toEqual({ allowed: true, cost: 2 })
  })

  test('a blocked key gets nothing', async () => {
    const limiter = limiterOf('10/1s')
    await limiter.block('a', '1m')
    const { allowed, cost, retryAfterMs, blocked } = await limiter.consumeUpTo('a', 5)
    expect({ allowed, cost, retryAfterMs, blocked }).toEqual({
      allowed: false,
      cost: 1,
      retryAfterMs: 60_000,
      blocked: true,
    })
  })

  test('its decision can be settled', async () => {
    const limiter = limiterOf('10/1s')
    await limiter.settle(await limiter.consumeUpTo('a', 20), 4)
    expect((await limiter.peek('a', 0)).remaining).toBe(6)
  })

  test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])('rejects %p with CostError', async most => {
    const limiter = limiterOf('10/1s')
    const rejected = expect(limiter.consumeUpTo('a', most)).rejects
    await rejected.toThrow(CostError)
    await rejected.toThrow(`most ${most}: expected an integer ≥ 1, like 10`)
  })
})

test.each(['sliding-window', 'fixed-window', 'sliding-counter', 'token-bucket', 'leaky-bucket'])(
  'under %s memory and Redis grant and deny alike, whatever came before',
  async algorithm => {
    const clock = new ManualClock(START)
    const policy = `20/1s ${algorithm}; 50/10s name=slow`
    const redisLimiter = new RateLimiter({
      policy,
      store: new RedisStore(client, { clock, prefix: `up-to-${++prefixes}` }),
      deadline: '5s',
      denyCache: false,
    })
    const memoryLimiter = new RateLimiter({ policy, store: new MemoryStore({ clock }) })
    const random = randomFrom(algorithm)
    const outcome = ({ allowed, cost, remaining, retryAfterMs, resetAfterMs, delayMs, verdicts }: Decision) => {
      const told = verdicts.map(({ remaining, retryAfterMs, resetAfterMs }) => [remaining, retryAfterMs, resetAfterMs])
      return { allowed, cost, remaining, retryAfterMs, resetAfterMs, delayMs, told }
    }
    for (let i = 0; i < 200; i++) {
      clock.advance(random.integer(0, 300))
      const most = random.integer(1, 30)
      const expected = outcome(await memoryLimiter.consumeUpTo('a', most))
      expect(outcome(await redisLimiter.consumeUpTo('a', most))).toEqual(expected)
    }
  },
)

test.each(['10/1s', '10/1s token-bucket; 100/1m name=slow'])(
  'it does not overtake waiters under %s, and gets the units that they leave',
  async policy => {
    const store = new RedisStore(client, { prefix: `up-to-${++prefixes}` })
    const limiter = new RateLimiter({ policy: policy.replace('1s', '1h'), store, deadline: '5s', denyCache: false })
    await limiter.consume('a', 4)
    const gone = new AbortController()
    const waiting = limiter.acquire('a', { cost: 8, signal: gone.signal })
    while ((await client.exists(...(await client.keys(`${store.prefix}:!waiting*`)), 'none')) === 0) await pause(1)
    const before = await limiter.consume('a', 1)
    const denied = await limiter.consumeUpTo('a', 5)
    const after = await limiter.consume('a', 1)
    expect({ allowed: denied.allowed, cost: denied.cost }).toEqual({ allowed: false, cost: 1 })
    expect(denied.retryAfterMs).toBeLessThanOrEqual(before.retryAfterMs)
    expect(denied.retryAfterMs).toBeGreaterThanOrEqual(after.retryAfterMs)
    gone.abort(new Error('gone'))
    await expect(waiting).rejects.toThrow('gone')
    await limiter.close()
  },
)

test('while the store fails, the failure policy grants the units that its own count has left', async () => {
  const store = new MemoryStore()
  const failing: Store = {
    consume: () => Promise.reject(new Error('down')),
    peek: (charges, cost) => store.peek(charges, cost),
    refund: (charges, cost) => store.refund(charges, cost),
    reset: charges => store.reset(charges),
  }
  const observer = { storeFailed() {} }
  const limiter = new RateLimiter({ policy: '10/1m', store: failing, observer })
  await limiter.consume('a', 7)
  const { cost, source, degraded } = await limiter.consumeUpTo('a', 10)
  expect({ cost, source, degraded }).toEqual({ cost: 3, source: 'fallback', degraded: true })
})

test.each(['open', 'local'] as const)(
  'what the store refuses after the deadline is not asked for again, under %s',
  async onStoreFailure => {
    const store = new MemoryStore()
    const costs: number[] = []
    const late: Store = {
      consume: async (charges, cost) => {
        costs.push(cost)
        await pause(100)
        return store.consume(charges, cost)
      },
      peek: (charges, cost) => store.peek(charges, cost),
      refund: (charges, cost) => store.refund(charges, cost),
      reset: charges => store.reset(charges),
    }
    const limiter = new RateLimiter({ policy: '4/1h', store: late, deadline: 20, onStoreFailure, observer: {} })
    const { allowed, degraded } = await limiter.consumeUpTo('a', 10)
    expect({ allowed, degraded }).toEqual({ allowed: true, degraded: true })
    await pause(250)
    expect(costs).toEqual([10])
    expect(store.peek([{ key: 'a', limit: limiter.policy[0] }], 0)[0].remaining).toBe(4)
  },
)

test('a remembered denial of one unit has a cost of 1', async () => {
  const store = new StubStore()
  store.deny(1000)
  const limiter = new RateLimiter({ policy: '10/1m', store })
  await limiter.consume('a')
  const { allowed, cost, source } = await limiter.consumeUpTo('a', 5)
  expect({ allowed, cost, source }).toEqual({ allowed: false, cost: 1, source: 'deny-cache' })
})

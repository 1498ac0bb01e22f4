import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { CostError } from '../../src/core/errors.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { MemoryStore } from '../../src/stores/memory/memory-store.js'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import type { Store } from '../../src/stores/store.js'
import { ManualClock } from '../../src/testing.js'
import { RedisServer } from '../support/redis-server.js'
import { START } from '../support/stories.js'

let redis: RedisServer
let client: Redis
let prefixes = 0
beforeAll(async () => {
  redis = await RedisServer.start()
  client = redis.client()
})
afterAll(() => redis.stop())

const stores: [string, (clock: ManualClock) => Store][] = [
  ['memory', clock => new MemoryStore({ clock })],
  ['Redis', clock => new RedisStore(client, { clock, prefix: `up-to-${++prefixes}` })],
  ['Redis with leases', clock => new RedisStore(client, { clock, prefix: `up-to-${++prefixes}`, leases: true })],
]

describe.each(stores)('consumeUpTo over %s', (_, storeOf) => {
  const limiterOf = (policy: string, clock = new ManualClock(START)) =>
    new RateLimiter({ policy, store: storeOf(clock), deadline: '5s' })

  test('spends all that is asked for where it fits', async () => {
    const limiter = limiterOf('10/1s')
    const { allowed, cost, remaining } = await limiter.consumeUpTo('a', 4)
    expect({ allowed, cost, remaining }).toEqual({ allowed: true, cost: 4, remaining: 6 })
  })

  test.each(['sliding-window', 'fixed-window', 'sliding-counter', 'token-bucket', 'leaky-bucket'])(
    'spends what is left under %s, and no more',
    async algorithm => {
      const limiter = limiterOf(`10/1s ${algorithm}`)
      await limiter.consume('a', 7)
      const { allowed, cost, remaining } = await limiter.consumeUpTo('a', 10)
      expect({ allowed, cost, remaining }).toEqual({ allowed: true, cost: 3, remaining: 0 })
    },
  )

  test('is denied with a cost of 1 and the time at which 1 fits, and spends nothing', async () => {
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

  test('under several limits spends what fits under all of them', async () => {
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

  test('what it spent can be settled', async () => {
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

test('while the store fails, the failure policy gives what is left of its own count', async () => {
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

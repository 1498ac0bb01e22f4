import { beforeAll, describe, expect, test } from '@jest/globals'
import { MemoryStore as PeerStore } from 'express-rate-limit'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { PolicyError } from '../../src/limiter/core/errors.js'
import type { PolicyInput } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
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

describe('a policy that is a function', () => {
  test('is called for each decision, with the key as a text', async () => {
    const asked: string[] = []
    const policy = (key: string) => {
      asked.push(key)
      return '5/1m'
    }
    const limiter = new RateLimiter({ policy })
    await limiter.consume('ann')
    limiter.decide(42)
    await limiter.peek('bob')
    await limiter.acquire('cid')
    await limiter.consume({ '5-per-1m': 'dan' })
    expect(asked).toEqual(['ann', '42', 'bob', 'cid', 'dan'])
  })

  test('receives all keys of a record', async () => {
    const asked: string[] = []
    const policy = (key: string) => {
      asked.push(key)
      return '5/1m name=ip; 9/1m name=user'
    }
    await new RateLimiter({ policy }).consume({ ip: 'a', user: 7 })
    expect(asked).toEqual(['{"ip":"a","user":"7"}'])
  })

  test('sets the policy of the limiter: the last one returned, and none before', async () => {
    const limiter = new RateLimiter({ policy: key => (key === 'rich' ? '100/1m' : '5/1m') })
    expect(limiter.policy).toEqual([])
    await limiter.consume('rich')
    expect(limiter.policy).toMatchObject([{ quota: 100, windowMs: 60_000 }])
    const rich = limiter.policy
    await limiter.consume('poor')
    expect(limiter.policy).toMatchObject([{ quota: 5 }])
    await limiter.consume('rich')
    expect(limiter.policy).toBe(rich)
  })

  test('makes calls reject with the error that the function throws, and nothing is spent', async () => {
    const store = new StubStore()
    const mine = new Error('the plan is not known')
    const limiter = new RateLimiter({
      policy: () => {
        throw mine
      },
      store,
    })
    expect(() => limiter.decide('k')).toThrow(mine)
    for (const verb of ['consume', 'peek', 'acquire', 'refund', 'charge', 'reset', 'unblock'] as const) {
      await expect(limiter[verb]('k')).rejects.toBe(mine)
    }
    expect(store.calls).toEqual([])
  })

  test.each<[string, unknown, string]>([
    [
      'nothing',
      undefined,
      'RateLimiter: the policy function returned an invalid policy: policy: given undefined, expected text like "100/1m"',
    ],
    ['null', null, 'RateLimiter: the policy function returned an invalid policy: policy: given null'],
    ['a number', 5, 'RateLimiter: the policy function returned an invalid policy: policy: given 5'],
    [
      'a policy without meaning',
      'often',
      'RateLimiter: the policy function returned an invalid policy: limit "often": expected',
    ],
    ['a function', () => '5/1m', 'RateLimiter: the policy function returned an invalid policy: policy: given'],
    [
      'a promise',
      Promise.resolve('5/1m'),
      'RateLimiter: the policy function returned a promise: expected a policy, like "100/1m"',
    ],
  ])('that gives %s is a PolicyError, each time', async (_, given, message) => {
    const store = new StubStore()
    const limiter = new RateLimiter({ policy: () => given as string, store })
    for (let i = 0; i < 2; i++) {
      const attempt = () => limiter.decide('k')
      expect(attempt).toThrow(PolicyError)
      expect(attempt).toThrow(message)
      await expect(limiter.consume('k')).rejects.toThrow(message)
    }
    expect(store.calls).toEqual([])
  })

  test('is not called for an invalid key or cost', () => {
    const limiter = new RateLimiter({
      policy: () => {
        throw new Error('asked')
      },
    })
    expect(() => limiter.decide(undefined as unknown as string)).toThrow(/^key undefined/)
    expect(() => limiter.decide('k', -1)).toThrow(/^cost -1/)
  })

  test('is refused with a store made for express-rate-limit', () => {
    const attempt = () => new RateLimiter({ policy: () => '5/1m', store: new PeerStore() })
    expect(attempt).toThrow(PolicyError)
    expect(attempt).toThrow(/policy is a function, and the store .* expected a policy like "100\/1m fixed-window"/)
  })
})

describe.each<[string, (clock: ManualClock) => Store]>([
  ['memory', clock => new MemoryStore({ clock })],
  ['Redis', clock => new RedisStore(client, { clock, prefix: `policy function ${prefixes++}` })],
])('on %s, a policy that changes', (_, makeStore) => {
  const setUp = (first: PolicyInput) => {
    const clock = new ManualClock(START)
    const store = makeStore(clock)
    let policy = first
    const limiter = new RateLimiter({ policy: () => policy, store, deadline: '5s' })
    const become = (next: PolicyInput) => {
      policy = next
    }
    return { clock, limiter, become, store }
  }

  test('no longer refuses a key because of a denial under the previous policy', async () => {
    const { limiter, become, store } = setUp('1/1m name=plan')
    await limiter.consume('k')
    expect(await limiter.consume('k')).toMatchObject({ allowed: false })
    expect(await limiter.consume('k')).toMatchObject({ allowed: false })
    become('3/1m name=plan')
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, remaining: 1 })
    await store.close?.()
  })

  test('makes waiters wait for the limit that was in force at their request', async () => {
    const { clock, limiter, become, store } = setUp('1/100ms fixed-window name=plan')
    await limiter.consume('k')
    const waiting = limiter.acquire('k', { timeout: '10s' })
    await limiter.peek('k')
    clock.advance(100)
    become('2/100ms fixed-window name=plan')
    await limiter.reset('k')
    expect(await waiting).toMatchObject({ allowed: true, limit: { quota: 1 } })
    await limiter.close()
    await store.close?.()
  })
})

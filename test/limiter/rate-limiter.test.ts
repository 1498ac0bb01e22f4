import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { CostError, PolicyError } from '../../src/limiter/core/errors.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { START } from '../support/stories.js'
import { StubStore } from '../support/stub-store.js'
import { testRedis } from '../support/test-redis.js'
import { warnings } from '../support/warnings.js'

const warned = warnings()

const redis = testRedis()
let client: Redis
let prefixes = 0
beforeAll(() => {
  client = redis.client()
})

const policy = '1/1s'

describe('a RateLimiter', () => {
  test('takes every option at its bounds', () => {
    const bounds: Partial<RateLimiterOptions>[] = [
      { localShare: Number.MIN_VALUE },
      { localShare: 1 },
      { denyCache: 0 },
      { denyCache: true },
      { denyCache: false },
      { deadline: 1 },
      { deadline: '1d' },
      { shadow: false },
      { name: '{}:\0' },
      { store: undefined, name: undefined, deadline: undefined, localShare: undefined, shadow: undefined },
    ]
    for (const options of bounds) expect(() => new RateLimiter({ policy, ...options })).not.toThrow()
  })

  test('shows the policy that it read', () => {
    const limiter = new RateLimiter({ policy: '10/1s; 20/1m token-bucket' })
    expect(limiter.policy.map(({ name, algorithm }) => [name, algorithm])).toEqual([
      ['10-per-1s', 'sliding-window'],
      ['20-per-1m', 'token-bucket'],
    ])
    expect(Object.isFrozen(limiter.policy)).toBe(true)
  })

  describe.each(['consume', 'peek', 'refund'] as const)('%s', verb => {
    test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '1', null, 1n, {}, true])(
      'rejects a cost of %p with CostError before the store is asked',
      async cost => {
        const store = new StubStore()
        const limiter = new RateLimiter({ policy, store })
        const answer = limiter[verb]('k', cost as number)
        await expect(answer).rejects.toThrow(CostError)
        await expect(answer).rejects.toThrow(/^cost .*: expected an integer ≥ 0, like 1$/)
        await expect(answer).rejects.toMatchObject({ code: 'SPILLWAY_COST' })
        expect(store.calls).toEqual([])
      },
    )

    test('charges a cost of 1 by default', async () => {
      const store = new StubStore()
      const limiter = new RateLimiter({ policy: '5/1s', store })
      await limiter[verb]('k')
      await limiter[verb]('k', undefined)
      await limiter[verb]('k', 3)
      expect(store.calls).toEqual([`${verb} k@5-per-1s 1`, `${verb} k@5-per-1s 1`, `${verb} k@5-per-1s 3`])
    })
  })

  test.each(['consume', 'peek', 'refund', 'reset', 'unblock'] as const)(
    '%s rejects what is no key with PolicyError before the store is asked',
    async verb => {
      const store = new StubStore()
      const limiter = new RateLimiter({ policy, store })
      for (const key of [
        undefined,
        null,
        Number.NaN,
        Symbol('k'),
        () => 'k',
        1n,
        {},
        [],
        ['k'],
        { '1-per-1s': true },
        { other: 'k' },
      ]) {
        const answer = limiter[verb](key as string)
        await expect(answer).rejects.toThrow(PolicyError)
        await expect(answer).rejects.toThrow(/key/)
      }
      expect(store.calls).toEqual([])
    },
  )

  describe.each<[string, (clock: ManualClock) => Store, Decision['source']]>([
    ['memory', clock => new MemoryStore({ clock }), 'memory'],
    ['Redis', clock => new RedisStore(client, { clock, prefix: `limiter ${prefixes++}` }), 'redis'],
  ])('on %s', (_, makeStore, source) => {
    const stores: Store[] = []
    afterEach(() => {
      for (const store of stores.splice(0)) store.close?.()
    })
    const setUp = (options: Partial<RateLimiterOptions> = {}) => {
      const clock = new ManualClock(START)
      const store = makeStore(clock)
      stores.push(store)
      const limiter = (more: Partial<RateLimiterOptions> = {}) =>
        new RateLimiter({ policy: '5/10s', store, deadline: '5s', denyCache: false, ...options, ...more })
      return { clock, store, limiter: limiter(), another: limiter }
    }

    test('spends, and denies requests that do not fit, with the time to come back', async () => {
      const { clock, limiter } = setUp()
      const limit = limiter.policy[0]
      const verdict = { limit, allowed: true, remaining: 2, retryAfterMs: 0, resetAfterMs: 10_000, delayMs: 0 }
      const decision = await limiter.consume('k', 3)
      expect({ ...decision }).toEqual({
        ...verdict,
        key: 'k',
        cost: 3,
        verdicts: [verdict],
        source,
        degraded: false,
        shadow: false,
      })
      clock.advance(4000)
      expect(await limiter.consume('k', 3)).toMatchObject({ allowed: false, remaining: 2, retryAfterMs: 6000, cost: 3 })
      clock.advance(5999)
      expect(await limiter.consume('k', 3)).toMatchObject({ allowed: false, retryAfterMs: 1 })
      clock.advance(1)
      expect(await limiter.consume('k', 3)).toMatchObject({ allowed: true, remaining: 2 })
    })

    test('peeks without spending', async () => {
      const { limiter } = setUp()
      expect(await limiter.peek('k', 5)).toMatchObject({ allowed: true, remaining: 0, cost: 5, source })
      expect(await limiter.peek('k', 0)).toMatchObject({ allowed: true, remaining: 5, resetAfterMs: 0 })
      await limiter.consume('k', 5)
      expect(await limiter.peek('k')).toMatchObject({ allowed: false, retryAfterMs: 10_000 })
      expect(await limiter.peek('k', 6)).toMatchObject({ allowed: false, retryAfterMs: Number.POSITIVE_INFINITY })
    })

    test('a cost of 0 passes even if nothing is left, and changes nothing', async () => {
      const { limiter } = setUp()
      await limiter.consume('k', 5)
      expect(await limiter.consume('k', 0)).toMatchObject({ allowed: true, remaining: 0, cost: 0 })
    })

    test('refunds', async () => {
      const { limiter } = setUp()
      await limiter.consume('k', 5)
      expect(await limiter.refund('k')).toBeUndefined()
      expect((await limiter.peek('k', 0)).remaining).toBe(1)
      await limiter.refund('k', 2)
      expect((await limiter.peek('k', 0)).remaining).toBe(3)
      await limiter.refund('k', 0)
      await limiter.refund('unheard-of', 5)
      expect((await limiter.peek('k', 0)).remaining).toBe(3)
    })

    test('resets', async () => {
      const { limiter } = setUp()
      await limiter.consume('k', 5)
      expect(await limiter.reset('k')).toBeUndefined()
      expect(await limiter.peek('k', 0)).toMatchObject({ remaining: 5, resetAfterMs: 0 })
    })

    test('decides several limits together, and reports the strictest', async () => {
      const { clock, limiter } = setUp({ policy: '2/1s; 3/1m fixed-window; 100/1h token-bucket' })
      expect(await limiter.consume('k', 2)).toMatchObject({ allowed: true, remaining: 0, limit: limiter.policy[0] })
      const denied = await limiter.consume('k', 2)
      expect(denied).toMatchObject({ allowed: false, limit: limiter.policy[1], retryAfterMs: 60_000 })
      expect(denied.verdicts.map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
        [false, 0],
        [false, 1],
        [true, 98],
      ])
      clock.advance(1000)
      expect(await limiter.consume('k')).toMatchObject({ allowed: true, remaining: 0, limit: limiter.policy[1] })
    })

    test('shares its counts with limiters of the same name, and with no others', async () => {
      const { limiter, another } = setUp()
      await limiter.consume('k', 4)
      const left = async (options: Partial<RateLimiterOptions>) => (await another(options).peek('k', 0)).remaining
      expect(await left({})).toBe(1)
      expect(await left({ name: 'default' })).toBe(1)
      expect(await left({ name: 'Default' })).toBe(5)
      expect(await left({ name: 'default:' })).toBe(5)
      expect(await left({ policy: '5/10000ms' })).toBe(1)
      expect(await left({ policy: '5/10s name=other' })).toBe(5)
    })

    test('in shadow mode allows everything and reports what it would have done', async () => {
      const seen: Decision[] = []
      const { limiter } = setUp({ shadow: true, observer: { decided: decision => seen.push(decision) } })
      expect(await limiter.consume('k', 5)).toMatchObject({ allowed: true, remaining: 0 })
      const passed = await limiter.consume('k')
      expect(passed).toMatchObject({ allowed: true, remaining: 0, retryAfterMs: 0, delayMs: 0, source })
      expect(passed.verdicts).toMatchObject([{ allowed: false, retryAfterMs: 10_000 }])
      expect(await limiter.consume('k', 99)).toMatchObject({ allowed: true, retryAfterMs: 0 })
      expect(await limiter.peek('k')).toMatchObject({ allowed: true, verdicts: [{ allowed: false }] })
      expect(seen.map(({ cost, allowed, verdicts }) => [cost, allowed, verdicts[0].allowed])).toEqual([
        [5, true, true],
        [1, true, false],
        [99, true, false],
      ])
    })

    test('denies a blocked key, and only that key, until the block ends or is lifted', async () => {
      const { clock, limiter } = setUp()
      await limiter.consume('k', 2)
      await limiter.block('k', '1m')
      const blocked = await limiter.consume('k')
      expect(blocked).toMatchObject({ allowed: false, blocked: true, remaining: 3, retryAfterMs: 60_000 })
      expect(await limiter.consume('other')).toMatchObject({ allowed: true })
      clock.advance(59_999)
      expect(await limiter.consume('k')).toMatchObject({ allowed: false, blocked: true, retryAfterMs: 1 })
      clock.advance(1)
      expect(await limiter.consume('k')).toMatchObject({ allowed: true, remaining: 4 })
      await limiter.block('k', '1h')
      await limiter.block('k', '1s')
      expect((await limiter.peek('k')).retryAfterMs).toBe(1000)
      await limiter.unblock('k')
      expect(await limiter.peek('k', 0)).toMatchObject({ allowed: true, remaining: 4 })
    })

    test('reports that a cost never fits, although the key is blocked', async () => {
      const { limiter } = setUp()
      await limiter.block('k', '1m')
      const decision = await limiter.consume('k', 6)
      expect(decision).toMatchObject({ allowed: false, retryAfterMs: Number.POSITIVE_INFINITY })
      expect(decision.blocked).toBeUndefined()
    })

    test('refuses a block of no duration', async () => {
      const { limiter } = setUp()
      await expect(limiter.block('k', 0)).rejects.toThrow('block: duration: duration 0: expected')
      await expect(limiter.block('k', 'soon')).rejects.toThrow(PolicyError)
    })

    test('settles a decision when its cost is known: less is given back, more is charged', async () => {
      const { limiter } = setUp()
      const left = async () => (await limiter.peek('k', 0)).remaining
      const decision = await limiter.consume('k', 3)
      await limiter.settle(decision, 1)
      expect(await left()).toBe(4)
      await limiter.settle(decision, 0)
      await limiter.settle(decision, 5)
      expect(await left()).toBe(4)
      await limiter.settle(await limiter.consume('k', 1), 4)
      expect(await left()).toBe(0)
      await limiter.settle(await limiter.consume('other', 2), 2)
      expect((await limiter.peek('other', 0)).remaining).toBe(3)
    })

    test('settles more than fits as a debt, which must expire before anything is allowed', async () => {
      const { clock, limiter } = setUp()
      const decision = await limiter.consume('k', 1)
      clock.advance(1000)
      await limiter.settle(decision, 12)
      expect(await limiter.consume('k', 1)).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 10_000 })
      clock.advance(10_000)
      expect(await limiter.consume('k', 5)).toMatchObject({ allowed: true })
    })

    test('has nothing to settle if nothing was spent', async () => {
      const { limiter } = setUp()
      await limiter.consume('k', 4)
      const denied = await limiter.consume('k', 2)
      await limiter.settle(denied, 0)
      await limiter.settle(await limiter.peek('k', 1), 0)
      expect((await limiter.peek('k', 0)).remaining).toBe(1)
      await expect(limiter.settle(denied, -1)).rejects.toThrow(CostError)
    })

    test('uses the key of each limit by the name of the limit', async () => {
      const { limiter } = setUp({ policy: '2/1s name=ip; 3/1s name=user; 4/1s name=constructor' })
      const left = (decision: Decision) => decision.verdicts.map(({ limit, remaining }) => `${limit.name} ${remaining}`)
      expect(left(await limiter.consume({ ip: 'a', user: 'x' }))).toEqual(['ip 1', 'user 2'])
      expect(left(await limiter.consume({ user: 'x', ip: 'b' }))).toEqual(['ip 1', 'user 1'])
      expect(left(await limiter.consume({ ip: undefined, user: 'x' }))).toEqual(['user 0'])
      const denied = await limiter.consume({ ip: 'a', user: 'x' })
      expect(denied).toMatchObject({ allowed: false, key: 'x', limit: { name: 'user' } })
      expect(left(denied)).toEqual(['ip 1', 'user 0'])
      await limiter.refund({ user: 'x' }, 2)
      expect(left(await limiter.peek({ user: 'x', ip: 'a' }, 0))).toEqual(['ip 1', 'user 2'])
      await limiter.reset({ ip: 'a' })
      expect(left(await limiter.peek('a', 0))).toEqual(['ip 2', 'user 3', 'constructor 4'])
    })

    test('does not take a key with an inherited name for a key', async () => {
      const { limiter } = setUp({ policy: '2/1s name=ip; 3/1s name=toString; 4/1s name=__proto__' })
      expect((await limiter.consume({ ip: 'a' })).verdicts).toHaveLength(1)
      expect((await limiter.consume({ ip: 'a', ['__proto__']: 'b' })).verdicts).toHaveLength(2)
    })
  })

  test('closes its own store, but not a store that it was given', async () => {
    jest.useFakeTimers()
    try {
      const own = new RateLimiter({ policy })
      await own.consume('k')
      expect(jest.getTimerCount()).toBe(1)
      await own.close()
      expect(jest.getTimerCount()).toBe(0)
      const store = new MemoryStore()
      const given = new RateLimiter({ policy, store })
      await given.consume('k')
      await given.close()
      expect(store.size).toBe(1)
      store.close()
    } finally {
      jest.useRealTimers()
    }
  })

  test('without a store keeps its counts to itself', async () => {
    const [a, b] = [new RateLimiter({ policy }), new RateLimiter({ policy })]
    expect((await a.consume('k')).allowed).toBe(true)
    expect((await b.consume('k')).allowed).toBe(true)
    expect((await a.consume('k')).allowed).toBe(false)
    await Promise.all([a.close(), b.close()])
  })

  test('calls its observer for every decision of consume; errors of the observer change none', async () => {
    const seen: boolean[] = []
    const limiter = new RateLimiter({
      policy,
      observer: {
        decided({ allowed }) {
          seen.push(allowed)
          if (!allowed) throw new Error('mine')
        },
      },
    })
    expect(
      [await limiter.consume('k'), await limiter.peek('k'), await limiter.consume('k')].map(({ allowed }) => allowed),
    ).toEqual([true, false, false])
    expect(seen).toEqual([true, false])
    expect(warned.texts).toEqual(['observer.decided threw: mine'])
    await limiter.close()
  })
})

import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { CostError, StoreError } from '../../src/limiter/core/errors.js'
import type { StoreFailure } from '../../src/limiter/fallback.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { runChild } from '../support/child.js'
import { eventually } from '../support/eventually.js'
import { Lateness } from '../support/lateness.js'
import { END_MS } from '../support/redis-server.js'
import { StubStore } from '../support/stub-store.js'
import { testRedis } from '../support/test-redis.js'
import { freshVerdict } from '../support/verdicts.js'

const POLICIES: readonly StoreFailure[] = ['local', 'open', 'closed']
const SOURCES = { local: 'fallback', open: 'open', closed: 'closed' } as const

const WAYS: readonly [string, () => Promise<never>][] = [
  ['rejects', () => Promise.reject(new Error('no'))],
  [
    'throws at once',
    () => {
      throw new Error('no')
    },
  ],
  ['rejects with a text', () => Promise.reject('no')],
  ['rejects with nothing', () => Promise.reject(undefined)],
  [
    'throws nothing',
    () => {
      throw undefined
    },
  ],
  ['never answers', () => new Promise<never>(() => {})],
]

/** What `work` resolves with, which must be at most 30 ms after the deadline, and as late as the machine is. */
async function onTime<T>(deadlineMs: number, work: () => Promise<T>): Promise<T> {
  const late = await Lateness.of()
  const startedAt = performance.now()
  const value = await work()
  const tookMs = performance.now() - startedAt
  expect(tookMs).toBeLessThan(deadlineMs + 30 + (await late.stop()))
  return value
}

describe.each(WAYS)('when the store %s', (_, fail) => {
  test.each(POLICIES)('%s decides in its place, and says so', async onStoreFailure => {
    const store = new StubStore()
    const limiter = new RateLimiter({ policy: '5/10s', store, onStoreFailure, deadline: 20 })
    expect(await limiter.consume('k')).toMatchObject({ source: 'redis', degraded: false })
    store.answer = fail
    for (const verb of ['peek', 'consume'] as const) {
      const decision = await limiter[verb]('k', 2)
      expect(decision).toMatchObject({
        allowed: onStoreFailure !== 'closed',
        source: SOURCES[onStoreFailure],
        degraded: true,
        key: 'k',
        cost: 2,
        delayMs: 0,
        limit: limiter.policy[0],
        remaining: onStoreFailure === 'closed' ? 0 : 3,
      })
      expect(decision.retryAfterMs > 0 && decision.retryAfterMs < 60_000).toBe(onStoreFailure === 'closed')
    }
    store.answer = new StubStore().answer
    expect(await limiter.consume('k')).toMatchObject({ source: 'redis', degraded: false, allowed: true })
    await limiter.close()
  })

  test.each(['refund', 'reset', 'unblock'] as const)('%s rejects with StoreError', async verb => {
    const store = new StubStore()
    store.act = fail
    const limiter = new RateLimiter({ policy: '5/10s', store, deadline: 20 })
    const error = await onTime(20, () => limiter[verb]('k').catch(error => error))
    expect(error).toBeInstanceOf(StoreError)
    expect(error).toMatchObject({ code: 'SPILLWAY_STORE' })
  })
})

test('the error of a store that failed carries its cause', async () => {
  const store = new StubStore()
  const cause = new Error("READONLY You can't write against a read only replica.")
  store.act = () => Promise.reject(cause)
  const limiter = new RateLimiter({ policy: '5/10s', store })
  await expect(limiter.refund('k')).rejects.toMatchObject({ cause, message: expect.stringContaining(cause.message) })
})

test.each<[string, unknown]>([
  ['nothing', undefined],
  ['null', null],
  ['no verdict at all', []],
  ['too few verdicts', [freshVerdict(new RateLimiter({ policy: '5/10s' }).policy[0])]],
  ['a verdict that is none', [null, null]],
])('a store that answers %s has failed', async (_, nonsense) => {
  for (const answer of [async () => nonsense, () => nonsense]) {
    const store = new StubStore()
    store.answer = answer as StubStore['answer']
    const limiter = new RateLimiter({ policy: '5/10s; 6/1m', store, onStoreFailure: 'open' })
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, degraded: true, source: 'open' })
  }
})

describe('while the store fails', () => {
  const failing = (options: Partial<RateLimiterOptions> = {}, store = new StubStore()) => {
    store.answer = () => Promise.reject(new Error('down'))
    store.act = () => Promise.reject(new Error('down'))
    return new RateLimiter({ policy: '5/10s', store, ...options })
  }

  test('local grants the quota once, for each key', async () => {
    const limiter = failing()
    const spend = async (key: string) => (await limiter.consume(key)).allowed
    for (const key of ['a', 'b']) {
      const grants = [
        await spend(key),
        await spend(key),
        await spend(key),
        await spend(key),
        await spend(key),
        await spend(key),
      ]
      expect(grants).toEqual([true, true, true, true, true, false])
    }
    const denied = await limiter.consume('a')
    expect(denied).toMatchObject({ allowed: false, source: 'fallback', degraded: true })
    expect(denied.retryAfterMs).toBeGreaterThan(9000)
    expect(denied.retryAfterMs).toBeLessThanOrEqual(10_000)
    await limiter.close()
  })

  test('local uses the clock of the store', async () => {
    const store = Object.assign(new StubStore(), { clock: { now: () => 1_000_000 } })
    const limiter = failing({}, store)
    await limiter.consume('k', 5)
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, retryAfterMs: 10_000 })
    await limiter.close()
  })

  test.each([
    ['10/1s', 1, 10],
    ['10/1s', 0.5, 5],
    ['10/1s', 0.25, 2],
    ['10/1s', 1 / 3, 3],
    ['10/1s', 0.999, 9],
    ['10/1s', 0.01, 1],
    ['1/1s', 0.5, 1],
    ['100/1s token-bucket burst=10', 0.5, 5],
    ['100/1s leaky-bucket burst=1', 0.01, 1],
    ['0/1s', 0.5, 0],
  ])('of %s a share of %d lets %d pass', async (policy, localShare, expected) => {
    const limiter = failing({ policy, localShare })
    expect((await limiter.peek('k', 0)).remaining).toBe(expected)
    await limiter.close()
  })

  test('a share of one in so many processes is exact, for any number of them', async () => {
    const wrong: string[] = []
    for (let processes = 1; processes <= 300; processes++) {
      for (const each of [1, 2, 7, 100]) {
        const limiter = failing({ policy: `${each * processes}/1s`, localShare: 1 / processes })
        const { remaining } = await limiter.peek('k', 0)
        if (remaining !== each) wrong.push(`${each * processes} / ${processes} = ${remaining}`)
        await limiter.close()
      }
    }
    expect(wrong).toEqual([])
  })

  test('what fits into the limit, but not into the share, may come again', async () => {
    const limiter = failing({ policy: '100/1m', localShare: 0.1 })
    expect(await limiter.consume('k', 50)).toMatchObject({ allowed: false, remaining: 10, retryAfterMs: 1000 })
    expect(await limiter.consume('k', 101)).toMatchObject({ allowed: false, retryAfterMs: Number.POSITIVE_INFINITY })
    await expect(limiter.acquire('k', { cost: 50, timeout: '900ms' })).rejects.toThrow('which is after the timeout')
  })

  test('a bad cost is still an error, and shadow still lets pass', async () => {
    await expect(failing().consume('k', -1)).rejects.toThrow(CostError)
    const limiter = failing({ onStoreFailure: 'closed', shadow: true })
    expect(await limiter.consume('k')).toMatchObject({
      allowed: true,
      source: 'closed',
      degraded: true,
      verdicts: [{ allowed: false }],
    })
  })

  test('open and closed answer for every limit', async () => {
    const policy = '5/10s; 7/1m token-bucket burst=3; 9/1h leaky-bucket'
    const open = await failing({ policy, onStoreFailure: 'open' }).consume('k', 2)
    expect(open.verdicts.map(({ allowed, delayMs }) => [allowed, delayMs])).toEqual([
      [true, 0],
      [true, 0],
      [true, 0],
    ])
    const closed = await failing({ policy, onStoreFailure: 'closed' }).consume('k', 2)
    expect(closed.verdicts.map(({ allowed }) => allowed)).toEqual([false, false, false])
  })

  test('a decision of the local fallback can be settled there', async () => {
    const limiter = failing()
    const decision = await limiter.consume('k', 5)
    await limiter.settle(decision, 2)
    expect((await limiter.peek('k', 0)).remaining).toBe(3)
    await limiter.close()
  })

  test('no promise is left that rejects without a handler', async () => {
    const { code, stderr } = await runChild(
      `import { RateLimiter } from './src/limiter/rate-limiter.ts'
       const later = () => new Promise((_, reject) => setTimeout(() => reject(new Error('late')), 60))
       const ways = [later, () => Promise.reject(new Error('now')), () => { throw new Error('thrown') }, () => new Promise(() => {})]
       for (const way of ways) {
         const store = { consume: way, peek: way, refund: way, reset: way, charge: way, block: way }
         for (const onStoreFailure of ['local', 'open', 'closed']) {
           const limiter = new RateLimiter({ policy: '5/1s', store, onStoreFailure, deadline: 20, observer: {} })
           const decision = await limiter.consume('k')
           await limiter.peek('k')
           await Promise.allSettled([limiter.refund('k'), limiter.reset('k'), limiter.block('k', 5), limiter.settle(decision, 0)])
           void limiter.consume('k')
           await limiter.close()
         }
       }
       setTimeout(() => {}, 100)`,
    )
    expect(stderr.replace(/.*ExperimentalWarning.*/g, '')).toBe('')
    expect(code).toBe(0)
  })
})

test('a store whose promise calls back synchronously has answered', async () => {
  const thenable = <T>(value: T) => ({
    // biome-ignore lint/suspicious/noThenProperty: what libraries of old promises give
    then: (given: (value: T) => unknown) => thenable(given(value)),
  })
  const store = new StubStore()
  store.answer = charges => thenable(charges.map(({ limit }) => freshVerdict(limit))) as never
  const limiter = new RateLimiter({ policy: '5/10s', store, onStoreFailure: 'closed' })
  expect(await limiter.consume('k')).toMatchObject({ source: 'redis', allowed: true })
  expect(await limiter.peek('k')).toMatchObject({ source: 'redis', allowed: true })
})

describe('a store that fails too often is not asked', () => {
  beforeEach(() => {
    jest.useFakeTimers()
  })
  afterEach(() => {
    jest.useRealTimers()
  })
  const setUp = (options: Partial<RateLimiterOptions> = {}) => {
    const store = new StubStore()
    const told: string[] = []
    const limiter = new RateLimiter({
      policy: '1000/10s',
      store,
      onStoreFailure: 'open',
      observer: {
        storeFailed: () => told.push('failed'),
        breakerOpened: () => told.push('opened'),
        breakerClosed: () => told.push('closed'),
      },
      ...options,
    })
    const down = () => {
      store.answer = () => Promise.reject(new Error('down'))
    }
    const up = () => {
      store.answer = new StubStore().answer
    }
    /** How many of so many decisions asked the store. */
    const asked = async (times: number) => {
      store.calls.length = 0
      for (let i = 0; i < times; i++) await limiter.consume('k')
      return store.calls.length
    }
    return { store, limiter, told, down, up, asked }
  }

  test('once 20 decisions failed, but for a probe every 200 ms', async () => {
    const { asked, down, told } = setUp()
    down()
    expect(await asked(100)).toBe(20)
    expect(told.filter(what => what === 'opened')).toHaveLength(1)
    jest.advanceTimersByTime(199)
    expect(await asked(100)).toBe(0)
    jest.advanceTimersByTime(1)
    expect(await asked(100)).toBe(1)
    jest.advanceTimersByTime(1000)
    expect(await asked(100)).toBe(1)
  })

  test('not even by an observer that asks again after each failure', async () => {
    const store = new StubStore()
    store.answer = () => {
      throw new Error('down')
    }
    const limiter: RateLimiter = new RateLimiter({
      policy: '1000/10s',
      store,
      onStoreFailure: 'open',
      observer: { storeFailed: () => void limiter.consume('log') },
    })
    expect(await limiter.consume('k')).toMatchObject({ source: 'open' })
    expect(store.calls).toHaveLength(20)
  })

  test('until a probe succeeds', async () => {
    const { limiter, asked, down, up, told } = setUp()
    down()
    await asked(30)
    up()
    expect(await limiter.consume('k')).toMatchObject({ degraded: true })
    jest.advanceTimersByTime(200)
    expect(await limiter.consume('k')).toMatchObject({ degraded: false })
    expect(told.at(-1)).toBe('closed')
    expect(await asked(50)).toBe(50)
  })

  test('if at least half of its answers of the last ten seconds were failures', async () => {
    const { asked, down, up, told } = setUp()
    await asked(30)
    down()
    expect(await asked(19)).toBe(19)
    up()
    await asked(1)
    down()
    expect(await asked(11)).toBe(11)
    expect(told).not.toContain('opened')
    // 31 of 62.
    expect(await asked(5)).toBe(1)
    expect(told).toContain('opened')
  })

  test('or if 20 calls in a row failed, however many succeeded before', async () => {
    const { asked, down, up, told } = setUp()
    await asked(1000)
    down()
    expect(await asked(19)).toBe(19)
    up()
    await asked(1)
    down()
    expect(await asked(19)).toBe(19)
    expect(told).not.toContain('opened')
    expect(await asked(5)).toBe(1)
    expect(told).toContain('opened')
  })

  test('and not for failures that are older than ten seconds', async () => {
    const { asked, down, up, told } = setUp()
    down()
    expect(await asked(19)).toBe(19)
    jest.advanceTimersByTime(11_000)
    up()
    await asked(1)
    down()
    expect(await asked(18)).toBe(18)
    expect(told).not.toContain('opened')
  })

  test('but its denials that are remembered still hold', async () => {
    const { limiter, asked, down, store } = setUp()
    store.deny(60_000)
    await limiter.consume('denied')
    down()
    await asked(30)
    expect(await limiter.consume('denied')).toMatchObject({ allowed: false, source: 'deny-cache' })
  })

  test('not by other limiters over it either', async () => {
    const { asked, down, store } = setUp()
    down()
    await asked(30)
    const other = new RateLimiter({ policy: '5/1s', store, name: 'other' })
    store.calls.length = 0
    expect(await other.consume('k')).toMatchObject({ degraded: true })
    expect(store.calls).toEqual([])
  })

  test('not for changes either', async () => {
    const { limiter, asked, down, store } = setUp()
    down()
    await asked(30)
    store.calls.length = 0
    await expect(limiter.refund('k')).rejects.toThrow('is not asked')
    await expect(limiter.reset('k')).rejects.toThrow('is not asked')
    expect(store.calls).toEqual([])
    jest.advanceTimersByTime(200)
    await limiter.refund('k')
    await limiter.reset('k')
    expect(store.calls).toEqual(['refund k@1000-per-10s 1', 'reset k@1000-per-10s'])
  })
})

/** Tries again every 20 ms, but not for ever, so that a test that fails does not hang. */
const forAWhile = (times: number) => (times < 100 ? 20 : null)

describe('over a Redis', () => {
  const redis = testRedis()
  const limiterOver = (store: Store, onStoreFailure: StoreFailure, deadline = 50) =>
    new RateLimiter({ policy: '5/10s', store, onStoreFailure, deadline, name: `${onStoreFailure} ${deadline}` })

  test.each(POLICIES)('that stands still, %s answers within the deadline plus 30 ms', async onStoreFailure => {
    const limiter = limiterOver(new RedisStore(redis.client()), onStoreFailure)
    await eventually('Redis answers', async () => !(await limiter.peek('k', 0)).degraded)
    expect(await limiter.consume('k')).toMatchObject({ source: 'redis', degraded: false, remaining: 4 })
    redis.pause()
    try {
      const decision = await onTime(50, () => limiter.consume('k', 1))
      expect(decision).toMatchObject({
        source: SOURCES[onStoreFailure],
        degraded: true,
        allowed: onStoreFailure !== 'closed',
      })
      const many = await onTime(50, () => Promise.all(Array.from({ length: 15 }, () => limiter.peek('k'))))
      expect(many.every(({ degraded }) => degraded)).toBe(true)
      for (const change of [() => limiter.refund('k'), () => limiter.reset('k'), () => limiter.block('k', '1m')]) {
        const error = await onTime(50, () => change().catch(error => error))
        expect(error).toBeInstanceOf(StoreError)
      }
    } finally {
      redis.unpause()
    }
    await eventually('Redis answers again', async () => {
      await limiter.unblock('k')
      await limiter.reset('k')
      return true
    })
    expect(await limiter.consume('k')).toMatchObject({ source: 'redis', degraded: false, remaining: 4 })
    await limiter.close()
  })

  test('a deadline of 2 s waits for a server that stands still for 100 ms', async () => {
    const limiter = limiterOver(new RedisStore(redis.client()), 'closed', 2000)
    await eventually('Redis answers', async () => !(await limiter.peek('k', 0)).degraded)
    redis.pause()
    const decision = limiter.consume('k')
    // Within the deadline, in real time.
    setTimeout(() => redis.unpause(), 100)
    expect(await decision).toMatchObject({ source: 'redis', degraded: false })
    await limiter.close()
  })

  test('without a listening process, an answer comes within the deadline plus 30 ms', async () => {
    const client = redis.track(
      new Redis({ port: 1, host: '127.0.0.1', retryStrategy: forAWhile, disconnectTimeout: END_MS }),
    )
    const limiter = limiterOver(new RedisStore(client), 'local')
    for (let i = 0; i < 5; i++) {
      await onTime(50, () => limiter.peek('k'))
      const decision = await limiter.consume('k')
      expect(decision).toMatchObject({ allowed: true, source: 'fallback', degraded: true, remaining: 4 - i })
    }
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, source: 'fallback' })
    await limiter.close()
  })

  test('a client that was closed while it connected is not opened again', async () => {
    let reconnects = 0
    for (let round = 0; round < 8; round++) {
      const client = redis.track(
        new Redis({ port: 1, host: '127.0.0.1', retryStrategy: forAWhile, disconnectTimeout: END_MS }),
      )
      const limiter = limiterOver(new RedisStore(client), 'open')
      for (let i = 0; i < 30; i++) {
        await limiter.consume('k')
        // The client tries to connect meanwhile, by a timer of its own.
        await new Promise(resolve => setTimeout(resolve, 3))
      }
      client.disconnect()
      client.on('reconnecting', () => reconnects++)
      await limiter.consume('k')
    }
    // As long as a reconnection would take to come.
    await new Promise(resolve => setTimeout(resolve, 100))
    expect(reconnects).toBe(0)
  })

  test('with a closed client the failure policy answers at once', async () => {
    const client = redis.client()
    const limiter = limiterOver(new RedisStore(client), 'open')
    await limiter.consume('k')
    await client.quit()
    const decision = await onTime(1, () => limiter.consume('k'))
    expect(decision).toMatchObject({ source: 'open', degraded: true })
    await expect(limiter.refund('k')).rejects.toThrow(StoreError)
  })

  test('a lazy client is connected by the first decision', async () => {
    const client = redis.client({ lazyConnect: true })
    const limiter = limiterOver(new RedisStore(client, { prefix: 'lazy' }), 'closed', 2000)
    expect(await limiter.consume('k')).toMatchObject({ source: 'redis', remaining: 4 })
  })

  test('a key with a foreign value counts as unused, and harms no other', async () => {
    const client = redis.client()
    const store = new RedisStore(client, { prefix: 'foreign' })
    const limiter = limiterOver(store, 'open', 5000)
    await limiter.consume('bad')
    const [key] = await client.keys('foreign*bad*')
    await client.set(key, 'something else')
    const decisions = await Promise.all(['a', 'bad', 'b', 'bad'].map(key => limiter.consume(key)))
    expect(decisions.map(({ degraded, remaining }) => [degraded, remaining])).toEqual([
      [false, 4],
      [false, 4],
      [false, 4],
      [false, 3],
    ])
  })
})

test.each([
  [
    'at once',
    (error: Error) => () => {
      throw error
    },
  ],
  ['later', (error: Error) => () => Promise.reject(error)],
])("a store's own error of a call, thrown %s, says nothing of the store and reaches the caller", async (_, failing) => {
  const store = new StubStore()
  const failures: Error[] = []
  const observer = { storeFailed: (error: Error) => failures.push(error) }
  const limiter = new RateLimiter({ policy: '9/1h', store, observer })
  const error = new CostError('too much for this store')
  store.act = failing(error)
  await expect(limiter.refund('k', 1)).rejects.toBe(error)
  expect(failures).toEqual([])
})

import { beforeEach, describe, expect, jest, test } from '@jest/globals'
import express from 'express'
import { MemoryStore as HitMemoryStore } from 'express-rate-limit'
import Koa from 'koa'
import request from 'supertest'
import { rateLimit } from '../../src/http/adapters/express.js'
import { rateLimit as koaRateLimit } from '../../src/http/adapters/koa.js'
import type { CallbackHitStore, HitStore } from '../../src/limiter/hit-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'

const START = 1_700_000_000_000
let store: HitMemoryStore
beforeEach(() => {
  store = new HitMemoryStore()
})

async function atStart<Result>(act: () => Promise<Result>): Promise<Result> {
  jest.useFakeTimers({
    now: START,
    doNotFake: ['setTimeout', 'setImmediate', 'nextTick', 'queueMicrotask', 'performance'],
  })
  try {
    return await act()
  } finally {
    store.shutdown()
    jest.useRealTimers()
  }
}

/** A store without `get`, as a database may have it, which tells whether it was ever below 0. */
class Plain implements HitStore {
  readonly hits = new Map<string, number>()
  readonly told: unknown[] = []
  least = 0
  init(options: object) {
    this.told.push(options)
  }
  async increment(key: string) {
    const totalHits = (this.hits.get(key) ?? 0) + 1
    this.hits.set(key, totalHits)
    return { totalHits, resetTime: undefined }
  }
  async decrement(key: string) {
    const totalHits = (this.hits.get(key) ?? 0) - 1
    this.hits.set(key, totalHits)
    this.least = Math.min(this.least, totalHits)
  }
  async resetKey(key: string) {
    this.hits.delete(key)
  }
}

describe('a limiter on a store of express-rate-limit', () => {
  test('counts a fixed window: exact waits, refusals that spend nothing', () =>
    atStart(async () => {
      const limiter = new RateLimiter({ policy: '2/1s', store, denyCache: false })
      expect(limiter.policy[0].algorithm).toBe('fixed-window')
      const ask = () => limiter.consume('me')
      expect(await ask()).toMatchObject({ allowed: true, remaining: 1, retryAfterMs: 0, resetAfterMs: 1000 })
      jest.setSystemTime(START + 400)
      expect(await ask()).toMatchObject({ allowed: true, remaining: 0, resetAfterMs: 600 })
      for (let i = 0; i < 3; i++) expect(await ask()).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 600 })
      await limiter.refund('me')
      expect(await ask()).toMatchObject({ allowed: true, remaining: 0 })
      jest.setSystemTime(START + 999)
      expect(await ask()).toMatchObject({ allowed: false, retryAfterMs: 1 })
      jest.setSystemTime(START + 1000)
      expect(await ask()).toMatchObject({ allowed: true, remaining: 1, degraded: false })
    }))

  test('a cost is that many hits, all or none', () =>
    atStart(async () => {
      const limiter = new RateLimiter({ policy: '5/1s', store, denyCache: false })
      expect(await limiter.consume('me', 3)).toMatchObject({ allowed: true, remaining: 2 })
      expect(await limiter.consume('me', 3)).toMatchObject({ allowed: false, remaining: 2 })
      expect(await limiter.consume('me', 6)).toMatchObject({ allowed: false, retryAfterMs: Number.POSITIVE_INFINITY })
      expect(await limiter.consume('me', 2)).toMatchObject({ allowed: true, remaining: 0 })
      expect(await limiter.consume('me', 0)).toMatchObject({ allowed: true, remaining: 0 })
    }))

  test('peek changes nothing, reset forgets, a refund gives back at most the spent units', () =>
    atStart(async () => {
      const limiter = new RateLimiter({ policy: '2/1s', store })
      expect(await limiter.peek('me')).toMatchObject({ allowed: true, remaining: 1 })
      await limiter.consume('me')
      expect(await limiter.peek('me', 0)).toMatchObject({ allowed: true, remaining: 1, resetAfterMs: 1000 })
      expect(await limiter.peek('me', 2)).toMatchObject({ allowed: false, remaining: 1, retryAfterMs: 1000 })
      await limiter.refund('me', 5)
      expect(await limiter.peek('me', 0)).toMatchObject({ remaining: 2 })
      await limiter.consume('me', 2)
      await limiter.reset('me')
      expect(await limiter.peek('me', 0)).toMatchObject({ remaining: 2 })
    }))

  test('also without get and without the end of its window', async () => {
    const plain = new Plain()
    const limiter = new RateLimiter({ policy: '2/1m', store: plain, denyCache: false })
    expect(plain.told).toEqual([{ windowMs: 60_000, limit: 2 }])
    expect(await limiter.peek('me')).toMatchObject({ allowed: true, remaining: 1 })
    const seen = []
    for (let i = 0; i < 4; i++) seen.push((await limiter.consume('me')).allowed)
    expect(seen).toEqual([true, true, false, false])
    expect(await limiter.peek('me')).toMatchObject({ allowed: false, retryAfterMs: 60_000 })
    expect([[...plain.hits.values()], plain.least]).toEqual([[2], 0])
  })

  test('with callbacks, as before version 6', async () => {
    const plain = new Plain()
    const old: CallbackHitStore = {
      incr: (key, callback) =>
        void plain.increment(key).then(({ totalHits }) => callback(undefined, totalHits, undefined)),
      decrement: key => void plain.decrement(key),
      resetKey: key => void plain.resetKey(key),
    }
    const limiter = new RateLimiter({ policy: '1/1m', store: old })
    expect([(await limiter.consume('me')).allowed, (await limiter.consume('me')).allowed]).toEqual([true, false])
  })

  test('limiters of other names and limits do not share counts', async () => {
    const options = { store, onStoreFailure: 'closed' } as const
    const limiters = [
      new RateLimiter({ ...options, policy: '1/1m' }),
      new RateLimiter({ ...options, policy: '1/1m', name: 'login' }),
      new RateLimiter({ ...options, policy: '1/1m fixed-window name=other' }),
    ]
    for (const limiter of limiters) expect((await limiter.consume('me')).allowed).toBe(true)
    expect((await new RateLimiter({ ...options, policy: '1/1m', name: 'login' }).consume('me')).allowed).toBe(false)
    store.shutdown()
  })

  test.each<[string, string, RegExp]>([
    ['another algorithm', '1/1s sliding-window', /counts fixed windows only, given sliding-window: expected/],
    ['two limits', '1/1s; 5/1m', /counts one window, given 2 limits/],
  ])('%s is a PolicyError where the limiter is built', (_, policy, message) => {
    expect(() => new RateLimiter({ policy, store })).toThrow(message)
    expect(() => rateLimit({ policy, store })).toThrow(message)
    expect(() => koaRateLimit({ policy, store })).toThrow(message)
  })

  test('another window on the same store is a PolicyError', () => {
    new RateLimiter({ policy: '1/1s', store })
    expect(() => new RateLimiter({ policy: '1/1m', store })).toThrow(
      /already counts in windows of 1000 ms, given one of 60000 ms/,
    )
    store.shutdown()
  })

  test.each([
    ['with get', () => store],
    ['without get', () => new Plain()],
  ])('tells no fewer than 0 units left, over a store %s', async (_, make) => {
    const limiter = new RateLimiter({ policy: '3/1m', store: make(), denyCache: false })
    const all = await Promise.all(Array.from({ length: 10 }, () => limiter.consume('together')))
    expect(Math.min(...all.map(({ remaining }) => remaining))).toBe(0)
    await limiter.charge('me', 8)
    for (const decision of [await limiter.consume('me'), await limiter.peek('me'), await limiter.peek('me', 0)]) {
      expect(decision.remaining).toBe(0)
    }
    store.shutdown()
  })

  test('a store that fails or returns nonsense is an outage', async () => {
    const broken = { decrement() {}, resetKey() {} }
    const answers: Array<() => never> = [
      () => {
        throw new Error('no database')
      },
      () => ({ totalHits: 'many' }) as never,
      () => undefined as never,
    ]
    for (const increment of answers) {
      const limiter = new RateLimiter({ policy: '1/1m', store: { ...broken, increment }, onStoreFailure: 'closed' })
      expect(await limiter.consume('me')).toMatchObject({ allowed: false, source: 'closed', degraded: true })
    }
  })
})

describe('our middleware on a store of express-rate-limit', () => {
  const statuses = async (ask: () => request.Test) => [(await ask()).status, (await ask()).status, (await ask()).status]

  test('Express', async () => {
    const app = express().use(rateLimit({ limit: 2, windowMs: 60_000, store }))
    app.get('/', (_req, res) => void res.send('hello'))
    expect(await statuses(() => request(app).get('/'))).toEqual([200, 200, 429])
    store.shutdown()
  })

  test('Koa', async () => {
    const app = new Koa().use(koaRateLimit({ policy: '2/1m', store }))
    app.use(ctx => {
      ctx.body = 'hello'
    })
    const handler = app.callback()
    expect(await statuses(() => request(handler).get('/'))).toEqual([200, 200, 429])
    store.shutdown()
  })

  test('blocks keys that continue after refusals, in this process', async () => {
    const app = express().use(rateLimit({ policy: '1/1m', store, block: { after: 1, for: '1h' } }))
    app.get('/', (_req, res) => void res.send('hello'))
    expect(await statuses(() => request(app).get('/'))).toEqual([200, 429, 429])
    // The store itself would allow it again.
    await store.resetAll()
    const refused = await request(app).get('/')
    expect([refused.status, refused.get('Retry-After')]).toEqual([429, '3600'])
    store.shutdown()
  })
})

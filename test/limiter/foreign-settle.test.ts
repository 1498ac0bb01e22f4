import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { StoreError } from '../../src/limiter/core/errors.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../src/testing.js'
import { StubStore } from '../support/stub-store.js'
import { testRedis } from '../support/test-redis.js'
import { freshVerdict } from '../support/verdicts.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})
afterEach(() => redis.unpause())

describe('a decision that another limiter made is settled by the limiter that made it', () => {
  test.each([
    ['over another store of the client', () => new RedisStore(client)],
    ['over the same store', (store: RedisStore) => store],
  ])('within its deadline, while Redis hangs: %s', async (_, other) => {
    const store = new RedisStore(client)
    const shared = { policy: '10/1m', observer: {} }
    const maker = new RateLimiter({ ...shared, name: 'maker', store, deadline: '2s' })
    const settler = new RateLimiter({ ...shared, name: 'settler', store: other(store), deadline: '30s' })
    const decision = await maker.consume('hung', 5)
    expect(decision.source).toBe('redis')
    redis.pause()
    await expect(settler.settle(decision, 1)).rejects.toThrow(StoreError)
  })

  test('past no open breaker', async () => {
    const store = new StubStore()
    store.answer = async charges => charges.map(({ limit }) => ({ ...freshVerdict(limit), resetAfterMs: 60_000 }))
    const maker = new RateLimiter({ policy: '10/1m', store, observer: {} })
    const settler = new RateLimiter({ policy: '10/1m', observer: {} })
    const decision = await maker.consume('k', 5)
    store.answer = async () => {
      throw new Error('down')
    }
    for (let i = 0; i < 40; i++) await maker.consume('k')
    const asked = store.calls.length
    await expect(settler.settle(decision, 9)).rejects.toThrow('is not asked')
    expect(store.calls.length).toBe(asked)
    await settler.close()
  })

  test('and that one forgets the denial that it remembers', async () => {
    const [maker, settler] = ['maker', 'settler'].map(
      name => new RateLimiter({ policy: '10/1m', name, store: new RedisStore(client, { prefix: name }), observer: {} }),
    )
    const decision = await maker.consume('k', 10)
    expect((await maker.consume('k')).allowed).toBe(false)
    await settler.settle(decision, 0)
    expect((await maker.consume('k', 10)).allowed).toBe(true)
    await Promise.all([maker.close(), settler.close()])
  })

  test('and its waiters move up', async () => {
    const clock = new ManualClock(1_000_000)
    const [maker, settler] = [1, 2].map(
      () => new RateLimiter({ policy: '10/1m', store: new MemoryStore({ clock }), observer: {} }),
    )
    const decision = await maker.consume('k', 10)
    const waiting = maker.acquire('k', { timeout: '2m' })
    await settler.settle(decision, 0)
    expect((await waiting).allowed).toBe(true)
  })
})

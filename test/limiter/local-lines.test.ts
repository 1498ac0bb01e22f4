import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { CostError, TimeoutError } from '../../src/core/errors.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import { MemoryStore } from '../../src/stores/memory/memory-store.js'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import { RedisServer } from '../support/redis-server.js'
import { StubStore } from '../support/stub-store.js'

let redis: RedisServer
let client: Redis
let prefixes = 0
beforeAll(async () => {
  redis = await RedisServer.start()
  client = redis.client()
})
afterAll(() => redis.stop())

const places: ReadonlyArray<[string, () => MemoryStore | RedisStore]> = [
  ['memory', () => new MemoryStore()],
  ['Redis', () => new RedisStore(client, { prefix: `turns ${prefixes++}` })],
]
/** Beside the one exact limit that the other tests have. */
const policies: ReadonlyArray<[string, string]> = [
  ['fixed-window', '3/200ms fixed-window'],
  ['sliding-counter', '3/200ms sliding-counter'],
  ['several limits', '3/200ms; 100/1h token-bucket'],
]

describe.each(places)('acquire under other policies, on %s', (place, makeStore) => {
  const stores: MemoryStore[] = []
  afterEach(() => {
    for (const store of stores.splice(0)) store.close()
  })
  const limiterOf = (options: Partial<RateLimiterOptions> & { policy: string }) => {
    const store = makeStore()
    if (store instanceof MemoryStore) stores.push(store)
    return new RateLimiter({ store, deadline: '5s', ...options })
  }

  test.each(policies)(
    'grants in the order of the requests under %s, and no more than is allowed',
    async (_, policy) => {
      const limiter = limiterOf({ policy })
      const order: number[] = []
      const startedAt = performance.now()
      await Promise.all(
        Array.from({ length: 9 }, async (_, i) => {
          expect(await limiter.acquire('k')).toMatchObject({ allowed: true, degraded: false })
          order.push(i)
        }),
      )
      expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8])
      // The stores count whole ms.
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(399)
    },
  )

  test('a later request with a lower cost does not overtake in this process', async () => {
    const limiter = limiterOf({ policy: '3/200ms fixed-window' })
    await limiter.consume('k', 2)
    const order: string[] = []
    const three = limiter.acquire('k', { cost: 3 }).then(() => order.push('three'))
    const one = limiter.acquire('k', { cost: 1 }).then(() => order.push('one'))
    const other = limiter.acquire('other').then(() => order.push('another key'))
    await Promise.all([three, one, other])
    expect(order).toEqual(['another key', 'three', 'one'])
  })

  test('a timeout of 0 takes a free unit and never waits', async () => {
    const limiter = limiterOf({ policy: '1/1h fixed-window' })
    expect(await limiter.acquire('k', { timeout: 0 })).toMatchObject({ allowed: true })
    await expect(limiter.acquire('k', { timeout: 0 })).rejects.toThrow(TimeoutError)
    const control = new AbortController()
    const first = limiter.acquire('k', { signal: control.signal })
    await limiter.peek('k', 0)
    await expect(limiter.acquire('k', { timeout: 0 })).rejects.toThrow(TimeoutError)
    control.abort(new Error('enough'))
    await expect(first).rejects.toThrow('enough')
  })

  test('a turn that would come too late rejects at once, also for waiters that are not the first', async () => {
    const limiter = limiterOf({ policy: '1/1h fixed-window' })
    await limiter.consume('k')
    await expect(limiter.acquire('k', { timeout: '1m' })).rejects.toThrow('which is after the timeout')
    const control = new AbortController()
    const first = limiter.acquire('k', { signal: control.signal })
    // Refused when the first one has been told how long it will be, and by then.
    const early = limiter.acquire('k', { timeout: '1m' })
    await expect(early).rejects.toThrow('which is after the timeout')
    await expect(limiter.acquire('k', { timeout: '1m' })).rejects.toThrow('which is after the timeout')
    control.abort(new Error('enough'))
    await expect(first).rejects.toThrow('enough')
    expect(await limiter.peek('k', 0)).toMatchObject({ remaining: 0 })
  })

  test('a waiter that is not the first is refused at once if its turn comes too late', async () => {
    const limiter = limiterOf({ policy: '1/500ms fixed-window' })
    await limiter.consume('k')
    const order: string[] = []
    const first = limiter.acquire('k').then(() => order.push('first granted'))
    // Its turn would come in a second.
    const second = limiter.acquire('k', { timeout: '900ms' }).catch(error => order.push(error.code))
    await Promise.all([first, second])
    expect(order).toEqual(['SPILLWAY_TIMEOUT', 'first granted'])
    // Nobody has spent the permit of the next window.
    await new Promise(resolve => setTimeout(resolve, 500))
    expect((await limiter.peek('k', 0)).remaining).toBe(1)
  })

  test('an abort ends the wait with its reason, spends nothing, and lets the next one ask at once', async () => {
    const limiter = limiterOf({ policy: '3/1h fixed-window' })
    await limiter.consume('k', 2)
    const control = new AbortController()
    const reason = new Error('the client has gone')
    const first = limiter.acquire('k', { cost: 2, signal: control.signal })
    const second = limiter.acquire('k')
    await limiter.peek('k', 0)
    control.abort(reason)
    await expect(first).rejects.toBe(reason)
    expect(await second).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('a grant to a waiter that has left is given back', async () => {
    const limiter = limiterOf({ policy: '3/1h fixed-window' })
    const control = new AbortController()
    const first = limiter.acquire('k', { cost: 3, signal: control.signal })
    control.abort(new Error('gone'))
    if (place === 'memory') {
      // Granted before anybody could give up.
      await first
      await limiter.reset('k')
    } else await expect(first).rejects.toThrow('gone')
    expect(await limiter.acquire('k', { cost: 3 })).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('a refund, a reset and the end of a block let the first one ask at once', async () => {
    const limiter = limiterOf({ policy: '1/1h fixed-window; 9/1h' })
    const next = async () => {
      const granted = limiter.acquire('k')
      await limiter.peek('k', 0)
      return { granted }
    }
    await limiter.consume('k')
    const first = await next()
    await limiter.refund('k')
    await first.granted
    const second = await next()
    await limiter.reset('k')
    await second.granted
    await limiter.reset('k')
    await limiter.block('k', '1h')
    const third = await next()
    await limiter.unblock('k')
    expect(await third.granted).toMatchObject({ allowed: true })
  })

  test('a cost that one of the limits never allows is an error at once, and spends nothing', async () => {
    const limiter = limiterOf({ policy: '5/1h fixed-window; 2/1h sliding-counter' })
    await expect(limiter.acquire('k', { cost: 3 })).rejects.toThrow(CostError)
    await expect(limiter.acquire('k', { cost: 3 })).rejects.toThrow(
      'cost 3: limit "2-per-1h" never allows so much at once',
    )
    expect((await limiter.peek('k', 0)).remaining).toBe(2)
  })

  test('in shadow mode no request waits', async () => {
    for (const policy of ['1/1h', '1/1h fixed-window']) {
      const limiter = limiterOf({ policy, shadow: true })
      await limiter.acquire('k')
      expect(await limiter.acquire('k')).toMatchObject({ allowed: true, remaining: 0, verdicts: [{ allowed: false }] })
      expect(await limiter.acquire('k', { cost: 5 })).toMatchObject({ allowed: true })
    }
  })
})

test('only the first in line asks, and only when it may come back', async () => {
  const store = new StubStore()
  store.deny(100)
  const limiter = new RateLimiter({ policy: '1/1s fixed-window', store, denyCache: false })
  const control = new AbortController()
  const waiting = Array.from({ length: 100 }, () => limiter.acquire('k', { signal: control.signal }).catch(() => {}))
  // The subject is how often the store is asked in a quarter of a second.
  await new Promise(resolve => setTimeout(resolve, 250))
  expect(store.calls.length).toBeGreaterThanOrEqual(2)
  expect(store.calls.length).toBeLessThanOrEqual(3)
  control.abort(new Error('enough'))
  await Promise.all(waiting)
})

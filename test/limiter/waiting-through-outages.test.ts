import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { StoreError } from '../../src/limiter/core/errors.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import { jsonFromChild } from '../support/child.js'
import { eventually } from '../support/eventually.js'
import { inLine } from '../support/lines.js'
import { RedisServer } from '../support/redis-server.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()

let limiters = 0
/** Two limiters of two processes, as far as Redis can tell. */
function twins(policy: string): [RateLimiter, RateLimiter] {
  const prefix = `outage ${limiters++}`
  const make = () => new RateLimiter({ policy, store: new RedisStore(redis.client(), { prefix }) })
  return [make(), make()]
}

interface Served {
  readonly askedAt: number
  readonly servedAt: number
  readonly source: string
}

/** Waits for so many turns; notes when each was asked for and served. */
function waiting(limiter: RateLimiter, count: number, served: Served[]): Promise<unknown> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const askedAt = performance.now()
      const { source } = await limiter.acquire('k')
      served.push({ askedAt, servedAt: performance.now(), source })
    }),
  )
}

describe('waiters of acquire, when Redis hangs for a moment', () => {
  test.each([
    ['who stand in the line before it', 0],
    ['who come while it hangs', 1],
  ])('%s are all served by Redis afterwards, and before those who came half a second later', async (_, comesDuring) => {
    const [early, late] = twins('10/200ms')
    // The server learns the scripts, and both processes its clock.
    for (const limiter of [early, late]) await limiter.acquire('other')
    const first: Served[] = []
    const later: Served[] = []
    let waits: Promise<unknown> | undefined
    if (!comesDuring) {
      waits = waiting(early, 40, first)
      await pause(50)
    }
    redis.pause()
    if (comesDuring) waits = waiting(early, 40, first)
    await pause(300)
    redis.unpause()
    const laterAt = performance.now()
    const others: Promise<unknown>[] = []
    while (performance.now() - laterAt < 1500) {
      others.push(waiting(late, 1, later))
      await pause(25)
    }
    await waits
    await Promise.all(others)
    expect(first).toHaveLength(40)
    const lastEarly = Math.max(...first.map(({ servedAt }) => servedAt))
    const overtakers = later.filter(({ askedAt, servedAt }) => askedAt > laterAt + 500 && servedAt < lastEarly)
    expect(overtakers).toEqual([])
    expect(first.some(({ source }) => source === 'redis')).toBe(true)
  })

  test('are counted by the store again, also those that the failure policy would still keep waiting', async () => {
    const [limiter] = twins('1/10s fixed-window')
    await limiter.acquire('k')
    redis.pause()
    const grants: string[] = []
    // The first is served in this process, whose own count is empty; the second would wait for its window of 10 s.
    const waits = [1, 2].map(() => limiter.acquire('k').then(({ source }) => grants.push(source)))
    await eventually('the first is served', async () => grants.length > 0)
    redis.unpause()
    await eventually('Redis decides', async () => (await limiter.peek('k', 0)).source === 'redis')
    await limiter.refund('k')
    await Promise.all(waits)
    expect(grants).toEqual(['fallback', 'redis'])
  })

  test('keep their patience: a timeout counts from the request, and an abort ends the wait at once', async () => {
    const [limiter] = twins('1/1h')
    await limiter.acquire('k')
    redis.pause()
    try {
      const control = new AbortController()
      const aborted = limiter.acquire('k', { signal: control.signal }).catch(error => error)
      await aborted.constructor
      const askedAt = performance.now()
      await limiter.acquire('k', { timeout: 0 }).catch(() => {})
      const timedOut = await limiter.acquire('k', { timeout: 400 }).catch(error => error)
      expect(timedOut.code).toBe('SPILLWAY_TIMEOUT')
      expect(performance.now() - askedAt).toBeLessThan(1500)
      control.abort(new Error('enough'))
      expect(await Promise.race([aborted, pause(500)])).toBeDefined()
    } finally {
      redis.unpause()
    }
  })

  test('with onStoreFailure closed reject with StoreError after the deadline', async () => {
    const store = new RedisStore(redis.client(), { prefix: 'closed outage' })
    const limiter = new RateLimiter({ policy: '1/1h', store, onStoreFailure: 'closed' })
    await limiter.acquire('k')
    const waits = limiter.acquire('k').catch(error => error)
    await pause(30)
    redis.pause()
    try {
      const joins = await limiter.acquire('k').catch(error => error)
      expect(joins.code).toBe('SPILLWAY_STORE')
    } finally {
      redis.unpause()
    }
    await limiter.close()
    expect((await waits).code).toBe('SPILLWAY_STORE')
  })
})

test('a key without waiters costs no memory, however many keys are asked for', async () => {
  const bytes = await jsonFromChild<number>(
    `const { Redis } = await import('ioredis')
     const { RedisStore } = await import('./src/index.ts')
     const { RateLimiter } = await import('./src/limiter/rate-limiter.ts')
     const client = new Redis(process.env.REDIS_URL)
     const limiter = new RateLimiter({ policy: '5/1m', store: new RedisStore(client, { prefix: 'many' }), deadline: '5s' })
     const ask = async (from, count) => {
       for (let i = from; i < from + count; i += 100) {
         await Promise.all(Array.from({ length: 100 }, (_, n) => limiter.acquire('k' + (i + n))))
       }
       globalThis.gc()
       return process.memoryUsage().heapUsed
     }
     const before = await ask(0, 1000)
     console.log(JSON.stringify(((await ask(1000, 3000)) - before) / 3000))
     client.disconnect()
     await limiter.close()`,
    { env: { REDIS_URL: redis.url }, flags: ['--expose-gc'] },
  )
  // A line that is kept takes about 4 kB.
  expect(bytes).toBeLessThan(500)
}, 30_000)

/** Each with a server of its own. */
describe('a waiter of acquire', () => {
  const limiterOf = (client: Redis, policy: string, options: Partial<RateLimiterOptions>) =>
    new RateLimiter({ policy, store: new RedisStore(client), denyCache: false, ...options })

  test.concurrent.each([
    ['closed', undefined],
    ['open', 'open'],
    ['local', 'fallback'],
  ] as const)(
    'follows the failure policy %s in an outage that is longer',
    async (onStoreFailure, source) => {
      const own = await RedisServer.start()
      try {
        const limiter = limiterOf(own.client(), '1/1h', { onStoreFailure, deadline: 300 })
        await limiter.acquire('k')
        const waiting = limiter.acquire('k').catch(error => error)
        await inLine(own.client(), '*{k}*:line', 1)
        await own.kill()
        if (source === undefined) expect(await waiting).toBeInstanceOf(StoreError)
        else expect(await waiting).toMatchObject({ allowed: true, source, degraded: true })
      } finally {
        await own.stop()
      }
    },
    20_000,
  )
})

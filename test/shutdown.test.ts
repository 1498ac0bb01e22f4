import { describe, expect, test } from '@jest/globals'
import { createClient } from 'redis'
import { SharedPlaces } from '../src/http/concurrency/shared-places.js'
import { RedisStore } from '../src/index.js'
import { RateLimiter } from '../src/limiter/rate-limiter.js'
import type { RedisClient } from '../src/redis/client.js'
import { guardRedis } from '../src/redis/guarded-redis.js'
import { DelayQueue } from '../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../src/waiting/semaphore/semaphore.js'
import { eventually } from './support/eventually.js'
import { Lateness } from './support/lateness.js'
import { RedisServer } from './support/redis-server.js'

interface Closable {
  close(): Promise<unknown>
}

const PLACES = { prefix: 'app', name: 'all', permits: 1, leaseMs: 10_000 }

/** Someone who waits in line; what happens to it later is not the subject. */
const waits = (promise: Promise<unknown>) => void promise.catch(() => {})

/**
 * Each object that can be closed, at work until it holds something in Redis, and how long its `close` may wait for
 * Redis.
 */
const SUBJECTS: readonly (readonly [
  subject: string,
  boundMs: number,
  make: (client: RedisClient) => Promise<Closable>,
])[] = [
  [
    'a rate limiter with a waiter',
    1000,
    async client => {
      const limiter = new RateLimiter({ policy: '1/1h', store: new RedisStore(client), deadline: 50 })
      await limiter.consume('ada')
      waits(limiter.acquire('ada', { timeout: '2h' }))
      await limiter.peek('ada')
      return limiter
    },
  ],
  [
    'a shared rate with a waiter',
    1000,
    async client => {
      const rate = new SharedRateLimiter(client, 'mail')
      await rate.trySetRate({ rate: 1, interval: '1h' })
      await rate.acquire()
      waits(rate.acquire())
      await rate.availablePermits()
      return rate
    },
  ],
  [
    'a semaphore with a lease and a waiter',
    1000,
    async client => {
      const semaphore = new Semaphore(client, 'jobs', { permits: 1 })
      waits(semaphore.acquire())
      await eventually('a lease is held', async () => (await semaphore.availablePermits()) === 0)
      waits(semaphore.acquire())
      await eventually('one waits', async () => (await semaphore.waiting()) === 1)
      return semaphore
    },
  ],
  [
    'a delay queue with a consumer',
    2000,
    async client => {
      const queue = new DelayQueue(client, 'mail')
      await queue.push('later', { delay: '1h' })
      queue.consume(async () => {})
      await queue.stats()
      return queue
    },
  ],
  [
    'the places of a concurrency limit, with a request that waits',
    1000,
    async client => {
      const guarded = guardRedis(client, 800, undefined, { name: 'test', meanwhile: 'nothing is shared' })
      const places = new SharedPlaces({ ...PLACES, client, guarded })
      const request = new AbortController().signal
      await places.enter('all')
      waits(places.wait('all', 3_600_000, request))
      expect(await places.enter('all')).toBe(null)
      return places
    },
  ],
]

/** ms that the work takes, without the time by which a busy machine makes this process late. */
async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const late = await Lateness.of()
  const startedAt = performance.now()
  await work()
  const tookMs = performance.now() - startedAt
  return tookMs - (await late.stop())
}

// Each has a server of its own.
describe('close()', () => {
  test.concurrent.each(SUBJECTS)('of %s returns at once when Redis is gone', async (_, boundMs, make) => {
    const redis = await RedisServer.start()
    const client = redis.client()
    const subject = await make(client)
    await redis.kill()
    await eventually('the client has noticed', async () => client.status !== 'ready')
    expect(await timeOf(() => subject.close())).toBeLessThan(boundMs / 2)
    await redis.stop()
  })

  test.concurrent.each(SUBJECTS)('of %s waits at most %i ms for a Redis that hangs', async (_, boundMs, make) => {
    const redis = await RedisServer.start()
    const subject = await make(redis.client())
    redis.pause()
    expect(await timeOf(() => subject.close())).toBeLessThan(boundMs + 200)
    await redis.stop()
  })

  test('does not wait for a client that was never connected, with a request under way', async () => {
    const client = createClient({ url: 'redis://127.0.0.1:1' })
    const semaphore = new Semaphore(client, 'jobs', { permits: 1 })
    waits(semaphore.acquire())
    expect(await timeOf(() => semaphore.close())).toBeLessThan(300)
  })
})

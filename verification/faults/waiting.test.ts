import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { eventually } from '../../test/support/eventually.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { longestCall } from './longest-call.js'

let redis: RedisServer
let admin: Redis
beforeEach(async () => {
  redis = await RedisServer.start()
  admin = redis.client()
})
afterEach(() => redis.stop())

const figure = (text: string) => {
  if (process.env.SPILLWAY_FIGURES) process.stdout.write(`    ${text}\n`)
}

const waitingIn = async (key: string) => {
  const [line] = await admin.keys(`*{${key}}*:line`)
  return line === undefined ? 0 : admin.zcard(line)
}

describe('ten thousand waiters for one key', () => {
  test('and a thousand aborts in one tick degrade no other limiter, and no call takes long', async () => {
    const client = redis.client()
    const limiter = new RateLimiter({ policy: '1/1h', store: new RedisStore(client), deadline: '5s' })
    // With the deadline that every limiter has, 50 ms.
    const other = new RateLimiter({ policy: '1000000/1h', store: new RedisStore(redis.client()) })
    await limiter.acquire('k')
    await other.consume('warm')
    const control = new AbortController()
    const rest = new AbortController()
    const waiting = Array.from({ length: 10_000 }, (_, i) =>
      limiter.acquire('k', { signal: i < 1000 ? control.signal : rest.signal }).catch(() => 'gone'),
    )
    await eventually('all wait', async () => (await waitingIn('k')) === 10_000)
    const longest = await longestCall(redis, admin)
    // Two a millisecond, whether those before have been answered or not.
    const decisions: ReturnType<typeof other.consume>[] = []
    const startedAt = performance.now()
    const aborting = sleep(500).then(() => control.abort())
    while (decisions.length < 4000) {
      const due = Math.min(4000, 2 * (performance.now() - startedAt))
      while (decisions.length < due) decisions.push(other.consume(`other ${decisions.length % 20}`))
      await sleep(1)
    }
    expect(performance.now() - startedAt).toBeLessThan(2000 + 500)
    await aborting
    await eventually('they have left', async () => (await waitingIn('k')) === 9000)
    const degraded = (await Promise.all(decisions)).filter(decision => decision.degraded)
    expect(degraded).toEqual([])
    rest.abort()
    await Promise.all(waiting)
    await eventually('all have left', async () => (await waitingIn('k')) === 0)
    const { longestMs, waitedMs } = await longest()
    figure(
      `10 000 wait: the longest call took ${longestMs.toFixed(2)} ms; the server waited ${waitedMs.toFixed(1)} ms for a processor`,
    )
    expect(longestMs).toBeLessThan(5 + waitedMs)
  }, 60_000)
})

describe('fifty thousand waiters for a shared rate', () => {
  test('no call takes long: joining, leaving, setting the rate, releasing permits, deleting the limiter', async () => {
    const client = redis.client()
    const limiter = new SharedRateLimiter(client, 'crowd')
    const other = new SharedRateLimiter(redis.client(), 'crowd')
    await limiter.setRate({ rate: 100, interval: 60_000 })
    await limiter.acquire(100)
    const longest = await longestCall(redis, admin)
    const some = new AbortController()
    const rest = new AbortController()
    const waiting = Array.from({ length: 50_000 }, (_, i) =>
      limiter.acquire(1 + (i % 3), { signal: i % 10 === 0 ? some.signal : rest.signal }).catch(() => 'gone'),
    )
    await eventually('all wait', async () => (await admin.zcard('spillway:{crowd}:rate:line')) === 50_000)
    const behind = other.acquire(1, { signal: rest.signal }).catch(() => 'gone')
    await eventually('and one more', async () => (await admin.zcard('spillway:{crowd}:rate:line')) === 50_001)
    some.abort()
    for (const rate of [110, 50, 100]) await other.setRate({ rate, interval: 60_000 }, { keepState: true })
    await other.release(20)
    expect(await other.tryAcquire()).toBe(false)
    await eventually('they have left', async () => (await admin.zcard('spillway:{crowd}:rate:line')) <= 45_001)
    rest.abort()
    await Promise.all([...waiting, behind])
    await eventually('all have left', async () => (await admin.exists('spillway:{crowd}:rate:line')) === 0)
    const { longestMs, waitedMs } = await longest()
    figure(
      `50 000 wait: the longest call took ${longestMs.toFixed(2)} ms; the server waited ${waitedMs.toFixed(1)} ms for a processor`,
    )
    expect(longestMs).toBeLessThan(5 + waitedMs)
    await Promise.all([limiter.close(), other.close()])
  }, 60_000)
})

describe('a shared rate', () => {
  test('detects a silent connection by pings, only while a request waits', async () => {
    const pings = async () => Number(/cmdstat_ping:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0)
    const limiter = new SharedRateLimiter(redis.client(), 'silent')
    await limiter.setRate({ rate: 1, interval: 60_000 })
    await limiter.acquire()
    const control = new AbortController()
    const waiting = limiter.acquire(1, { signal: control.signal }).catch(() => {})
    await sleep(5000)
    const while_ = await pings()
    expect(while_).toBeGreaterThanOrEqual(1)
    // One every two seconds.
    expect(while_).toBeLessThanOrEqual(3)
    control.abort()
    await waiting
    await sleep(500)
    const after = await pings()
    await sleep(4000)
    expect(await pings()).toBe(after)
    await limiter.close()
  }, 30_000)

  test('asks at most once a second while nothing changes for its waiters', async () => {
    const limiter = new SharedRateLimiter(redis.client(), 'quiet')
    await limiter.setRate({ rate: 1, interval: 60_000 })
    await limiter.acquire()
    const control = new AbortController()
    const waiting = Array.from({ length: 20 }, () => limiter.acquire(1, { signal: control.signal }).catch(() => {}))
    await sleep(1000)
    const calls = async () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0)
    const before = await calls()
    await sleep(5000)
    expect((await calls()) - before).toBeLessThanOrEqual(5)
    control.abort()
    await Promise.all(waiting)
    await limiter.close()
  }, 30_000)
})

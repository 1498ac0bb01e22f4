import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { SharedRateLimiter } from '../../src/shared-rate/shared-rate-limiter.js'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import { eventually } from '../support/redis-process.js'
import { RedisServer } from '../support/redis-server.js'

let redis: RedisServer
let admin: Redis
beforeEach(async () => {
  redis = await RedisServer.start()
  admin = redis.client()
})
afterEach(() => redis.stop())

/** The longest call since the last reset, in µs of server time, without what the server does by itself. */
async function longestCall(): Promise<number> {
  const log = (await admin.slowlog('GET', 100)) as [number, number, number, string[]][]
  return Math.max(0, ...log.filter(([, , , [name]]) => /^eval/i.test(name)).map(([, , us]) => us))
}

/** The most moments within any span of so many ms. */
function most(times: readonly number[], ms: number): number {
  return Math.max(...times.map(from => times.filter(at => at >= from && at < from + ms).length))
}

const waitingIn = async (key: string) => {
  const [line] = await admin.keys(`*{${key}}*:line`)
  return line === undefined ? 0 : admin.zcard(line)
}

describe('ten thousand who wait for one key', () => {
  test('and a thousand who abort in one tick degrade no other limiter, and no call is long', async () => {
    const client = redis.client()
    const limiter = new RateLimiter({ policy: '1/1h', store: new RedisStore(client), deadline: '5s' })
    const other = new RateLimiter({ policy: '1000000/1h', store: new RedisStore(redis.client()), deadline: '250ms' })
    await limiter.acquire('k')
    await other.consume('warm')
    const control = new AbortController()
    const rest = new AbortController()
    const waiting = Array.from({ length: 10_000 }, (_, i) =>
      limiter.acquire('k', { signal: i < 1000 ? control.signal : rest.signal }).catch(() => 'gone'),
    )
    await eventually('all wait', async () => (await waitingIn('k')) === 10_000)
    await admin.config('SET', 'slowlog-log-slower-than', 2000)
    await admin.slowlog('RESET')
    let degraded = 0
    let decisions = 0
    const until = performance.now() + 2000
    const aborting = sleep(500).then(() => control.abort())
    while (performance.now() < until) {
      const batch = await Promise.all(Array.from({ length: 20 }, (_, i) => other.consume(`other ${i}`)))
      decisions += batch.length
      degraded += batch.filter(decision => decision.degraded).length
      await sleep(10)
    }
    await aborting
    await eventually('they have left', async () => (await waitingIn('k')) === 9000)
    expect(decisions).toBeGreaterThan(1000)
    expect(degraded).toBe(0)
    expect(await longestCall()).toBeLessThan(5000)
    rest.abort()
    await Promise.all(waiting)
    await eventually('all have left', async () => (await waitingIn('k')) === 0)
    expect(await longestCall()).toBeLessThan(5000)
  }, 60_000)

  test('a thousand at once on 10 per second: in order, never more than ten in a second, and nobody fails', async () => {
    const limiter = new RateLimiter({
      policy: '10/1s',
      store: new RedisStore(redis.client()),
      onStoreFailure: 'closed',
    })
    await limiter.consume('warm')
    const control = new AbortController()
    const order: number[] = []
    const errors: unknown[] = []
    const startedAt = performance.now()
    const all = Array.from({ length: 1000 }, (_, i) =>
      limiter.acquire('k', { signal: control.signal }).then(
        () => order.push(i),
        error => errors.push(error),
      ),
    )
    await sleep(3500)
    const passedMs = performance.now() - startedAt
    expect(errors).toEqual([])
    expect(order.length).toBeGreaterThanOrEqual(30)
    expect(order.length).toBeLessThanOrEqual(10 * (1 + Math.floor(passedMs / 1000)))
    expect(order).toEqual([...order].sort((a, b) => a - b))
    control.abort()
    await Promise.all(all)
  }, 30_000)
})

describe('a shared rate', () => {
  test('whose newest writes Redis lost grants at most one extra window, not everybody', async () => {
    const limiter = new SharedRateLimiter(redis.client(), 'lost')
    await limiter.setRate({ rate: 5, interval: 1000 })
    const granted: number[] = []
    const control = new AbortController()
    const all = Array.from({ length: 100 }, () =>
      limiter.acquire(1, { signal: control.signal }).then(
        () => granted.push(performance.now()),
        () => {},
      ),
    )
    await sleep(1500)
    const lost = (await admin.keys('*{lost}*')).filter(key => !key.endsWith(':rate'))
    await admin.del(...lost)
    await sleep(3000)
    expect(most(granted, 1000)).toBeLessThanOrEqual(10)
    expect(granted.length).toBeGreaterThan(15)
    control.abort()
    await Promise.all(all)
    await limiter.close()
  }, 30_000)

  test('whose process was blocked for some seconds does not grant what it missed', async () => {
    const limiter = new SharedRateLimiter(redis.client(), 'blocked')
    await limiter.setRate({ rate: 10, interval: 1000 })
    const granted: number[] = []
    const control = new AbortController()
    const all = Array.from({ length: 100 }, () =>
      limiter.acquire(1, { signal: control.signal }).then(
        () => granted.push(performance.now()),
        () => {},
      ),
    )
    await sleep(1500)
    const until = performance.now() + 3500
    while (performance.now() < until);
    await sleep(2500)
    expect(most(granted, 1000)).toBeLessThanOrEqual(20)
    control.abort()
    await Promise.all(all)
    await limiter.close()
  }, 30_000)

  test('that falls while somebody waits grants by the new rate, not by what was heard before', async () => {
    const limiter = new SharedRateLimiter(redis.client(), 'falls')
    await limiter.setRate({ rate: 3, interval: 1000 })
    await limiter.acquire(3)
    const waiting = limiter.acquire()
    await eventually('it waits', async () => (await admin.zcard('spillway:{falls}:rate:line')) === 1)
    const setAt = performance.now()
    await limiter.setRate({ rate: 1, interval: 3000 }, { keepState: true })
    await waiting
    expect(performance.now() - setAt).toBeGreaterThan(2500)
    await limiter.close()
  }, 30_000)

  test('is told of a silent connection by pings, only while somebody waits', async () => {
    const pings = async () => Number(/cmdstat_ping:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0)
    const limiter = new SharedRateLimiter(redis.client(), 'silent')
    await limiter.setRate({ rate: 1, interval: 60_000 })
    await limiter.acquire()
    const control = new AbortController()
    const waiting = limiter.acquire(1, { signal: control.signal }).catch(() => {})
    await sleep(5000)
    const while_ = await pings()
    expect(while_).toBeGreaterThanOrEqual(1)
    expect(while_).toBeLessThanOrEqual(4)
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

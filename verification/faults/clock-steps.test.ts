import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { LeaseLostError } from '../../src/limiter/core/errors.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../test/support/eventually.js'
import { Lateness } from '../../test/support/lateness.js'
import { mostWithin } from '../../test/support/rate-workers.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { SteppedClock } from '../../test/support/stepped-clock.js'

jest.setTimeout(60_000)

let clock: SteppedClock
let redis: RedisServer
let admin: Redis
beforeEach(async () => {
  clock = await SteppedClock.make()
  redis = await RedisServer.start({ env: clock.env })
  admin = redis.client()
})
afterEach(async () => {
  await redis.stop()
  await clock.remove()
})

const WINDOW_MS = 1000
const QUOTA = 2
/**
 * A waiter behind a dead process is served when that process has been silent for the safety check and one more second.
 */
const AFTER_A_DEATH_MS = 5000 + 1000
const STEPS = [
  ['an hour on', 3_600_000],
  ['an hour back', -3_600_000],
] as const

/** A client whose request resolves when it is granted. `dies` ends its connections, as if its process died. */
interface User {
  acquire(): Promise<unknown>
  /** Asks without waiting: whether it was granted. */
  tries(): Promise<boolean>
  /** ms until a request that does not wait would be allowed. */
  retryAfterMs?(): Promise<number>
  dies(): void
}

const KINDS: readonly (readonly [string, () => Promise<() => User>])[] = [
  [
    'RateLimiter.acquire',
    async () => () => {
      const client = redis.client()
      const store = new RedisStore(client)
      const limiter = new RateLimiter({ policy: `${QUOTA}/${WINDOW_MS}ms`, store, denyCache: false, deadline: '5s' })
      return {
        acquire: () => limiter.acquire('k'),
        tries: async () => {
          const { allowed, source } = await limiter.consume('k')
          expect(source).toBe('redis')
          return allowed
        },
        retryAfterMs: async () => (await limiter.peek('k')).retryAfterMs,
        dies: () => client.disconnect(),
      }
    },
  ],
  [
    'SharedRateLimiter',
    async () => {
      await new SharedRateLimiter(admin, 'k').setRate({ rate: QUOTA, interval: WINDOW_MS })
      return () => {
        const client = redis.client()
        const limiter = new SharedRateLimiter(client, 'k')
        return { acquire: () => limiter.acquire(), tries: () => limiter.tryAcquire(), dies: () => client.disconnect() }
      }
    },
  ],
]

const waitingIn = async () => {
  const [line] = await admin.keys('*{k}*:line')
  return line === undefined ? 0 : admin.zcard(line)
}

describe.each(STEPS)('a step of the server’s clock, %s', (_, stepMs) => {
  test.each(KINDS)(
    '%s: waiters are served as if the clock had not stepped, also behind dead processes',
    async (__, kind) => {
      const make = await kind()
      const [dead, ...users] = [make(), make(), make()]
      const late = await Lateness.of(redis)
      const times: number[] = []
      const take = async (user: User) => {
        await user.acquire()
        times.push(performance.now())
      }
      await Promise.all([take(users[0]), take(users[1])])
      const lost = Promise.allSettled([dead.acquire(), dead.acquire(), dead.acquire()])
      await eventually('the dead wait', async () => (await waitingIn()) === 3)
      const all = Array.from({ length: 6 }, (___, i) => take(users[i % 2]))
      await eventually('all wait', async () => (await waitingIn()) === 9)
      dead.dies()
      await clock.set(stepMs)
      const steppedAt = performance.now()
      const told = await users[0].retryAfterMs?.()
      // Nine stand in line: the last of them is served in the fifth window, and a request behind it in the sixth.
      if (told !== undefined) expect(told).toBeLessThanOrEqual(6 * WINDOW_MS)
      await Promise.all(all)
      const tookMs = performance.now() - steppedAt
      // Six waiters take three windows; the step may have cost or given one.
      expect(tookMs).toBeLessThan(AFTER_A_DEATH_MS + 4 * WINDOW_MS + (await late.stop()))
      // What was spent before the step may not count after it: one window more.
      expect(mostWithin(WINDOW_MS - 50, times)).toBeLessThanOrEqual(2 * QUOTA)
      expect(await waitingIn()).toBe(0)
      const after = await users[0].retryAfterMs?.()
      if (after !== undefined) expect(after).toBeLessThanOrEqual(WINDOW_MS)
      await lost
    },
  )

  test.each(KINDS)('%s: a line of dead processes does not delay new requests for long', async (__, kind) => {
    const make = await kind()
    const [dead, live] = [make(), make()]
    await Promise.all([dead.acquire(), dead.acquire()])
    const lost = dead.acquire().catch(() => {})
    await eventually('it waits', async () => (await waitingIn()) === 1)
    dead.dies()
    const late = await Lateness.of(redis)
    await clock.set(stepMs)
    const steppedAt = performance.now()
    await eventually('it is allowed', live.tries)
    const tookMs = performance.now() - steppedAt
    expect(tookMs).toBeLessThan(AFTER_A_DEATH_MS + 2 * WINDOW_MS + (await late.stop()))
    await lost
  })

  test('Semaphore: holders keep their lease or are notified, waiters are served, and the leases of dead processes end in time', async () => {
    const leaseMs = 2000
    const [dead, live] = [redis.client(), redis.client()]
    await new Semaphore(dead, 'k', { permits: 2 }).acquire({ lease: leaseMs })
    const held = await new Semaphore(live, 'k').acquire({ lease: leaseMs })
    const order: number[] = []
    const waiters = [0, 1, 2].map(async i => {
      const lease = await new Semaphore(redis.client(), 'k').acquire({ lease: leaseMs })
      order.push(i)
      await sleep(20)
      await lease.release()
    })
    await eventually('all wait', async () => (await waitingIn()) === 3)
    const late = await Lateness.of(redis)
    dead.disconnect()
    await clock.set(stepMs)
    const steppedAt = performance.now()
    await Promise.all(waiters)
    const tookMs = performance.now() - steppedAt
    // No process was notified of the end of that lease: waiters check for it every five seconds.
    expect(tookMs).toBeLessThan(leaseMs + AFTER_A_DEATH_MS + (await late.stop()))
    expect(order).toHaveLength(3)
    // As long as the lease can last without being extended: its holder knows by now.
    await sleep(leaseMs)
    if (held.held) expect(await held.release()).toBe(true)
    else expect(held.signal.reason).toBeInstanceOf(LeaseLostError)
    const watch = new Semaphore(admin, 'k')
    expect([await watch.availablePermits(), await watch.waiting()]).toEqual([2, 0])
    const last = await watch.acquire({ lease: leaseMs })
    expect(last.expiresAt - (Date.now() + stepMs)).toBeLessThan(leaseMs + 1000)
  })

  test('Semaphore: dead holders and waiters block tryAcquire for at most the length of a lease', async () => {
    const leaseMs = 1000
    const dead = redis.client()
    const semaphore = new Semaphore(dead, 'k', { permits: 1 })
    await semaphore.acquire({ lease: leaseMs })
    const lost = semaphore.acquire().catch(() => {})
    await eventually('it waits', async () => (await waitingIn()) === 1)
    dead.disconnect()
    const late = await Lateness.of(redis)
    await clock.set(stepMs)
    const steppedAt = performance.now()
    const live = new Semaphore(redis.client(), 'k')
    await eventually('it is granted', async () => (await live.tryAcquire({ lease: leaseMs })) !== null)
    const tookMs = performance.now() - steppedAt
    expect(tookMs).toBeLessThan(leaseMs + AFTER_A_DEATH_MS + (await late.stop()))
    await lost
  })
})

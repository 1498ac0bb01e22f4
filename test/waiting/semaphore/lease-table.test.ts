import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { concurrencyLimit } from '../../../src/http/adapters/express.js'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { semaphoreRenew } from '../../../src/redis/scripts.js'
import type { HeldLease } from '../../../src/waiting/semaphore/lease.js'
import { Semaphore, type SemaphoreOptions } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})
afterEach(() => {
  jest.restoreAllMocks()
})

let names = 0
const fresh = () => `table-${names++}`
const keyOf = (name: string, part = '') => `spillway:{${name}}:semaphore${part}`
const TABLES = [':open', ':held']

const open = (name: string, options: SemaphoreOptions = { permits: 3 }) => new Semaphore(redis.client(), name, options)

const size = async (name: string) =>
  (await Promise.all(TABLES.map(part => admin.zcount(keyOf(name, part), 0, 1e14)))).reduce((sum, one) => sum + one, 0)

/** The key of the leases, under whichever name it has now. */
async function tableOf(name: string): Promise<string> {
  for (const part of TABLES) if ((await admin.exists(keyOf(name, part))) === 1) return keyOf(name, part)
  throw new Error('it has no leases')
}

/** Leases of one permit that ended long ago, as dead processes leave them. */
async function endedLeases(name: string, count: number): Promise<void> {
  const table = await tableOf(name)
  for (let from = 0; from < count; from += 1000) {
    await admin.zadd(
      table,
      ...Array.from({ length: 1000 }, (_, i) => [1_700_000_000_000 + i, `1.0.p/1.ended${from + i}`]).flat(),
    )
  }
}

describe('leases that end by themselves', () => {
  test('are removed by later takes, so that their number stays bounded', async () => {
    const name = fresh()
    const semaphore = open(name, { permits: 1000 })
    for (let round = 0; round < 10; round++) {
      await Promise.all(Array.from({ length: 400 }, () => semaphore.acquire({ lease: 1000, renew: false })))
      if (round % 2 === 1) await sleep(1001)
    }
    for (let i = 0; i < 400; i++) await (await semaphore.acquire()).release()
    expect(await size(name)).toBeLessThan(1000)
  })

  test('leave nothing without a lifetime but the number of permits', async () => {
    const name = fresh()
    const semaphore = open(name)
    await semaphore.acquire({ lease: 5000, renew: false })
    for (const key of await admin.keys(`${keyOf(name)}:*`)) expect(await admin.pttl(key)).toBeGreaterThan(0)
  })

  test('are removed a few at a time, and count for nothing meanwhile', async () => {
    const name = fresh()
    const semaphore = open(name, { permits: 20_000 })
    await (await semaphore.acquire()).release()
    await endedLeases(name, 10_000)
    expect(await semaphore.availablePermits()).toBe(20_000)
    const left = await size(name)
    expect(left).toBeGreaterThanOrEqual(9900)
    await semaphore.setPermits(20_000)
    expect(await size(name)).toBeLessThan(left)
    expect(await semaphore.holders()).toEqual([])
    expect(await semaphore.resume('1.0.p/1.ended9999')).toBeNull()
    expect(await semaphore.forceRelease('1.0.p/1.ended9998')).toBe(false)
  })

  test('give back all their permits, also if they had several and others are taken since', async () => {
    const name = fresh()
    const busy = open(name, { permits: 10 })
    await busy.trySetPermits(10)
    const other = new Semaphore(redis.client(), name)
    await other.acquire({ permits: 3, lease: 100, renew: false })
    const held = await busy.acquire()
    // As long as the three permits are held, in real time.
    await sleep(101)
    for (let i = 0; i < 5; i++) await (await busy.acquire()).release()
    expect(await busy.availablePermits()).toBe(9)
    await held.release()
    expect(await busy.availablePermits()).toBe(10)
  })

  test('or are released, give back all their permits while other leases of several are held', async () => {
    const name = fresh()
    const semaphore = open(name, { permits: 10 })
    const held = await semaphore.acquire({ permits: 2 })
    expect(await (await semaphore.acquire({ permits: 3 })).release()).toBe(true)
    expect(await semaphore.availablePermits()).toBe(8)
    const short = await semaphore.acquire({ permits: 4, lease: 30, renew: false })
    await eventually('ended', async () => !short.held)
    await eventually('swept', async () => (await semaphore.availablePermits()) === 8)
    const rest = await Promise.all(Array.from({ length: 8 }, () => semaphore.tryAcquire()))
    expect(rest.every(lease => lease !== null)).toBe(true)
    expect(await semaphore.tryAcquire()).toBeNull()
    await Promise.all([held, ...rest].map(lease => lease?.release()))
    expect(await semaphore.availablePermits()).toBe(10)
  })
})

describe('a duration above ten years', () => {
  test.each([
    ['acquire', (semaphore: Semaphore) => semaphore.acquire({ lease: Number.MAX_SAFE_INTEGER })],
    ['tryAcquire', (semaphore: Semaphore) => semaphore.tryAcquire({ lease: '3651d' })],
    ['resume', (semaphore: Semaphore) => semaphore.resume('id', { lease: '3651d' })],
  ])('is refused by %s, with the bound and an example', async (method, take) => {
    const taken = (async () => take(new Semaphore(redis.client(), fresh(), { permits: 1 })))()
    await expect(taken).rejects.toThrow(PolicyError)
    await expect(taken).rejects.toThrow(new RegExp(`${method}: lease: .*: expected at most ten years, like '30s'`))
  })

  test('is refused by renew, idleTtl and concurrencyLimit', async () => {
    const semaphore = new Semaphore(redis.client(), fresh(), { permits: 1 })
    const lease = await semaphore.acquire({ lease: '3650d' })
    await expect(lease.renew('3651d')).rejects.toThrow(/renew: lease: .*at most ten years/)
    expect(await semaphore.availablePermits()).toBe(0)
    await lease.release()
    const client = redis.client()
    expect(() => new Semaphore(client, 'x', { permits: 1, idleTtl: '3651d' })).toThrow(/idleTtl: .*at most ten years/)
    expect(() => concurrencyLimit({ permits: 1, client, lease: '3651d' })).toThrow(/lease: .*at most ten years/)
  })
})

/** The calls that renew, of all clients: their keys. */
function renewalsOf(client: Redis): { keys: string[] }[] {
  const calls: { keys: string[] }[] = []
  const evalsha = client.evalsha.bind(client) as (...all: unknown[]) => Promise<unknown>
  Object.assign(client, {
    evalsha: (...args: unknown[]) => {
      const count = Number(args[1])
      if (args[0] === semaphoreRenew.sha1) calls.push({ keys: args.slice(2, 2 + count).map(String) })
      return evalsha(...args)
    },
  })
  return calls
}

describe('one call that renews', () => {
  test('contains at most sixteen semaphores, however few leases they have', async () => {
    const client = redis.client()
    const calls = renewalsOf(client)
    const semaphores = Array.from({ length: 40 }, () => new Semaphore(client, fresh(), { permits: 1 }))
    const leases = await Promise.all(semaphores.map(semaphore => semaphore.acquire({ lease: 1500 })))
    const first = leases.map(({ expiresAt }) => expiresAt)
    await eventually('renewed', async () => leases.every(({ expiresAt }, i) => expiresAt > first[i]))
    expect(Math.max(...calls.map(({ keys }) => keys.length / 2))).toBeLessThanOrEqual(16)
    await Promise.all(leases.map(lease => lease.release()))
  })
})

test('a lease ends in its process no later than in Redis, which counts whole milliseconds', async () => {
  const semaphore = new Semaphore(redis.client(), fresh(), { permits: 2 })
  for (let i = 0; i < 60; i++) {
    const lease = (await semaphore.acquire({ lease: '10s', renew: false })) as HeldLease
    // At the beginning of a millisecond the wall clock is exact.
    const before = Date.now()
    let now = before
    while (now === before) now = Date.now()
    expect(now + lease.leftMs).toBeLessThanOrEqual(lease.expiresAt)
    await lease.release()
  }
})

describe('a machine that was suspended', () => {
  test('finds its leases ended by the wall clock, although the monotonic clock stood still', async () => {
    const semaphore = new Semaphore(redis.client(), fresh(), { permits: 2 })
    const lease = await semaphore.acquire({ lease: '10s', renew: false })
    const { now } = Date
    const suspended = jest.spyOn(Date, 'now').mockImplementation(() => now() + 9000)
    expect(lease.held).toBe(true)
    suspended.mockImplementation(() => now() + 10_001)
    expect(lease.held).toBe(false)
    expect(lease.signal.aborted).toBe(true)
  })

  test.each([
    ['in the line', true],
    ['at once', false],
  ])('counts a lease that was taken %s from before the suspension, if its answer came after it', async (_, waits) => {
    const semaphore = new Semaphore(redis.client(), fresh(), { permits: 2 })
    const held = await semaphore.acquire({ permits: waits ? 2 : 1 })
    const { now } = Date
    const taken = semaphore.acquire({ lease: '10s', renew: false })
    if (waits) await eventually('it waits', async () => (await semaphore.waiting()) === 1)
    held.release()
    // After the call was sent, before its answer is read.
    setImmediate(() => jest.spyOn(Date, 'now').mockImplementation(() => now() + 6000))
    const lease = await taken
    expect(lease.held).toBe(true)
    jest.spyOn(Date, 'now').mockImplementation(() => now() + 10_001)
    expect(lease.held).toBe(false)
  })
})

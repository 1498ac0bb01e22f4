import { describe, expect, test } from '@jest/globals'
import {
  CostError,
  LeaseLostError,
  NotInitializedError,
  StoreError,
  TimeoutError,
} from '../../../src/limiter/core/errors.js'
import { ManualClock } from '../../../src/testing.js'
import { Semaphore, type SemaphoreOptions } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

const START = 1_700_000_000_000

const redis = testRedis()

let names = 0
const fresh = () => `test-${names++}`
const open = (options: SemaphoreOptions = {}, name = fresh()) => new Semaphore(redis.client(), name, options)

describe('the permits of a semaphore', () => {
  test('are set once by trySetPermits, and at any time by setPermits and addPermits', async () => {
    const semaphore = open()
    expect(await semaphore.trySetPermits(3)).toBe(true)
    expect(await semaphore.trySetPermits(9)).toBe(false)
    expect(await semaphore.permits()).toBe(3)
    await semaphore.setPermits(5)
    expect(await semaphore.addPermits(2)).toBe(7)
    expect(await semaphore.addPermits(-4)).toBe(3)
    expect(await semaphore.addPermits(-9)).toBe(0)
    expect(await semaphore.permits()).toBe(0)
  })

  test('given to the constructor are set by the first take or change, only if none are set', async () => {
    const name = fresh()
    const first = open({ permits: 2 }, name)
    expect(await first.availablePermits()).toBe(2)
    expect(await open({ permits: 3 }, name).availablePermits()).toBe(3)
    await (await first.acquire()).release()
    expect(await open({ permits: 7 }, name).permits()).toBe(2)
    expect(await open({ permits: 4 }).trySetPermits(6)).toBe(true)
  })

  test('are held by leases and come back when they are released', async () => {
    const semaphore = open({ permits: 5 })
    const two = await semaphore.acquire({ permits: 2 })
    const three = await semaphore.acquire({ permits: 3 })
    expect(await semaphore.availablePermits()).toBe(0)
    expect(await semaphore.tryAcquire()).toBeNull()
    expect(await two.release()).toBe(true)
    expect(await semaphore.availablePermits()).toBe(2)
    expect(await three.release()).toBe(true)
    expect(await semaphore.availablePermits()).toBe(5)
  })

  test('may shrink below the held permits: holders stay, nothing is granted until enough come back', async () => {
    const semaphore = open({ permits: 3 })
    const leases = [await semaphore.acquire(), await semaphore.acquire(), await semaphore.acquire()]
    await semaphore.setPermits(1)
    expect(await semaphore.availablePermits()).toBe(-2)
    expect(leases.map(({ held }) => held)).toEqual([true, true, true])
    await leases[0].release()
    await leases[1].release()
    expect(await semaphore.availablePermits()).toBe(0)
    expect(await semaphore.tryAcquire()).toBeNull()
    await leases[2].release()
    expect(await semaphore.tryAcquire()).not.toBeNull()
  })

  test('that were never set make every method reject but trySetPermits, setPermits and delete', async () => {
    const semaphore = open()
    const asks = [
      () => semaphore.addPermits(1),
      () => semaphore.permits(),
      () => semaphore.availablePermits(),
      () => semaphore.holders(),
      () => semaphore.waiting(),
      () => semaphore.tryAcquire(),
      () => semaphore.acquire(),
      () => semaphore.use(async () => 1),
      () => semaphore.resume('id'),
      () => semaphore.forceRelease('id'),
    ]
    for (const ask of asks) await expect(ask()).rejects.toThrow(NotInitializedError)
    expect(await semaphore.delete()).toBe(false)
    await semaphore.setPermits(1)
    expect(await semaphore.permits()).toBe(1)
  })
})

test('use refuses what is no function before it takes a permit', async () => {
  const semaphore = open({ permits: 1 })
  const held = await semaphore.acquire()
  for (const work of [undefined, 'x', 5]) {
    await expect(semaphore.use(work as never)).rejects.toThrow(/use: work .*: expected a function, like/)
  }
  expect(await semaphore.waiting()).toBe(0)
  await held.release()
})

describe('a lease', () => {
  test('has an id that nobody guesses, its permits, a deadline by the server and a token that grows', async () => {
    const semaphore = open({ permits: 4 })
    const before = await redis.client().time()
    const first = await semaphore.acquire({ permits: 2, lease: '5s' })
    const second = await semaphore.acquire()
    const serverMs = Number(before[0]) * 1000 + Number(before[1]) / 1000
    expect(Buffer.from(first.id.split('.')[3], 'base64url')).toHaveLength(16)
    expect(first.id).not.toBe(second.id)
    expect([first.permits, second.permits]).toEqual([2, 1])
    expect(first.expiresAt).toBeGreaterThanOrEqual(Math.floor(serverMs) + 5000)
    expect(second.expiresAt).toBeGreaterThanOrEqual(Math.floor(serverMs) + 30_000)
    expect(second.token > first.token).toBe(true)
    expect(first.token >= BigInt(Math.floor(serverMs * 1000))).toBe(true)
    const holders = await semaphore.holders()
    const [{ since, heldBy }] = holders
    expect(holders).toEqual([
      { id: first.id, permits: 2, expiresAt: first.expiresAt, since, heldBy },
      { id: second.id, permits: 1, expiresAt: second.expiresAt, since: expect.any(Number), heldBy },
    ])
    // One machine has one clock.
    expect(Math.abs(since + 5000 - first.expiresAt)).toBeLessThan(5000)
    expect(heldBy).toMatch(/^[\w-]{12}$/)
  })

  test('has a greater token than any before, also when all keys were lost in between', async () => {
    const clock = new ManualClock(START)
    const semaphore = open({ permits: 1, clock })
    let last = 0n
    for (let i = 0; i < 20; i++) {
      const lease = await semaphore.acquire()
      expect(lease.token > last).toBe(true)
      last = lease.token
      if (i % 5 === 0) await semaphore.delete()
      else await lease.release()
    }
  })

  test('is released once: later releases resolve false', async () => {
    const semaphore = open({ permits: 1 })
    const lease = await semaphore.acquire()
    expect(lease.held).toBe(true)
    const both = await Promise.all([lease.release(), lease.release()])
    expect(both).toEqual([true, false])
    expect(lease.held).toBe(false)
    expect(await lease.renew()).toBe(false)
    expect(lease.signal.aborted).toBe(false)
    expect(await semaphore.availablePermits()).toBe(1)
  })

  test('ends at its own deadline, however short later leases are', async () => {
    const clock = new ManualClock(START)
    const semaphore = open({ permits: 2, clock })
    const long = await semaphore.acquire({ lease: '10s', renew: false })
    const short = await semaphore.acquire({ lease: '1s', renew: false })
    clock.advance(999)
    expect(await semaphore.availablePermits()).toBe(0)
    expect(short.held).toBe(true)
    clock.advance(1)
    expect(await semaphore.availablePermits()).toBe(1)
    expect([long.held, short.held]).toEqual([true, false])
    expect(await short.release()).toBe(false)
    clock.advance(8999)
    expect(await semaphore.availablePermits()).toBe(1)
    clock.advance(1)
    expect(await semaphore.availablePermits()).toBe(2)
    expect(long.held).toBe(false)
  })

  test('that was lost aborts its signal with LeaseLostError and throws nothing', async () => {
    const clock = new ManualClock(START)
    const semaphore = open({ permits: 1, clock })
    const lease = await semaphore.acquire({ lease: '1s', renew: false })
    clock.advance(1000)
    expect(lease.held).toBe(false)
    expect(lease.signal.aborted).toBe(true)
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
    expect(await lease.release()).toBe(false)
    expect(await lease.renew()).toBe(false)
  })

  test('is extended by renew, for as long as before or for a given time', async () => {
    const clock = new ManualClock(START)
    const semaphore = open({ permits: 1, clock })
    const lease = await semaphore.acquire({ lease: '10s', renew: false })
    clock.advance(9000)
    expect(await lease.renew()).toBe(true)
    expect(lease.expiresAt).toBe(START + 19_000)
    expect(await lease.renew('1m')).toBe(true)
    expect(lease.expiresAt).toBe(START + 69_000)
    clock.advance(60_000)
    expect(lease.held).toBe(false)
    expect(await lease.renew()).toBe(false)
  })

  test('ended by force is lost at once, and the next waiter is served', async () => {
    const name = fresh()
    const semaphore = open({ permits: 1 }, name)
    const lease = await semaphore.acquire()
    const next = open({}, name).acquire()
    expect(await open({}, name).forceRelease('nobody')).toBe(false)
    expect(await open({}, name).forceRelease(lease.id)).toBe(true)
    await eventually('lost', async () => lease.signal.aborted)
    expect(lease.held).toBe(false)
    expect(await lease.release()).toBe(false)
    expect((await next).held).toBe(true)
    expect(await semaphore.forceRelease(lease.id)).toBe(false)
  })

  test('is lost when the semaphore is deleted', async () => {
    const semaphore = open({ permits: 1 })
    const lease = await semaphore.acquire({ renew: false })
    expect(await semaphore.delete()).toBe(true)
    await eventually('lost', async () => lease.signal.aborted)
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
    expect(await semaphore.delete()).toBe(false)
  })

  test('is taken over by its id: same permits, a new token, and the former holder has lost it', async () => {
    const name = fresh()
    const here = open({ permits: 3 }, name)
    const there = open({}, name)
    const lease = await here.acquire({ permits: 2 })
    const taken = await there.resume(lease.id, { lease: '1m' })
    expect(taken?.id).not.toBe(lease.id)
    expect(taken?.permits).toBe(2)
    expect(taken!.token > lease.token).toBe(true)
    await eventually('lost here', async () => lease.signal.aborted)
    expect(await there.resume(lease.id)).toBeNull()
    expect(await lease.release()).toBe(false)
    expect(await here.availablePermits()).toBe(1)
    expect(taken?.held).toBe(true)
    expect(await taken?.release()).toBe(true)
    expect(await here.availablePermits()).toBe(3)
    expect(await there.resume(lease.id)).toBeNull()
  })

  test('is released at the end of a block that declares it with await using', async () => {
    const semaphore = open({ permits: 1 })
    {
      await using lease = await semaphore.acquire()
      expect(lease.held).toBe(true)
      expect(await semaphore.availablePermits()).toBe(0)
    }
    expect(await semaphore.availablePermits()).toBe(1)
  })

  test('is released by use, whether its work succeeds or fails', async () => {
    const semaphore = open({ permits: 1 })
    expect(await semaphore.use(async lease => lease.permits)).toBe(1)
    const failure = new Error('work')
    const failing = semaphore.use(async () => {
      throw failure
    })
    await expect(failing).rejects.toBe(failure)
    expect(await semaphore.availablePermits()).toBe(1)
  })
})

describe('a request for permits', () => {
  test('for more permits than exist, or for none, rejects with CostError at once', async () => {
    const semaphore = open({ permits: 2 })
    const held = await semaphore.acquire({ permits: 2 })
    await expect(semaphore.acquire({ permits: 3 })).rejects.toThrow(/permits 3: there are 2 in all/)
    await expect(semaphore.tryAcquire({ permits: 3 })).rejects.toThrow(CostError)
    for (const permits of [0, -1, 1.5, Number.NaN, '1' as never]) {
      await expect(semaphore.acquire({ permits })).rejects.toThrow(CostError)
    }
    await held.release()
    expect(await semaphore.waiting()).toBe(0)
  })

  test('rejects with StoreError while Redis is absent, also if it waits', async () => {
    const client = redis.client({ port: 1, maxRetriesPerRequest: 0, retryStrategy: () => null })
    const semaphore = new Semaphore(client, fresh(), { permits: 1 })
    await expect(semaphore.acquire()).rejects.toThrow(StoreError)
    await expect(semaphore.permits()).rejects.toThrow(StoreError)
    await semaphore.close()
  }, 10_000)

  test('that waits longer than its timeout rejects with TimeoutError; tryAcquire resolves to null', async () => {
    const semaphore = open({ permits: 1 })
    await semaphore.acquire()
    await expect(semaphore.acquire({ timeout: 0 })).rejects.toThrow(TimeoutError)
    await expect(semaphore.acquire({ timeout: 20 })).rejects.toThrow('no permits within 20 ms')
    expect(await semaphore.tryAcquire({ timeout: '20ms' })).toBeNull()
    // A timeout that ends before Redis has answered the join is told with the next ask, which goes out before the
    // second look.
    await semaphore.waiting()
    expect(await semaphore.waiting()).toBe(0)
  })

  test('that has timed out counts as waiting until Redis has answered its join', async () => {
    const semaphore = open({ permits: 1 })
    await semaphore.acquire()
    // Somebody waits already: the next request joins at once.
    const first = semaphore.acquire().catch(() => {})
    await eventually('waits', async () => (await semaphore.waiting()) === 1)
    await redis.client().client('PAUSE', 100, 'ALL')
    await expect(semaphore.acquire({ timeout: 20 })).rejects.toThrow('no permits within 20 ms')
    // The join is still on its way, and this goes out behind it.
    expect(await semaphore.waiting()).toBe(2)
    expect(await semaphore.waiting()).toBe(1)
    await semaphore.close()
    await first
  })
})

describe('keys of a semaphore', () => {
  const left = async (name: string) => (await redis.client().keys(`*{${name}}*`)).sort()
  const lifetimes = async (name: string) => {
    const keys = await left(name)
    return Promise.all(keys.map(async key => [key.split('semaphore')[1], await redis.client().pttl(key)] as const))
  }

  /** How much longer than `idleTtl` a key lives at most, ms. */
  const MINUTE = 60_000

  test('all have a lifetime where idleTtl is set, of at most a minute more', async () => {
    const name = fresh()
    const semaphore = open({ permits: 1, idleTtl: 200 }, name)
    const lease = await semaphore.acquire()
    const waiting = semaphore.acquire()
    await eventually('waits', async () => (await semaphore.waiting()) === 1)
    for (const [, ms] of await lifetimes(name)) expect(ms).toBeGreaterThan(0)
    await lease.release()
    await (await waiting).release()
    const keys = await lifetimes(name)
    expect(keys.filter(([key]) => !key.startsWith(':sent')).map(([key]) => key)).toEqual([':open'])
    for (const [, ms] of keys) {
      expect(ms).toBeGreaterThan(0)
      expect(ms).toBeLessThanOrEqual(200 + MINUTE)
    }
  })

  test('keep the number of permits for ever without idleTtl, and nothing else', async () => {
    const name = fresh()
    const semaphore = open({ permits: 1 }, name)
    await (await semaphore.acquire()).release()
    expect((await lifetimes(name)).filter(([, ms]) => ms === -1).map(([key]) => key)).toEqual([''])
  })

  test('stay as long as anything is held, whatever idleTtl says, also for an object that knows of none', async () => {
    const name = fresh()
    await (await open({ permits: 1, idleTtl: 1000 }, name).acquire()).release()
    const lease = await open({}, name).acquire({ lease: '20s' })
    for (const [key, ms] of await lifetimes(name)) {
      if (!key.startsWith(':sent')) expect(ms).toBeGreaterThan(20_000)
    }
    await lease.release()
    for (const [, ms] of await lifetimes(name)) expect(ms).toBeGreaterThan(0)
  })

  test('of a thousand names used once are one each, for at most a minute after idleTtl', async () => {
    const client = redis.client()
    await client.ping()
    const prefix = fresh()
    const names = Array.from({ length: 1000 }, (_, i) => `once-${i}`)
    await Promise.all(
      names.map(async name => {
        const lease = await new Semaphore(client, name, { permits: 1, prefix, idleTtl: 100 }).acquire()
        await lease.release()
      }),
    )
    const keys = await client.keys(`${prefix}:*`)
    expect(keys).toHaveLength(1000)
    for (const key of keys) {
      const ms = await client.pttl(key)
      expect(ms).toBeGreaterThan(0)
      expect(ms).toBeLessThanOrEqual(100 + MINUTE)
    }
  })

  test('lost while leases are out are restored: the count is made of what is left', async () => {
    const name = fresh()
    const semaphore = open({ permits: 5 }, name)
    const [one, two] = [await semaphore.acquire(), await semaphore.acquire({ permits: 2 })]
    await redis.client().del(`spillway:{${name}}:semaphore`)
    expect(await semaphore.availablePermits()).toBe(2)
    await redis.client().del(`spillway:{${name}}:semaphore:open`)
    expect(await semaphore.availablePermits()).toBe(5)
    expect(await one.release()).toBe(false)
    expect(await two.renew()).toBe(false)
  })
})

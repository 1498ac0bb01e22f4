import { describe, expect, test } from '@jest/globals'
import { createClient } from 'redis'
import { CostError, NotInitializedError, StoreError } from '../../../src/limiter/core/errors.js'
import { ManualClock } from '../../../src/testing.js'
import { SharedRateLimiter, type SharedRateLimiterOptions } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { eventually } from '../../support/eventually.js'
import { monitor } from '../../support/monitor.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { RedisServer } from '../../support/redis-server.js'
import { testRedis } from '../../support/test-redis.js'

const START = 1_700_000_000_000

const redis = testRedis()

let names = 0
const fresh = () => `test-${names++}`
const open = (name = fresh(), options: SharedRateLimiterOptions = {}) =>
  new SharedRateLimiter(redis.client(), name, options)

/** A limiter whose time is ours, with a rate. */
async function timed(rate: number, intervalMs: number, options: SharedRateLimiterOptions = {}, name = fresh()) {
  const clock = new ManualClock(START)
  const limiter = open(name, { clock, ...options })
  await limiter.setRate({ rate, interval: intervalMs })
  return { clock, limiter, name }
}

/** What is left of a limiter, each key without what they all begin with, and its lifetime in ms. */
async function lifetimes(name: string): Promise<Map<string, number>> {
  const base = `spillway:{${name}}:rate`
  const client = redis.client()
  const keys = await client.keys(`${base}*`)
  const found = await Promise.all(keys.map(async key => [key.slice(base.length), await client.pttl(key)] as const))
  return new Map(found.filter(([, ms]) => ms !== -2))
}

const left = async (name: string) => [...(await lifetimes(name)).keys()].sort()
/**
 * The same without the records of what was asked for, which are kept for a minute: a command that is sent twice within
 * it counts once.
 */
const counted = async (name: string) => (await left(name)).filter(key => !key.startsWith(':sent:'))
/** What is needed to count a repeated command once stays for a minute. */
const gone = (name: string) => eventually('nothing is left', async () => (await counted(name)).length === 0)

/** Takes one at a time until refused. */
async function drain(limiter: SharedRateLimiter): Promise<number> {
  let taken = 0
  while (await limiter.tryAcquire()) taken++
  return taken
}

describe('a shared rate', () => {
  test('grants its number of permits in any interval, each free again after an interval', async () => {
    const { clock, limiter } = await timed(3, 1000)
    expect(await limiter.tryAcquire(2)).toBe(true)
    clock.advance(600)
    expect(await limiter.tryAcquire(1)).toBe(true)
    expect(await limiter.tryAcquire(1)).toBe(false)
    clock.advance(399)
    expect(await limiter.availablePermits()).toBe(0)
    expect(await limiter.tryAcquire(1)).toBe(false)
    clock.advance(1)
    expect(await limiter.availablePermits()).toBe(2)
    expect(await limiter.tryAcquire(3)).toBe(false)
    expect(await limiter.tryAcquire(2)).toBe(true)
    clock.advance(600)
    expect(await limiter.tryAcquire(1)).toBe(true)
    expect(await limiter.availablePermits()).toBe(0)
  })

  test('spends nothing on a refusal', async () => {
    const { clock, limiter } = await timed(2, 1000)
    expect(await limiter.tryAcquire()).toBe(true)
    for (let i = 0; i < 5; i++) expect(await limiter.tryAcquire(2)).toBe(false)
    expect(await limiter.availablePermits()).toBe(1)
    clock.advance(1000)
    expect(await limiter.availablePermits()).toBe(2)
  })

  test('is set once by trySetRate, although many try at once', async () => {
    const name = fresh()
    const tries = await Promise.all([5, 6, 7, 8].map(rate => open(name).trySetRate({ rate, interval: '1m' })))
    expect(tries.filter(Boolean)).toHaveLength(1)
    const config = await open(name).getConfig()
    expect(config).toEqual({ rate: 5 + tries.indexOf(true), intervalMs: 60_000, mode: 'overall', keepAliveMs: null })
  })

  test('is replaced by setRate in any case, and by updateRate only if a rate was set', async () => {
    const name = fresh()
    const limiter = open(name)
    expect(await limiter.updateRate({ rate: 1, interval: 1000 })).toBe(false)
    expect(await left(name)).toEqual([])
    await limiter.setRate({ rate: 1, interval: 1000 })
    await limiter.setRate({ rate: 2, interval: '2s', mode: 'per-client', keepAlive: '1m' })
    expect(await limiter.getConfig()).toEqual({ rate: 2, intervalMs: 2000, mode: 'per-client', keepAliveMs: 60_000 })
    expect(await limiter.updateRate({ rate: 3, interval: '3s' })).toBe(true)
    expect(await limiter.getConfig()).toEqual({ rate: 3, intervalMs: 3000, mode: 'overall', keepAliveMs: null })
  })

  test('applies to the next decision of every process', async () => {
    const name = fresh()
    const [a, b] = [open(name), open(name)]
    await a.setRate({ rate: 1, interval: '1m' })
    expect([await b.tryAcquire(), await b.tryAcquire()]).toEqual([true, false])
    await a.setRate({ rate: 5, interval: '1m' }, { keepState: true })
    expect(await b.availablePermits()).toBe(4)
    expect(await b.tryAcquire(4)).toBe(true)
  })

  test('shares nothing with another name or prefix', async () => {
    const [a, b, c] = [open('x}y'), open('x'), open('x}y', { prefix: 'other' })]
    await a.setRate({ rate: 1, interval: '1m' })
    expect([await b.getConfig(), await c.getConfig()]).toEqual([null, null])
  })

  test('takes nothing for 0 permits, and succeeds', async () => {
    const { limiter } = await timed(1, 1000)
    await limiter.acquire(0)
    expect(await limiter.tryAcquire(0)).toBe(true)
    expect(await limiter.tryAcquire(1)).toBe(true)
    expect(await limiter.tryAcquire(0)).toBe(true)
    await limiter.acquire(0)
    expect(await limiter.availablePermits()).toBe(0)
  })

  test('is the same with a process clock that is an hour off', async () => {
    const limiter = open()
    const now = Date.now
    try {
      await limiter.setRate({ rate: 2, interval: 300, keepAlive: '1m' })
      Date.now = () => now() + 3_600_000
      expect(await drain(limiter)).toBe(2)
      Date.now = () => now() - 3_600_000
      expect(await limiter.tryAcquire()).toBe(false)
      const askedAt = performance.now()
      await limiter.acquire()
      expect(performance.now() - askedAt).toBeLessThan(2000)
      expect(await limiter.exists()).toBe(true)
    } finally {
      Date.now = now
    }
  })
})

describe('keepState', () => {
  test('remembers a deficit when the rate falls', async () => {
    const { clock, limiter } = await timed(10, 1000)
    await limiter.tryAcquire(4)
    clock.advance(500)
    await limiter.tryAcquire(4)
    await limiter.setRate({ rate: 5, interval: 1000 }, { keepState: true })
    expect(await limiter.availablePermits()).toBe(0)
    clock.advance(499)
    expect(await limiter.tryAcquire()).toBe(false)
    clock.advance(1)
    expect(await limiter.availablePermits()).toBe(1)
    clock.advance(500)
    expect(await limiter.availablePermits()).toBe(5)
  })

  test('applies a longer or shorter interval to logged permits', async () => {
    const { clock, limiter } = await timed(10, 1000)
    await limiter.tryAcquire(4)
    clock.advance(900)
    await limiter.tryAcquire(3)
    await limiter.updateRate({ rate: 10, interval: 5000 }, { keepState: true })
    clock.advance(4099)
    expect(await limiter.availablePermits()).toBe(3)
    clock.advance(1)
    expect(await limiter.availablePermits()).toBe(7)
    await limiter.updateRate({ rate: 10, interval: 100 }, { keepState: true })
    expect(await limiter.availablePermits()).toBe(10)
  })

  test('without it, taken permits are forgotten', async () => {
    const { limiter } = await timed(10, 1000)
    await limiter.tryAcquire(10)
    await limiter.setRate({ rate: 7, interval: 1000 })
    expect(await limiter.availablePermits()).toBe(7)
    await limiter.tryAcquire(7)
    await limiter.updateRate({ rate: 8, interval: 1000 })
    expect(await limiter.availablePermits()).toBe(8)
  })

  test('keeps the state of every client', async () => {
    const name = fresh()
    const clock = new ManualClock(START)
    const [a, b, c] = ['a', 'b', 'c'].map(clientId => open(name, { clientId, clock }))
    const rate = { rate: 5, interval: 1000, mode: 'per-client' as const }
    await a.setRate(rate)
    await a.tryAcquire(1)
    await b.tryAcquire(2)
    await c.setRate({ ...rate, rate: 4 }, { keepState: true })
    const available = () => Promise.all([a, b, c].map(limiter => limiter.availablePermits()))
    expect(await available()).toEqual([3, 2, 4])
    await c.setRate(rate)
    expect(await available()).toEqual([5, 5, 5])
  })
})

describe('release', () => {
  test('gives back the oldest grants that still count, so that no interval ever has more than the rate', async () => {
    const { clock, limiter } = await timed(5, 1000)
    await limiter.tryAcquire(2)
    clock.advance(500)
    await limiter.tryAcquire(3)
    await limiter.release(2)
    expect(await limiter.availablePermits()).toBe(2)
    expect(await limiter.tryAcquire(2)).toBe(true)
    clock.advance(500)
    expect(await limiter.availablePermits()).toBe(0)
    clock.advance(500)
    expect(await limiter.availablePermits()).toBe(5)
  })

  test('gives back at most the taken permits', async () => {
    const { clock, limiter } = await timed(5, 1000)
    await limiter.tryAcquire(2)
    await limiter.release(1000)
    expect(await limiter.availablePermits()).toBe(5)
    expect(await drain(limiter)).toBe(5)
    clock.advance(1000)
    await limiter.release(3)
    expect(await drain(limiter)).toBe(5)
    expect(await limiter.tryAcquire()).toBe(false)
  })

  test('of 0 changes nothing, and of an invalid number of permits is a CostError', async () => {
    const { limiter } = await timed(5, 1000)
    await limiter.tryAcquire(2)
    await limiter.release(0)
    expect(await limiter.availablePermits()).toBe(3)
    for (const wrong of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, '1' as never]) {
      await expect(limiter.release(wrong)).rejects.toThrow(CostError)
    }
  })
})

describe("the mode 'per-client'", () => {
  const rate = { rate: 2, interval: 200, mode: 'per-client' as const }

  test('counts each client separately, and the objects of one process together', async () => {
    const name = fresh()
    const [a, b] = [open(name, { clientId: 'a' }), open(name, { clientId: 'b' })]
    const [mine, also] = [open(name), open(name)]
    await a.setRate({ ...rate, interval: '1m' })
    expect([await drain(a), await drain(b)]).toEqual([2, 2])
    expect([await mine.tryAcquire(), await also.tryAcquire(), await mine.tryAcquire()]).toEqual([true, true, false])
  })

  test('forgets dead clients after two intervals', async () => {
    const name = fresh()
    await open(name, { clientId: 'setter' }).setRate(rate)
    await Promise.all(Array.from({ length: 20 }, (_, i) => open(name, { clientId: `dead-${i}` }).tryAcquire()))
    const usedAt = performance.now()
    expect((await left(name)).length).toBeGreaterThan(20)
    for (const [key, ms] of await lifetimes(name)) {
      if (key !== '') expect([key, ms <= (key.startsWith(':sent:') ? 60_000 : 400)]).toEqual([key, true])
    }
    await eventually('only the rate is left', async () => (await counted(name)).join() === '')
    expect(performance.now() - usedAt).toBeLessThan(1000)
    expect(await open(name).exists()).toBe(true)
  })

  test('removes clients from its register that have not asked for two intervals, or a minute', async () => {
    const name = fresh()
    const clock = new ManualClock(START)
    for (let i = 0; i < 100; i++) {
      const limiter = open(name, { clientId: `client-${i}`, clock })
      await limiter.trySetRate({ rate: 1, interval: 10_000, mode: 'per-client' })
      await limiter.tryAcquire()
      clock.advance(10_000)
    }
    // A given clock pads by five seconds.
    expect(await redis.client().zcard(`spillway:{${name}}:rate:clients`)).toBeLessThanOrEqual(7)
  })

  test('setRate, expire and delete over hundreds of clients are calls of bounded length', async () => {
    const name = fresh()
    const client = redis.client()
    const setter = new SharedRateLimiter(client, name, { clientId: 'setter' })
    const rate = { rate: 5, interval: '1h', mode: 'per-client' } as const
    await setter.setRate(rate)
    const clients = Array.from(
      { length: 400 },
      (_, i) => new SharedRateLimiter(client, name, { clientId: `client-${i}` }),
    )
    /** The most commands, and keys, of any script that this sends. */
    const largest = async (change: () => Promise<unknown>) => {
      const most = { commands: 0, keys: 0, scripts: 0 }
      let [commands, seen] = [0, false]
      const end = await monitor(redis.port, ({ args, byScript }) => {
        if (byScript) most.commands = Math.max(most.commands, ++commands)
        else if (/^eval/i.test(args[0])) {
          commands = 0
          most.scripts++
          most.keys = Math.max(most.keys, Number(args[2]))
        } else seen ||= args[1] === 'the end'
      })
      await change()
      await redis.client().echo('the end')
      await eventually('all is seen', async () => seen)
      end()
      return most
    }
    for (const change of [
      () => setter.setRate({ ...rate, rate: 6 }, { keepState: true }),
      () => setter.setRate({ ...rate, rate: 7 }),
      () => setter.expire('30m'),
      () => setter.delete(),
    ]) {
      await Promise.all(clients.map(limiter => limiter.tryAcquire()))
      const { commands, keys, scripts } = await largest(change)
      expect(scripts).toBeGreaterThanOrEqual(9)
      expect(commands).toBeLessThan(1000)
      expect(keys).toBeLessThanOrEqual(210)
    }
    expect(await counted(name)).toEqual([])
  })

  test('a change holds for every client at once, also for those that no call has visited', async () => {
    const [name, clock] = [fresh(), new ManualClock(START)]
    const rate = { rate: 5, interval: 1000, mode: 'per-client' as const }
    const [setter, a, b, c] = ['setter', 'a', 'b', 'c'].map(clientId => open(name, { clientId, clock }))
    await setter.setRate(rate)
    await Promise.all([a, b, c].map(limiter => limiter.tryAcquire(5)))
    /** The change alone, as if its process had died behind it. */
    const alone = async (change: () => Promise<unknown>) => {
      const client = redis.client()
      const dying = new SharedRateLimiter(client, name, { clientId: 'dying', clock })
      const sent = client.evalsha.bind(client) as (...words: unknown[]) => Promise<unknown>
      let calls = 0
      client.evalsha = ((...words: unknown[]) => (calls++ === 0 ? sent(...words) : new Promise(() => {}))) as never
      const changed = dying.setRate(rate)
      await eventually('it is set', async () => calls > 1)
      changed.catch(() => {})
      await change()
    }
    await alone(async () => {
      expect(await Promise.all([a, b].map(limiter => limiter.availablePermits()))).toEqual([5, 5])
      expect([await drain(a), await drain(b), await a.tryAcquire()]).toEqual([5, 5, false])
    })
    // What c took is forgotten, too, although it comes only after the next change, which keeps it.
    await setter.setRate({ ...rate, rate: 6 }, { keepState: true })
    expect([await drain(a), await drain(b), await drain(c)]).toEqual([1, 1, 6])
    // A rate that is deleted and set again begins anew.
    await setter.delete()
    await setter.setRate(rate)
    expect([await drain(a), await drain(c)]).toEqual([5, 5])
  })

  test('setRate and delete reach the state of hundreds of clients without their names', async () => {
    const name = fresh()
    const client = redis.client()
    const clients = Array.from(
      { length: 300 },
      (_, i) => new SharedRateLimiter(client, name, { clientId: `client-${i}` }),
    )
    const setter = open(name, { clientId: 'setter' })
    await setter.setRate({ rate: 1, interval: '1m', mode: 'per-client', keepAlive: '2m' })
    await Promise.all(clients.map(limiter => limiter.tryAcquire()))
    expect((await Promise.all(clients.map(limiter => limiter.availablePermits()))).every(free => free === 0)).toBe(true)
    await setter.setRate({ rate: 3, interval: '1m', mode: 'per-client', keepAlive: '2m' })
    expect((await Promise.all(clients.map(limiter => limiter.availablePermits()))).every(free => free === 3)).toBe(true)
    await Promise.all(clients.map(limiter => limiter.tryAcquire(2)))
    for (const [key, ms] of await lifetimes(name)) expect([key, ms > 0]).toEqual([key, true])
    expect(await setter.expire(150)).toBe(true)
    for (const [key, ms] of await lifetimes(name))
      if (!key.startsWith(':sent')) expect([key, ms <= 150]).toEqual([key, true])
    await eventually('ended', async () => (await left(name)).every(key => key.startsWith(':sent')))
    await setter.setRate({ rate: 1, interval: '1m', mode: 'per-client' })
    expect((await Promise.all(clients.map(limiter => limiter.tryAcquire()))).every(Boolean)).toBe(true)
    expect(await setter.delete()).toBe(true)
    expect((await left(name)).filter(key => !key.startsWith(':sent'))).toEqual([])
  })

  test('can be changed to the other one, and back', async () => {
    const name = fresh()
    const clock = new ManualClock(START)
    const [a, b] = ['a', 'b'].map(clientId => open(name, { clientId, clock }))
    await a.setRate({ rate: 2, interval: 1000 })
    expect([await drain(a), await drain(b)]).toEqual([2, 0])
    await a.setRate({ rate: 2, interval: 1000, mode: 'per-client' })
    expect([await drain(a), await drain(b)]).toEqual([2, 2])
    await a.setRate({ rate: 3, interval: 1000 })
    expect([await drain(b), await drain(a)]).toEqual([3, 0])
  })
})

describe('the life of a shared rate', () => {
  test('without keepAlive it has no end, and grants live two intervals at most', async () => {
    const name = fresh()
    const limiter = open(name)
    await limiter.setRate({ rate: 1, interval: 300 })
    await limiter.tryAcquire()
    const soon = await lifetimes(name)
    expect(soon.get('')).toBe(-1)
    expect(soon.get(':log')).toBeGreaterThan(0)
    expect(soon.get(':log')).toBeLessThanOrEqual(600)
    await eventually('only the rate is left', async () => (await counted(name)).join() === '')
  })

  test('with keepAlive every key always has a lifetime, and all are gone after that time without use', async () => {
    const name = fresh()
    const limiter = open(name)
    const checked = async () => {
      for (const [key, ms] of await lifetimes(name)) expect([key, ms > 0]).toEqual([key, true])
    }
    await limiter.setRate({ rate: 2, interval: 100, keepAlive: 400 })
    await checked()
    await limiter.tryAcquire()
    await checked()
    const waiting = [limiter.acquire(2), limiter.acquire(2)]
    await eventually('wait', async () => (await left(name)).includes(':line'))
    await checked()
    await limiter.release(1)
    await checked()
    await limiter.updateRate({ rate: 2, interval: 200, keepAlive: 300 }, { keepState: true })
    await checked()
    await Promise.all(waiting)
    await checked()
    await gone(name)
    expect(await limiter.getConfig()).toBeNull()
  })

  test('keepAlive counts from the last use, refusals included', async () => {
    const clock = new ManualClock(START)
    const limiter = open(fresh(), { clock })
    await limiter.setRate({ rate: 1, interval: 1000, keepAlive: 1000 })
    clock.advance(999)
    expect(await limiter.tryAcquire()).toBe(true)
    clock.advance(999)
    expect(await limiter.tryAcquire()).toBe(false)
    clock.advance(999)
    expect(await limiter.tryAcquire()).toBe(true)
    clock.advance(1000)
    expect(await limiter.exists()).toBe(false)
    await expect(limiter.tryAcquire()).rejects.toThrow(NotInitializedError)
  })

  test('promised turns outlive keepAlive', async () => {
    const name = fresh()
    const limiter = open(name)
    await limiter.setRate({ rate: 1, interval: 100, keepAlive: 100 })
    await Promise.all([1, 2, 3, 4, 5].map(() => limiter.acquire()))
    await gone(name)
  })

  test('expire ends it and all clients’ state at that time, used or not', async () => {
    const clock = new ManualClock(START)
    const name = fresh()
    const [a, b] = ['a', 'b'].map(clientId => open(name, { clientId, clock }))
    expect(await a.expire('1s')).toBe(false)
    await a.setRate({ rate: 5, interval: 1000, mode: 'per-client' })
    await Promise.all([a.tryAcquire(), b.tryAcquire()])
    expect(await a.expire('3s')).toBe(true)
    clock.advance(2999)
    expect([await a.tryAcquire(), await b.tryAcquire()]).toEqual([true, true])
    clock.advance(1)
    expect(await b.exists()).toBe(false)
    await expect(b.tryAcquire()).rejects.toThrow(NotInitializedError)
    expect(await a.trySetRate({ rate: 1, interval: 1000 })).toBe(true)
    expect(await b.tryAcquire()).toBe(true)
  })

  test('expire ends every key at that time in Redis too, and a later call replaces an earlier one', async () => {
    const name = fresh()
    const limiter = open(name)
    for (const keepAlive of [undefined, '1h']) {
      await limiter.setRate({ rate: 5, interval: '1m', keepAlive })
      await limiter.tryAcquire()
      await limiter.expire(1000)
      for (const [key, ms] of await lifetimes(name))
        if (!key.startsWith(':sent')) expect([key, ms <= 1000]).toEqual([key, true])
      await limiter.expire('30s')
      for (const key of ['', ':log']) expect((await lifetimes(name)).get(key)).toBeGreaterThan(29_000)
      await limiter.tryAcquire()
      await limiter.setRate({ rate: 5, interval: '1m', keepAlive }, { keepState: true })
      for (const [key, ms] of await lifetimes(name))
        if (!key.startsWith(':sent')) expect([key, ms <= 30_000]).toEqual([key, true])
      expect(await limiter.availablePermits()).toBe(3)
      await limiter.expire(100)
      await gone(name)
    }
  })

  test('delete leaves nothing, and returns whether anything existed', async () => {
    const name = fresh()
    const limiter = open(name)
    expect(await limiter.delete()).toBe(false)
    await limiter.setRate({ rate: 5, interval: '1m' })
    await limiter.tryAcquire()
    expect(await limiter.exists()).toBe(true)
    expect(await limiter.delete()).toBe(true)
    expect(await left(name)).toEqual([])
    expect(await limiter.exists()).toBe(false)
    expect(await limiter.delete()).toBe(false)
  })
})

describe('a rate that is not set', () => {
  test('without a rate everything else rejects with NotInitializedError and creates nothing', async () => {
    const name = fresh()
    const limiter = open(name)
    expect(await limiter.getConfig()).toBeNull()
    expect(await limiter.exists()).toBe(false)
    for (const call of [
      () => limiter.tryAcquire(),
      () => limiter.tryAcquire(0),
      () => limiter.tryAcquire(1, { timeout: 1000 }),
      () => limiter.acquire(),
      () => limiter.release(1),
      () => limiter.availablePermits(),
    ]) {
      await expect(call()).rejects.toThrow(NotInitializedError)
    }
    await limiter.close()
    expect(await left(name)).toEqual([])
  })

  test.each(['', ':log', ':line', ':clients', ':log:a', ':line:a'])(
    'a lost key %j is repaired, or causes a typed error',
    async lost => {
      for (const mode of ['overall', 'per-client'] as const) {
        const name = fresh()
        const [a, b] = ['a', 'b'].map(clientId => open(name, { clientId }))
        await a.setRate({ rate: 2, interval: 150, mode, keepAlive: '1m' })
        await a.tryAcquire(2)
        const waiting = a.acquire()
        await eventually('waits', async () => (await left(name)).some(key => key.startsWith(':line')))
        await redis.client().del(`spillway:{${name}}:rate${lost}`)
        const settled = await Promise.allSettled([
          waiting,
          a.tryAcquire(),
          b.tryAcquire(),
          a.release(1),
          a.availablePermits(),
          a.acquire(2),
          b.acquire(2),
        ])
        const reasons = settled.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))
        expect(reasons).toEqual(lost === '' ? settled.map(() => expect.any(NotInitializedError)) : [])
        // And it can be begun anew.
        await b.setRate({ rate: 2, interval: 150, mode })
        expect(await b.tryAcquire(2)).toBe(true)
        expect(await a.delete()).toBe(true)
        expect((await left(name)).filter(key => !key.startsWith(':sent'))).toEqual([])
      }
    },
  )

  test('after the log is lost, no request overtakes the waiters', async () => {
    const name = fresh()
    const clock = new ManualClock(START)
    const limiter = open(name, { clock })
    await limiter.setRate({ rate: 2, interval: 60_000 })
    await limiter.tryAcquire(2)
    const waiting = limiter.acquire(2)
    await eventually('waits', async () => (await left(name)).includes(':line'))
    await redis.client().del(`spillway:{${name}}:rate:log`)
    expect(await limiter.tryAcquire()).toBe(false)
    await waiting
    expect(await limiter.availablePermits()).toBe(0)
    await limiter.close()
  })

  test.each(['', ':log', ':line', ':clients', ':log:a', ':line:a'])(
    'a foreign value under the key %j is a StoreError without the text of a script, and nothing is taken',
    async spoilt => {
      for (const mode of ['overall', 'per-client'] as const) {
        const name = fresh()
        const limiter = open(name, { clientId: 'a' })
        const key = `spillway:{${name}}:rate${spoilt}`
        await limiter.setRate({ rate: 5, interval: '1m', mode })
        await redis.client().del(key)
        await redis.client().set(key, 'not ours')
        for (const call of [
          () => limiter.tryAcquire(1),
          () => limiter.release(1),
          () => limiter.availablePermits(),
          () => limiter.expire('1h'),
        ]) {
          const error = await call().then(
            () => undefined,
            error => error,
          )
          if (error === undefined) continue
          expect(error).toBeInstanceOf(StoreError)
          expect(error.message).toMatch(/WRONGTYPE/)
          expect(error.message).not.toMatch(/script|user_/)
        }
        await redis.client().del(key)
        if (spoilt !== '') expect(await limiter.availablePermits()).toBeGreaterThanOrEqual(4)
      }
    },
  )
})

describe('a wrong argument', () => {
  test('a number of permits that is no integer ≥ 0 is a CostError before Redis is asked', async () => {
    const server = await RedisServer.start()
    const limiter = new SharedRateLimiter(server.client(), 'wrong')
    await server.client().ping()
    await server.kill()
    for (const wrong of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, '1' as never, null as never]) {
      await expect(limiter.acquire(wrong)).rejects.toThrow(CostError)
      await expect(limiter.tryAcquire(wrong)).rejects.toThrow(CostError)
    }
    await server.stop()
  })

  test('more permits than the rate are a CostError at once, also with a timeout, and nothing is spent', async () => {
    const { limiter } = await timed(3, 1000)
    await limiter.tryAcquire(3)
    for (const call of [
      () => limiter.acquire(4),
      () => limiter.tryAcquire(4),
      () => limiter.tryAcquire(4, { timeout: '1h' }),
    ]) {
      await expect(call()).rejects.toThrow(CostError)
    }
    await expect(limiter.acquire(4)).rejects.toThrow(/permits 4: more than the rate, 3/)
    await limiter.release(3)
    expect(await limiter.availablePermits()).toBe(3)
  })

  test('a closed object rejects with StoreError, and can be closed again', async () => {
    const { limiter } = await timed(1, 1000)
    await limiter.close()
    await limiter.close()
    await expect(limiter.acquire()).rejects.toThrow(/is closed/)
    await expect(limiter.setRate({ rate: 1, interval: 1000 })).rejects.toThrow(StoreError)
  })
})

describe('other servers and clients', () => {
  test('on a cluster all keys of a limiter are in one slot, for every call', async () => {
    const cluster = await RedisCluster.start()
    try {
      await Promise.all(
        ['one', 'two', 'three'].map(async name => {
          const [a, b] = ['a', 'b'].map(clientId => new SharedRateLimiter(cluster.client(), name, { clientId }))
          await a.setRate({ rate: 1, interval: 300, mode: 'per-client' })
          expect([await a.tryAcquire(), await b.tryAcquire(), await b.tryAcquire()]).toEqual([true, true, false])
          await Promise.all([a.acquire(), b.acquire()])
          await a.setRate({ rate: 1, interval: '1m' })
          await a.acquire()
          const waiting = b.acquire()
          await eventually('waits', async () => (await a.tryAcquire()) === false && (await a.availablePermits()) === 0)
          await a.setRate({ rate: 3, interval: '1m' }, { keepState: true })
          await waiting
          expect(await a.availablePermits()).toBe(1)
          expect(await a.delete()).toBe(true)
          await Promise.all([a.close(), b.close()])
        }),
      )
    } finally {
      await cluster.stop()
    }
  }, 30_000)

  test('a client of node-redis works as well', async () => {
    const client = createClient({ url: redis.url })
    client.on('error', () => {})
    await client.connect()
    try {
      const limiter = new SharedRateLimiter(client, fresh())
      await limiter.setRate({ rate: 2, interval: '1m', mode: 'per-client', keepAlive: '1h' })
      expect(await drain(limiter)).toBe(2)
      const waiting = [limiter.acquire(), limiter.acquire()]
      await limiter.release(1)
      await waiting[0]
      await limiter.setRate({ rate: 5, interval: '1m' })
      await waiting[1]
      expect(await limiter.availablePermits()).toBe(4)
      expect(await limiter.getConfig()).toEqual({ rate: 5, intervalMs: 60_000, mode: 'overall', keepAliveMs: null })
      await limiter.close()
    } finally {
      client.destroy()
    }
  })
})

import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore, type RedisStoreOptions } from '../../src/index.js'
import { LeaseBook } from '../../src/leases/leases.js'
import { leaseTerms } from '../../src/leases/terms.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import type { Observer } from '../../src/limiter/core/observer.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../src/testing.js'
import { RedisCluster } from '../support/redis-cluster.js'
import { START } from '../support/stories.js'
import { testRedis } from '../support/test-redis.js'
import { SimulatedSeller, SimulatedServer } from './simulated-seller.js'

const redis = testRedis()
let client: Redis
let prefixes = 0
beforeAll(() => {
  client = redis.client()
})

const ALGORITHMS = ['sliding-window', 'token-bucket', 'fixed-window', 'sliding-counter']

interface Bench {
  readonly limiter: RateLimiter
  readonly store: RedisStore
  readonly clock: ManualClock
}

/** A limiter whose key 'k' is leased: 8 requests and more have come in one ttl. */
async function warm(policy: string, options: RedisStoreOptions = {}, observer?: Observer): Promise<Bench> {
  const clock = (options.clock as ManualClock) ?? new ManualClock(START)
  const store = new RedisStore(client, { clock, prefix: `leases-${++prefixes}`, leases: true, ...options })
  const limiter = new RateLimiter({ policy, store, deadline: '10s', observer })
  for (let i = 0; i < 10; i++) await limiter.consume('k')
  return { limiter, store, clock }
}

/** The next decisions, one after another. */
async function decisions(limiter: RateLimiter, count: number): Promise<Decision[]> {
  const all: Decision[] = []
  for (let i = 0; i < count; i++) all.push(await limiter.consume('k'))
  return all
}

const allowed = (all: readonly Decision[]) => all.filter(decision => decision.allowed).length
const leased = (all: readonly Decision[]) => all.filter(decision => decision.source === 'lease' && decision.allowed)

describe('the option leases', () => {
  test('with a leaky bucket { … } is refused when the limiter is built, and true leaves it to Redis', async () => {
    const policy = '100/1s; 100/1s leaky-bucket name=shaped'
    expect(() => new RateLimiter({ policy, store: new RedisStore(client, { leases: { ttl: 50 } }) })).toThrow(
      'RedisStore: leases with limit "shaped": a leaky bucket can not be leased',
    )
    const { limiter } = await warm('10000/1s leaky-bucket')
    expect(leased(await decisions(limiter, 20))).toEqual([])
  })
})

test('a machine that was suspended spends at most 15 more requests from a lease that has ended meanwhile, although its clock stood still', async () => {
  // A clock that stands still does what the monotonic one does while a machine is suspended.
  const { limiter, store } = await warm('100000/1h sliding-window', { leases: { ttl: '1s' } })
  for (let i = 0; i < 200; i++) await limiter.consume('k')
  expect(leased(await decisions(limiter, 20))).toHaveLength(20)
  const { now } = Date
  const suspended = jest.spyOn(Date, 'now').mockImplementation(() => now() + 1001)
  // An ended lease makes it buy another.
  const calls = jest.spyOn(client, 'evalsha')
  let fromOld = -1
  while (calls.mock.calls.length === 0 && fromOld < 1000) {
    await limiter.consume('k')
    fromOld++
  }
  calls.mockRestore()
  suspended.mockRestore()
  expect(fromOld).toBeLessThanOrEqual(15)
  await store.close()
})

test.each(['fixed-window', 'sliding-counter'])(
  'after the end of a %s the next lease is sold within some ms',
  async algorithm => {
    const { limiter, store, clock } = await warm(`5000/1s ${algorithm}`)
    // START is a whole second. What is held ends 1 ms before the window does, and then no lease is worth its purchase.
    clock.advance(900)
    const last: Decision[] = []
    for (let ms = 900; ms < 1020; ms++) {
      const all = await decisions(limiter, 10)
      if (ms >= 1004) last.push(...all)
      clock.advance(1)
    }
    expect(leased(last).length).toBeGreaterThan(150)
    await store.close()
  },
)

test('a key that is used faster than measured buys twice as much each time, until that suffices', async () => {
  const bought: number[] = []
  const { limiter, store } = await warm(
    '100000000/1s fixed-window',
    {},
    { leaseBought: ({ units }) => bought.push(units) },
  )
  await decisions(limiter, 20_000)
  expect(bought.length).toBeLessThan(20)
  for (const [i, units] of bought.entries()) expect(units).toBeLessThanOrEqual(10 * 2 ** i)
  await store.close()
})

describe.each(ALGORITHMS)('under %s', algorithm => {
  test('a busy key is decided from a lease, in the same turn, and never over the limit', async () => {
    const { limiter, clock } = await warm(`500/1s ${algorithm}`)
    const all = [...(await decisions(limiter, 30))]
    expect(leased(all).length).toBeGreaterThan(10)
    expect(limiter.decide('k')).not.toBeInstanceOf(Promise)
    let passed = 10 + allowed(all) + 1
    // When less is left than is wanted, a quarter of it is sold at a time, once in an eighth of the ttl.
    for (let ms = 0; ms < 100; ms++) {
      passed += allowed(await decisions(limiter, 20))
      clock.advance(1)
    }
    // 100 ms regain at most 50 units of the bucket.
    expect(passed).toBeLessThanOrEqual(algorithm === 'token-bucket' ? 550 : 500)
    expect(passed).toBeGreaterThan(470)
  })

  test('a rarely used key, and a limit too small to divide, are decided by Redis', async () => {
    const { limiter, clock } = await warm(`100/1s ${algorithm}`)
    clock.advance(5000)
    const seldom: Decision[] = []
    for (let i = 0; i < 20; i++) {
      seldom.push(await limiter.consume('seldom'))
      clock.advance(40)
    }
    expect(leased(seldom)).toEqual([])
    const small = await warm(`100/100ms ${algorithm}`)
    expect(leased(await decisions(small.limiter, 30))).toEqual([])
  })

  test('peek includes held units, and remaining is the sum of both', async () => {
    const { limiter } = await warm(`1000/1s ${algorithm}`)
    const all = await decisions(limiter, 20)
    const last = all[all.length - 1]
    expect(last.source).toBe('lease')
    const { remaining, allowed } = await limiter.peek('k', 1)
    expect(allowed).toBe(true)
    expect(remaining).toBe(last.remaining - 1)
    // A bucket keeps back what it regains while a lease lives: 50 units.
    const kept = algorithm === 'token-bucket' ? 50 : 0
    expect(last.remaining).toBeGreaterThanOrEqual(970 - kept)
    expect(last.remaining).toBeLessThanOrEqual(970)
  })

  test('unspent units go back when the limiter closes', async () => {
    const { limiter, store, clock } = await warm(`1000/1s ${algorithm}`)
    await decisions(limiter, 20)
    await limiter.close()
    const other = new RateLimiter({
      policy: `1000/1s ${algorithm}`,
      store: new RedisStore(client, { clock, prefix: store.prefix }),
      deadline: '10s',
    })
    const { remaining } = await other.peek('k', 0)
    expect(remaining).toBeGreaterThanOrEqual(algorithm === 'token-bucket' ? 920 : 970)
    expect(remaining).toBeLessThanOrEqual(970)
  })

  test('settle gives units back to the lease, and to Redis once that has ended', async () => {
    const { limiter, clock } = await warm(`1000/1s ${algorithm}`)
    await decisions(limiter, 12)
    const decision = await limiter.consume('k', 4)
    expect(decision.source).toBe('lease')
    const before = (await limiter.peek('k', 0)).remaining
    await limiter.settle(decision, 1)
    expect((await limiter.peek('k', 0)).remaining).toBe(before + 3)
    const late = await limiter.consume('k', 40)
    expect(late.allowed).toBe(true)
    clock.advance(algorithm === 'token-bucket' ? 5 : 60)
    await limiter.close()
    const charged = (await limiter.peek('k', 0)).remaining
    await limiter.settle(late, 0)
    const back = (await limiter.peek('k', 0)).remaining - charged
    if (algorithm === 'token-bucket') expect(back).toBeLessThanOrEqual(40)
    else if (late.source === 'lease') expect(back).toBe(40)
  })

  test('reset and block end held leases, and a block refuses', async () => {
    const { limiter } = await warm(`1000/1s ${algorithm}`)
    await decisions(limiter, 20)
    await limiter.block('k', '1m')
    const refused = await limiter.consume('k')
    expect({ allowed: refused.allowed, blocked: refused.blocked }).toEqual({ allowed: false, blocked: true })
    await limiter.unblock('k')
    expect((await limiter.consume('k')).allowed).toBe(true)
    await limiter.reset('k')
    expect((await limiter.peek('k', 0)).remaining).toBe(1000)
  })

  test('while a request waits in line no lease is sold', async () => {
    const clock = new ManualClock(START)
    const store = new RedisStore(client, { prefix: `leases-${++prefixes}`, leases: true })
    const limiter = new RateLimiter({ policy: `300/3s ${algorithm}`, store, deadline: '10s' })
    expect(clock.now()).toBe(START)
    for (let i = 0; i < 3; i++) await limiter.consume('k', 100)
    const gone = new AbortController()
    const waiting = limiter.acquire('k', { cost: 300, signal: gone.signal })
    while ((await client.exists(...(await client.keys(`${store.prefix}:!waiting*`)), 'none')) === 0) await pause(1)
    const all = await decisions(limiter, 30)
    expect(leased(all)).toEqual([])
    gone.abort(new Error('gone'))
    await expect(waiting).rejects.toThrow('gone')
    await limiter.close()
  })
})

test('a purchase whose answer comes after the end of its lease still decides the requests that waited for it, and its other units are not spent', async () => {
  const { limiter, clock } = await warm('500/1s token-bucket')
  await decisions(limiter, 40)
  clock.advance(60)
  const waiting = Array.from({ length: 5 }, () => limiter.consume('k'))
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(60)
  const all = await Promise.all(waiting)
  expect(leased(all).length).toBe(5)
  expect(limiter.decide('k')).toBeInstanceOf(Promise)
  await limiter.close()
})

test('units of a purchase that is answered after close() go back', async () => {
  const { limiter, store, clock } = await warm('1000/1s fixed-window')
  let spent = 11
  let bought = limiter.decide('k')
  for (; !(bought instanceof Promise); bought = limiter.decide('k')) spent++
  await limiter.close()
  expect((await bought).allowed).toBe(true)
  const other = new RateLimiter({
    policy: '1000/1s fixed-window',
    store: new RedisStore(client, { clock, prefix: store.prefix }),
    deadline: '10s',
  })
  while ((await other.peek('k', 0)).remaining < 1000 - spent) await pause(1)
  expect((await other.peek('k', 0)).remaining).toBe(1000 - spent)
})

test('a purchase in flight while its key is reset serves the requests that wait for it, and its other units go back', async () => {
  const terms = leaseTerms(parsePolicy('1000/1s'), { ttlMs: undefined, strict: true, store: 'RedisStore' })!
  const server = new SimulatedServer(terms)
  const seller = new SimulatedSeller(server, () => START)
  const deferred: (() => void)[] = []
  const book = new LeaseBook({
    terms,
    seller,
    now: () => START,
    defer: send => deferred.push(send),
    decide: () => {},
    busy: new Set(),
  })
  const told: boolean[] = []
  const ask = () =>
    book.ask('k', 1, { resolve: ([{ allowed }]) => told.push(allowed), reject: error => expect(error).toBeUndefined() })
  while (!ask());
  ask()
  deferred.pop()!()
  const [purchase] = seller.messages
  purchase.arrive()
  book.leasedKey('k')?.drop()
  purchase.answer()
  await new Promise(setImmediate)
  expect(told).toEqual([true, true])
  expect(book.spend('k', 1, START)).toBeUndefined()
  seller.messages[1].arrive()
  let left = 0
  while (server.spend(START)) left++
  expect(left).toBe(998)
  // The next request buys again.
  expect(ask()).toBe(true)
  expect(deferred).toHaveLength(1)
  await book.close()
})

test('charges that a client never answers take a bounded place', async () => {
  const terms = leaseTerms(parsePolicy('1000/1s'), { ttlMs: undefined, strict: true, store: 'RedisStore' })!
  const seller = new SimulatedSeller(new SimulatedServer(terms), () => START)
  const book = new LeaseBook({
    terms,
    seller,
    now: () => START,
    defer: () => {},
    decide: () => {},
    busy: new Set(),
  })
  const first = book.charge('key 0', 1)
  for (let i = 1; i <= 10_000; i++) book.charge(`key ${i}`, 1)
  expect(book.accountOf('key 0')).toBeUndefined()
  expect(book.accountOf('key 10000')).toBeDefined()
  // A further charge of a key that is among them takes no place.
  book.charge('key 10000', 1)
  expect(book.accountOf('key 1')).toBeDefined()
  // Its answer comes after all, beside a newer charge of the same key.
  book.charge('key 0', 1)
  first()
  expect(book.accountOf('key 0')?.isCharging).toBe(true)
})

test('several limits are leased together or not at all', async () => {
  const together = await warm('1000/1s; 5000/1m name=long token-bucket')
  const all = await decisions(together.limiter, 20)
  const last = all[all.length - 1]
  expect(last.source).toBe('lease')
  expect(last.verdicts.map(({ limit }) => limit.name)).toEqual(['1000-per-1s', 'long'])
  expect(last.verdicts[0].remaining).toBe(970)
  const apart = await warm('1000/1s; 10/100ms name=tiny')
  expect(leased(await decisions(apart.limiter, 20))).toEqual([])
})

test('observers are notified of bought units and of units that end unspent', async () => {
  const bought: number[] = []
  const expired: number[] = []
  const observer: Observer = {
    leaseBought: ({ limit, units, ttlMs }) => {
      expect(limit.name).toBe('1000-per-1s')
      expect(ttlMs).toBe(20)
      bought.push(units)
    },
    leaseExpired: ({ units }) => void expired.push(units),
  }
  const { limiter } = await warm('1000/1s', {}, observer)
  const all = await decisions(limiter, 20)
  await limiter.close()
  const sum = (units: number[]) => units.reduce((total, one) => total + one, 0)
  // The first 7 decisions were made by Redis.
  expect(sum(bought) - sum(expired)).toBe(3 + leased(all).length)
})

test('a process that was stopped does not spend an ended lease', async () => {
  const { limiter, clock } = await warm('1000/1s')
  await decisions(limiter, 20)
  clock.advance(20)
  const next = limiter.decide('k')
  expect(next).toBeInstanceOf(Promise)
  expect((await next).allowed).toBe(true)
})

test('a reset in another process ends the leases of this one within a ttl', async () => {
  const clock = new ManualClock(START)
  const { limiter, store } = await warm('1000/1s', { clock, leases: { ttl: 100 } })
  await decisions(limiter, 20)
  const elsewhere = redis.client()
  const other = new RateLimiter({
    policy: '1000/1s',
    store: new RedisStore(elsewhere, { clock, prefix: store.prefix }),
    deadline: '10s',
  })
  await other.block('k', '1m')
  clock.advance(100)
  expect(await limiter.consume('k')).toMatchObject({ allowed: false, blocked: true })
})

test('a busy key is leased on a cluster, too', async () => {
  const cluster = await RedisCluster.start()
  try {
    const store = new RedisStore(cluster.client(), { leases: true })
    const limiter = new RateLimiter({ policy: '1000/10s fixed-window', store, deadline: '10s' })
    const all = await decisions(limiter, 60)
    expect(allowed(all)).toBe(60)
    expect(leased(all).length).toBeGreaterThan(20)
    await limiter.close()
    await store.close()
  } finally {
    await cluster.stop()
  }
})

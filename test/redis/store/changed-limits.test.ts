import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import type { Verdict } from '../../../src/limiter/core/decision.js'
import { type Limit, type LimitOptions, parseLimit } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { type Charge, type ChargeReceipt, receiptsOf } from '../../../src/limiter/store.js'
import { ManualClock } from '../../../src/testing.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
let prefixes = 0
beforeAll(() => {
  client = redis.client()
})

type Bucket = 'token-bucket' | 'leaky-bucket'

describe.each(['memory', 'redis'] as const)('a limit that is changed under its name, in %s', kind => {
  let clock: ManualClock
  let store: MemoryStore | RedisStore
  beforeEach(() => {
    clock = new ManualClock(START)
    store = kind === 'memory' ? new MemoryStore({ clock }) : new RedisStore(client, { clock, prefix: `c${++prefixes}` })
  })

  const bucket = (quota: number, window: LimitOptions['window'], more: Partial<LimitOptions> = {}): Limit =>
    parseLimit({ quota, window, algorithm: 'token-bucket', name: 'api', ...more })
  const of = (limit: Limit): Charge => ({ key: 'k', limit })
  const consume = async (limit: Limit, cost = 1): Promise<Verdict> => (await store.consume([of(limit)], cost))[0]
  const peek = async (limit: Limit, cost = 1): Promise<Verdict> => (await store.peek([of(limit)], cost))[0]
  const left = async (limit: Limit) => (await peek(limit, 0)).remaining
  const spent = async (limit: Limit, cost: number): Promise<ChargeReceipt[]> =>
    receiptsOf([of(limit)], [await consume(limit, cost)], clock.now(), cost)

  describe.each<[Bucket]>([['token-bucket'], ['leaky-bucket']])('%s', algorithm => {
    const rate = (quota: number, window: LimitOptions['window'] = '1s', burst?: number) =>
      bucket(quota, window, { algorithm, burst })

    test('an emptied bucket under a tenth of the quota serves at the new rate at once', async () => {
      await consume(rate(20_000), 20_000)
      expect(await peek(rate(2000))).toMatchObject({
        allowed: false,
        remaining: 0,
        retryAfterMs: 1,
        resetAfterMs: 1000,
      })
      clock.advance(1)
      expect(await consume(rate(2000))).toMatchObject({ allowed: true, remaining: 1 })
    })

    test('half of it left stays half, whatever changes: quota, window, burst, or all', async () => {
      await consume(rate(100, '1m'), 50)
      expect(await left(rate(10, '1m'))).toBe(5)
      expect(await left(rate(1000, '1m'))).toBe(500)
      expect(await left(rate(100, '1h'))).toBe(50)
      expect(await left(rate(100, '1s'))).toBe(50)
      expect(await left(rate(100, '1m', 20))).toBe(10)
      expect(await left(rate(7, '1h', 40))).toBe(20)
    })

    test('a change up and down again, with and without requests in between, gains nothing', async () => {
      await consume(rate(7, '1m'), 5)
      for (const quota of [1000, 3, 11, 997]) await consume(rate(quota, '61s'), 100_000)
      expect(await left(rate(7, '1m'))).toBe(2)
      await consume(rate(700, '1m'), 150)
      // 200 were left of 700: now 50, which is half a unit of 7.
      expect(await left(rate(7, '1m'))).toBe(0)
      expect((await peek(rate(7, '1m'))).retryAfterMs).toBe(Math.ceil(60_000 / 14))
    })

    test('many changes to and fro do not wear a bucket out by more than their rounding', async () => {
      const [small, large] = [rate(7, '1m'), rate(11, '61s')]
      for (let i = 0; i < 5; i++) await consume(i % 2 ? small : large, 1)
      const { resetAfterMs } = await peek(large, 0)
      // Three units of 11 and two of 7.
      expect(Math.abs(resetAfterMs - 61_000 * (3 / 11 + 2 / 7))).toBeLessThan(5)
    })

    test('what was regained before a change is kept, and what is regained after it comes at the new rate', async () => {
      await consume(rate(100, '1m'), 100)
      clock.advance(30_000)
      expect(await left(rate(10, '1m'))).toBe(5)
      expect(await consume(rate(10, '1m'), 5)).toMatchObject({ allowed: true })
      clock.advance(6_000)
      expect(await left(rate(10, '1m'))).toBe(1)
    })

    test('a debt stays the same part of the bucket', async () => {
      await store.charge([of(rate(100, '1m'))], 150)
      expect(await peek(rate(10, '1m'))).toMatchObject({ retryAfterMs: 36_000, resetAfterMs: 90_000 })
      await store.charge([of(rate(10, '1m'))], 5)
      expect((await peek(rate(100, '1m'), 0)).resetAfterMs).toBe(120_000)
    })

    test('a debt beyond all bounds stays one', async () => {
      await store.charge([of(rate(100, '1m'))], Number.MAX_SAFE_INTEGER)
      const { allowed, resetAfterMs } = await peek(rate(1_000_000, '1h'))
      expect([allowed, resetAfterMs]).toEqual([false, Math.ceil(Number.MAX_SAFE_INTEGER / 1_000_000)])
    })

    test('a limit at the edge of the exact integers keeps its share', async () => {
      const most = Math.floor(Number.MAX_SAFE_INTEGER / 1000)
      await consume(rate(most), most)
      expect(await peek(rate(most - 1))).toMatchObject({ remaining: 0, retryAfterMs: 1, resetAfterMs: 1000 })
      expect(await peek(rate(1, '1ms'))).toMatchObject({ remaining: 0, retryAfterMs: 1, resetAfterMs: 1 })
      await store.refund([of(rate(most))], most / 2)
      expect(await left(rate(1000))).toBe(500)
      expect(await left(rate(1, '1ms'))).toBe(0)
    })

    test('refunds give back units of the limit that they name, from the share that is spent', async () => {
      await consume(rate(100, '1m'), 80)
      await store.refund([of(rate(10, '1m'))], 3)
      expect(await left(rate(100, '1m'))).toBe(50)
      await store.refund([of(rate(10, '1m'))], 100)
      expect((await peek(rate(100, '1m'), 0)).resetAfterMs).toBe(0)
    })

    test('a decision of the limit before is settled in its own terms', async () => {
      const receipts = await spent(rate(100, '1m'), 60)
      await consume(rate(10, '1m'), 1)
      await store.giveBack?.(receipts, 40)
      // A leaky bucket gives the last place back only.
      expect(await left(rate(10, '1m'))).toBe(algorithm === 'leaky-bucket' ? 3 : 7)
      expect(await left(rate(100, '1m'))).toBe(algorithm === 'leaky-bucket' ? 30 : 70)
    })

    test('a quota of 0 keeps the share for the limit after it', async () => {
      await consume(rate(100, '1m'), 50)
      for (const none of [rate(0, '1m'), rate(0, '1h'), rate(0, '1m', 20)]) {
        expect(await consume(none)).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: Infinity })
      }
      expect(await left(rate(10, '1m'))).toBe(5)
      await store.refund([of(rate(0, '1m'))], 10)
      await store.charge([of(rate(0, '1m'))], 20)
      expect(await left(rate(10, '1m'))).toBe(4)
      // The time of a pause counts as any other.
      clock.advance(12_000)
      expect(await left(rate(10, '1m'))).toBe(6)
    })

    test('a debt that is charged while the quota is 0 counts when it is raised', async () => {
      await store.charge([of(rate(0, '1m'))], 3)
      expect(await left(rate(10, '1m'))).toBe(7)
    })

    test('a debt that is charged while the quota is 0 is not swept away by the traffic of others', async () => {
      await store.charge([of(rate(0, '1m'))], 3)
      clock.advance(12_000)
      for (let i = 0; i < 100; i++) await store.consume([{ key: `other ${i}`, limit: rate(10, '1m') }], 1)
      expect(await left(rate(10, '1m'))).toBe(9)
    })

    test('after a reset at quota 0 an earlier decision gives nothing back', async () => {
      const receipts = await spent(rate(10, '1m'), 6)
      clock.advance(1)
      await store.reset([of(rate(0, '1m'))])
      clock.advance(1)
      await consume(rate(10, '1m'), 6)
      await store.giveBack?.(receipts, 6)
      expect(await left(rate(10, '1m'))).toBe(4)
    })

    test('under several limits each keeps its own share', async () => {
      const both = (quota: number, hourly: number): Charge[] => [
        of(rate(quota, '1m')),
        { key: 'k', limit: parseLimit({ quota: hourly, window: '1h', algorithm: 'fixed-window', name: 'hourly' }) },
      ]
      await store.consume(both(100, 1000), 100)
      const there = (await store.consume(both(10, 200), 1)).map(({ remaining, retryAfterMs }) => [
        remaining,
        retryAfterMs,
      ])
      expect(there).toEqual([
        [0, 6000],
        [100, 0],
      ])
    })
  })

  test('a leaky bucket delays by the share that was in it, at the new rate', async () => {
    const of = (quota: number) => bucket(quota, '1s', { algorithm: 'leaky-bucket' })
    await consume(of(100), 50)
    expect(await consume(of(10))).toMatchObject({ allowed: true, delayMs: 500, remaining: 4 })
    expect(await consume(of(100))).toMatchObject({ allowed: true, delayMs: 600, remaining: 39 })
  })

  test('what was given back before a change is not given back again after it', async () => {
    const [wide, narrow] = [bucket(100, '1m'), bucket(10, '1m')]
    const receipts = await spent(wide, 60)
    clock.advance(1)
    await store.refund([of(narrow)], 3)
    clock.advance(1)
    await consume(narrow, 6)
    await store.giveBack?.(receipts, 60)
    // Of the 60 at least 30 are gone with the refund; the units of others stay.
    expect(await left(wide)).toBeLessThanOrEqual(40)
    expect(await left(narrow)).toBe(4)
  })

  test('a settlement after a change gives back no more than the level', async () => {
    const receipts = await spent(bucket(100, '1m'), 100)
    clock.advance(30_000)
    expect(await left(bucket(100, '10s'))).toBe(100)
    await consume(bucket(100, '10s'), 1)
    await store.giveBack?.(receipts, 100)
    expect(await peek(bucket(100, '10s'), 0)).toMatchObject({ remaining: 100, resetAfterMs: 0 })
  })

  test.each(['fixed-window', 'sliding-window', 'sliding-counter'] as const)(
    'a %s keeps its count in units',
    async algorithm => {
      const of = (quota: number) => bucket(quota, '1m', { algorithm })
      await consume(of(100), 80)
      expect(await left(of(200))).toBe(120)
      expect(await left(of(50))).toBe(0)
    },
  )

  test('waiters under the limit before and after a change see the level each in its own terms', async () => {
    const limiter = (policy: string) =>
      new RateLimiter({ policy: `${policy} token-bucket name=api`, name: 'l', store, deadline: '10s' })
    const [wide, narrow, slow] = [limiter('1000/1s'), limiter('100/1s'), limiter('100/10s')]
    await wide.consume('k', 1000)
    const order: string[] = []
    const waits = [
      wide.acquire('k', { cost: 10 }).then(() => order.push('wide')),
      narrow.acquire('k', { cost: 5 }).then(() => order.push('narrow')),
      slow.acquire('k', { cost: 1 }).then(() => order.push('slow')),
    ]
    // 10 of 1000, 5 of 100 and 1 of 100: seven parts of a hundred.
    for (let i = 0; i < 200 && order.length < 3; i++) {
      clock.advance(5)
      await new Promise(resolve => setTimeout(resolve, 5))
    }
    await Promise.all(waits)
    expect(order).toEqual(['wide', 'narrow', 'slow'])
    for (const one of [wide, narrow, slow]) await one.close()
  })
})

// A bucket regains by the limit that is asked with: under a slower one what is owed takes longer than its key was to
// live.
describe.each<[Bucket, string, Limit, Limit]>(
  (['token-bucket', 'leaky-bucket'] as const).flatMap(algorithm => {
    const plan = (quota: number, window: string, burst?: number) =>
      parseLimit({ quota, window, algorithm, burst, name: 'plan' })
    return [
      [algorithm, 'a lower quota', plan(100, '1m', 100), plan(1, '1m', 100)],
      [algorithm, 'a longer window', plan(100, '1m'), plan(100, '100m')],
    ] as Array<[Bucket, string, Limit, Limit]>
  }),
)('what a %s owes is not forgotten under %s', (algorithm, change, high, low) => {
  test('in the process', () => {
    const clock = new ManualClock(START)
    const store = new MemoryStore({ clock })
    store.consume([{ key: 'k', limit: high }], 100)
    clock.advance(30_000)
    const [{ allowed, retryAfterMs }] = store.consume([{ key: 'k', limit: low }], 100)
    expect([allowed, retryAfterMs]).toEqual([false, 100 * 60_000 - 30_000])
    // Traffic of others sweeps what has expired.
    clock.advance(retryAfterMs - 1)
    for (let i = 0; i < 5000; i++) store.consume([{ key: `other ${i}`, limit: low }], 1)
    expect(store.consume([{ key: 'k', limit: low }], 100)).toMatchObject([{ allowed: false, retryAfterMs: 1 }])
    clock.advance(1)
    expect(store.consume([{ key: 'k', limit: low }], 100)).toMatchObject([{ allowed: true }])
    store.close()
  })

  test('in Redis', async () => {
    const prefix = `${algorithm} ${change}`
    const store = new RedisStore(client, { prefix })
    const life = async () => {
      const keys = await client.keys(`${prefix}*`)
      return client.pttl(keys.filter(key => !key.endsWith(':settled'))[0])
    }
    await store.consume([{ key: 'k', limit: high }], 100)
    expect(await life()).toBeLessThanOrEqual(60_000 + 5000)
    await store.peek([{ key: 'k', limit: low }], 1)
    expect(await life()).toBeLessThanOrEqual(60_000 + 5000)
    const [{ retryAfterMs }] = await store.consume([{ key: 'k', limit: low }], 100)
    expect(retryAfterMs).toBeGreaterThan(5_900_000)
    expect(await life()).toBeGreaterThan(retryAfterMs)
    // A denial under the faster one again does not take from that, nor do changes of what it decided.
    await store.consume([{ key: 'k', limit: high }], 100)
    await store.refund([{ key: 'k', limit: high }], 1)
    expect(await life()).toBeGreaterThan(retryAfterMs - 5000)
  })
})

test('units that are given back while the quota is 0 leave the rest its lifetime in Redis', async () => {
  const store = new RedisStore(client, { prefix: 'paused' })
  const limit = (quota: number) => parseLimit({ quota, window: '1h', algorithm: 'token-bucket', name: 'api' })
  const decided = await store.consume([{ key: 'k', limit: limit(100) }], 100)
  const receipts = receiptsOf([{ key: 'k', limit: limit(0) }], decided, Date.now(), 100)
  await store.refund([{ key: 'k', limit: limit(0) }], 10)
  await store.giveBack(receipts, 1)
  expect(await client.pttl('paused:{k}:default:api@tb')).toBeGreaterThan(3_500_000)
})

test('a lease that was bought before a change is returned in its own terms, and the next one is sold in those of the new limit', async () => {
  const clock = new ManualClock(START)
  const store = new RedisStore(client, { clock, prefix: 'leases', leases: true })
  const policy = (quota: number) => `${quota}/1m token-bucket name=api`
  const limiter = (quota: number) => new RateLimiter({ policy: policy(quota), name: 'l', store, deadline: '10s' })
  const [wide, narrow] = [limiter(100_000), limiter(10_000)]
  let spent = 0
  const spend = async (by: RateLimiter, times: number, unit: number) => {
    for (let i = 0; i < times; i++) if ((await by.consume('k')).allowed) spent += unit
  }
  await spend(wide, 2000, 1)
  const sources = new Set<string>()
  for (let i = 0; i < 200; i++) {
    const { allowed, source } = await narrow.consume('k')
    sources.add(source)
    if (allowed) spent += 10
  }
  expect(sources).toContain('lease')
  await store.close()
  // All unspent units are back, and no more: looked at without leases.
  const plain = new RedisStore(client, { clock, prefix: 'leases' })
  const limit = parseLimit({ quota: 100_000, window: '1m', algorithm: 'token-bucket', name: 'api' })
  const [{ remaining }] = await plain.peek([{ key: 'k', limit, limiter: 'l' }], 0)
  expect(remaining).toBeLessThanOrEqual(100_000 - spent)
  // A lease's units count as spent at its end, one second later.
  expect(remaining).toBeGreaterThan(100_000 - spent - 2 * 1667)
})

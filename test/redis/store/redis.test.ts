import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import { ALGORITHM_NAMES, type AlgorithmName, parseLimit, parsePolicy } from '../../../src/limiter/core/limit.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import type { Charge } from '../../../src/limiter/store.js'
import { ManualClock } from '../../../src/testing.js'
import { jsonFromChild } from '../../support/child.js'
import { eventually } from '../../support/eventually.js'
import { older } from '../../support/older.js'
import { randomFrom } from '../../support/random.js'
import { stateKeys } from '../../support/state-keys.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.bulkClient()
})
afterEach(() => client.flushall())

const limitOf = (quota: number, window: number | string, algorithm: AlgorithmName = 'sliding-window') =>
  parseLimit({ quota, window, algorithm, name: `${algorithm} ${quota}` })
const charge = (key: string, limit = limitOf(5, '1m')): Charge[] => [{ key, limit }]
const passed = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** Every key with the ms that it has yet to live; below 0 if it has no lifetime. */
async function lifetimes(): Promise<Map<string, number>> {
  const keys = await stateKeys(client)
  return new Map(await Promise.all(keys.map(async key => [key, await client.pttl(key)] as const)))
}

describe('every key in Redis has a lifetime', () => {
  test('from the moment it is written, and is gone after it', async () => {
    const random = randomFrom('lifetimes')
    const store = new RedisStore(client)
    const policies = ALGORITHM_NAMES.flatMap(algorithm => [limitOf(3, 40, algorithm), limitOf(10, 150, algorithm)])
    let most = 0
    for (let i = 0; i < 400; i++) {
      const key = `${random.integer(0, 5)}`
      const charges = policies.filter(() => random.integer(0, 4) === 0).map(limit => ({ key, limit }))
      if (charges.length === 0) continue
      const cost = random.integer(0, 3)
      const act = [
        () => store.consume(charges, cost),
        () => store.consume(charges, cost),
        () => store.consume(charges, cost),
        () => store.peek(charges, cost),
        () => store.refund(charges, cost),
        () => store.charge(charges, cost),
        () => store.reset(charges),
        () => store.block(charges, random.integer(0, 60)),
      ]
      await random.pick(act)()
      const alive = await lifetimes()
      most = Math.max(most, alive.size)
      // -2 says that the key went between the two questions.
      const endless = [...alive].filter(([, ms]) => ms === -1 || ms > 150 * 10 + 5000)
      expect([i, endless]).toEqual([i, []])
    }
    expect(most).toBeGreaterThan(20)
    await eventually('all keys have gone', async () => (await stateKeys(client)).length === 0, 6000)
  }, 30_000)

  test('that is a little longer than its state matters, and never shorter', async () => {
    const store = new RedisStore(client)
    for (const algorithm of ALGORITHM_NAMES) {
      const [{ resetAfterMs }] = await store.consume(charge('k', limitOf(3, '1m', algorithm)), 2)
      const [ms] = (await lifetimes()).values()
      expect(ms).toBeGreaterThan(resetAfterMs + 900)
      expect(ms).toBeLessThanOrEqual(resetAfterMs + 5000)
      await client.flushall()
    }
  })

  // Its state matters for longer with each decision, and to set a lifetime each time would cost as much as a decision.
  test.each([
    ['token-bucket', '1m'],
    ['leaky-bucket', '1m'],
    ['token-bucket', '1d'],
    ['leaky-bucket', '1d'],
  ] as const)(
    'that is a quarter longer, at most an hour, if a key is asked for again (%s, %s)',
    async (algorithm, window) => {
      const store = new RedisStore(client)
      const charges = charge('k', limitOf(10, window, algorithm))
      await store.consume(charges, 4)
      const [once] = (await lifetimes()).values()
      const [{ resetAfterMs }] = await store.consume(charges, 4)
      const [again] = (await lifetimes()).values()
      const longerMs = Math.min(resetAfterMs / 4, 3_600_000)
      expect(once).toBeLessThanOrEqual(resetAfterMs / 2 + 5000)
      expect(again).toBeGreaterThan(resetAfterMs + longerMs + 900)
      expect(again).toBeLessThanOrEqual(resetAfterMs + longerMs + 5000)
      await client.flushall()
    },
  )

  // PERSIST takes it away, and so does RESTORE without one.
  test.each([
    ['one decision', (store: RedisStore, charges: Charge[]) => store.consume(charges, 1)],
    ['a batch', (store, charges) => Promise.all([1, 2, 1].map(cost => store.consume(charges, cost)))],
    ['a charge', (store, charges) => store.charge(charges, 1)],
    ['a refund', (store, charges) => store.refund(charges, 1)],
  ] as [string, (store: RedisStore, charges: Charge[]) => Promise<unknown>][])(
    'and a key that lost it gets one with the next write: %s',
    async (name, write) => {
      const store = new RedisStore(client)
      const ofDay = parseLimit({ quota: 1_000_000, calendar: 'day', timezone: 'UTC', name: 'calendar' })
      const limits = [...ALGORITHM_NAMES.map(algorithm => limitOf(1_000_000, '20s', algorithm)), ofDay]
      const policies = [...limits.map(limit => charge('k', limit)), limits.map(limit => ({ key: 'all', limit }))]
      for (const charges of policies) for (let i = 0; i < 3; i++) await store.consume(charges, 3)
      const keys = await stateKeys(client)
      expect(keys).toHaveLength(2 * limits.length)
      for (const key of keys) await client.persist(key)
      // Batches ask for lifetimes once in a second.
      const second = async () => Number((await client.time())[0])
      const present = await second()
      if (name === 'a batch') await eventually('the next second', async () => (await second()) > present, 1500)
      for (const charges of policies) await write(store, charges)
      const endless = [...(await lifetimes())].filter(([, ms]) => ms < 2000)
      expect(endless).toEqual([])
    },
  )

  describe.each(ALGORITHM_NAMES)('and one that lost it (%s)', algorithm => {
    const charges = charge('k', limitOf(5, '1m', algorithm))

    test.each<[string, (store: RedisStore) => Promise<unknown>]>([
      ['is given back', store => store.refund(charges, 1)],
      ['is charged', store => store.charge(charges, 3)],
    ])('regains one when something %s', async (_, write) => {
      const store = new RedisStore(client)
      await store.consume(charges, 3)
      const [key] = await stateKeys(client)
      await client.persist(key)
      await store.peek(charges, 1)
      await write(store)
      expect(await client.pttl(key)).toBeGreaterThan(0)
    })
  })

  test('also if its state uses a given clock', async () => {
    const clock = new ManualClock(START)
    const store = new RedisStore(client, { clock })
    for (const algorithm of ALGORITHM_NAMES) {
      const charges = charge('k', limitOf(5, '1m', algorithm))
      await store.consume(charges, 5)
      clock.advance(-5000)
      await store.consume(charges, 1)
    }
    const alive = await lifetimes()
    expect(alive.size).toBe(ALGORITHM_NAMES.length)
    for (const ms of alive.values()) expect(ms > 0 && ms <= 120_000 + 10_000).toBe(true)
  })
})

describe('on Redis, by the time of the server', () => {
  test.each(ALGORITHM_NAMES)('%s: denied, and allowed after the wait of the denial', async algorithm => {
    const store = new RedisStore(client)
    const charges = charge('k', limitOf(3, 120, algorithm))
    for (let round = 0; round < 3; round++) {
      let verdict = (await store.consume(charges, 2))[0]
      while (verdict.allowed) verdict = (await store.consume(charges, 2))[0]
      const toldAt = performance.now()
      expect(verdict.retryAfterMs).toBeGreaterThan(0)
      expect(verdict.retryAfterMs).toBeLessThanOrEqual(240)
      // A timer may fire a fraction of a ms early.
      while (performance.now() - toldAt < verdict.retryAfterMs)
        // The server's own clock decides here, so real time has to pass.
        await passed(verdict.retryAfterMs - performance.now() + toldAt)
      expect((await store.consume(charges, 2))[0].allowed).toBe(true)
    }
  })

  test('the clocks of the clients do not count', async () => {
    const source = (offsetMs: number) => `
      const { now } = Date
      Date.now = () => now() + ${offsetMs}
      const { Redis } = await import('ioredis')
      const { RedisStore } = await import('./src/index.ts')
      const { parseLimit } = await import('./src/limiter/core/limit.ts')
      const client = new Redis(process.env.REDIS_URL)
      const store = new RedisStore(client)
      const [verdict] = await store.consume([{ key: 'k', limit: parseLimit({ quota: 2, window: '1h' }) }], 1)
      console.log(JSON.stringify(verdict.remaining))
      await client.quit()`
    const env = { REDIS_URL: redis.url }
    expect(await jsonFromChild(source(0), { env })).toBe(1)
    expect(await jsonFromChild(source(86_400_000), { env })).toBe(0)
  })

  test('four processes that send 201 requests each at quota 100 admit exactly 100', async () => {
    const source = `
      import { Redis } from 'ioredis'
      import { RedisStore } from './src/index.ts'
      import { parseLimit } from './src/limiter/core/limit.ts'
      const client = new Redis(process.env.REDIS_URL)
      const store = new RedisStore(client)
      const racers = ['sliding-window', 'fixed-window'].map(algorithm => {
        const charges = [{ key: 'k', limit: parseLimit({ quota: 100, window: '10m', algorithm }) }]
        const racer = { admitted: 0, one: async () => { if ((await store.consume(charges, 1))[0].allowed) racer.admitted++ } }
        return racer
      })
      // Each process asks once before the race, so that all four have a share of the quota however the machine runs
      // them.
      for (const { one } of racers) await one()
      await client.incr('ready')
      while (Number(await client.get('ready')) < 4);
      await Promise.all(racers.map(async ({ one }) => {
        for (let i = 0; i < 40; i++) await Promise.all([one(), one(), one(), one(), one()])
      }))
      console.log(JSON.stringify(racers.map(({ admitted }) => admitted)))
      await client.quit()`
    const children = Array.from({ length: 4 }, () =>
      jsonFromChild<[number, number]>(source, { env: { REDIS_URL: redis.url } }),
    )
    const admitted = await Promise.all(children)
    expect(admitted.reduce((sum, [sliding]) => sum + sliding, 0)).toBe(100)
    expect(admitted.reduce((sum, [, fixed]) => sum + fixed, 0)).toBe(100)
    for (const shares of admitted) expect(Math.min(...shares)).toBeGreaterThan(0)
  }, 30_000)
})

describe('a server that forgets its scripts', () => {
  test('between any two calls changes nothing', async () => {
    const store = new RedisStore(client)
    const charges = charge('k')
    await client.script('FLUSH')
    expect((await store.consume(charges, 3))[0].remaining).toBe(2)
    await client.script('FLUSH')
    expect((await store.peek(charges, 0))[0].remaining).toBe(2)
    await client.script('FLUSH')
    await store.refund(charges, 1)
    await client.script('FLUSH')
    await store.charge(charges, 2)
    expect((await store.peek(charges, 0))[0].remaining).toBe(1)
    await client.script('FLUSH')
    await store.block(charges, 1000)
    expect((await store.peek(charges, 1))[0].blocked).toBe(true)
    await client.script('FLUSH')
    await store.reset(charges)
    expect((await store.peek(charges, 0))[0].remaining).toBe(5)
  })

  test('while hundreds of decisions are in flight neither loses nor repeats one', async () => {
    const store = new RedisStore(client)
    const charges = charge('k', limitOf(1000, '1m'))
    const answers: Promise<unknown>[] = []
    for (let i = 0; i < 30; i++) {
      for (let j = 0; j < 10; j++) answers.push(store.consume(charges, 1))
      if (i % 3 === 0) void client.script('FLUSH')
      await new Promise(resolve => setImmediate(resolve))
    }
    await Promise.all(answers)
    expect((await store.peek(charges, 0))[0].remaining).toBe(700)
  })
})

describe('a key with a foreign value', () => {
  const foreign: readonly [string, (key: string) => Promise<unknown>][] = [
    ['a text', key => client.set(key, 'x')],
    ['a text as long as a state', key => client.set(key, 'abcdefghijklmnopqrstuvwx')],
    ['numbers that are none', key => client.set(key, Buffer.alloc(24, 0xff))],
    ['numbers that are too large', key => client.set(key, Buffer.alloc(24, 0x7e))],
    ['an empty text', key => client.set(key, '')],
    ['a number', key => client.set(key, 5)],
    ['a list', key => client.rpush(key, 'a', 'b', 'c')],
    ['a list of one', key => client.rpush(key, '12345678')],
    ['a list that begins like a log', key => client.rpush(key, '12345678', '12345678', 'end')],
    ['a hash', key => client.hset(key, 'a', 'b')],
    ['a set', key => client.sadd(key, 'a')],
    ['a sorted set', key => client.zadd(key, 1, 'a')],
    ['a stream', key => client.xadd(key, '*', 'a', 'b')],
  ]

  describe.each(ALGORITHM_NAMES)('under %s', algorithm => {
    const limit = limitOf(5, '1m', algorithm)

    test.each(foreign)('%s, counts as unused, and harms no others', async (_, write) => {
      const store = new RedisStore(client)
      await store.consume(charge('bad', limit), 1)
      const [key] = await stateKeys(client)
      await client.del(key)
      await write(key)
      const keys = ['a', 'bad', 'b', 'bad', 'c', 'a']
      const spent = await Promise.all(keys.map(key => store.consume(charge(key, limit), 1)))
      const remaining = spent.map(([verdict]) => verdict.remaining)
      expect(remaining.filter((_, i) => keys[i] !== 'bad')).toEqual([4, 4, 4, 3])
      // Of counters and buckets, 24 bytes of anybody read as a state.
      if (algorithm === 'sliding-window') expect([remaining[1], remaining[3]]).toEqual([4, 3])
    })

    test('is deleted by a reset, and counts again', async () => {
      const store = new RedisStore(client)
      await store.consume(charge('bad', limit), 1)
      const [key] = await stateKeys(client)
      await client.del(key)
      await client.hset(key, 'a', 'b')
      await store.reset(charge('bad', limit))
      expect((await store.consume(charge('bad', limit), 1))[0].remaining).toBe(4)
    })
  })

  test('counts as unused beside other limits, and changes of it, too', async () => {
    const policy = parsePolicy('5/1m name=a; 6/1m name=b; 7/1m token-bucket name=c')
    const store = new RedisStore(client)
    await store.consume([{ key: 'k', limit: policy[1] }], 1)
    const [key] = await stateKeys(client)
    await client.set(key, 'x')
    const charges = policy.map(limit => ({ key: 'k', limit }))
    const left = async () => (await store.peek(charges, 0)).map(({ remaining }) => remaining)
    await store.refund(charges, 1)
    expect(await left()).toEqual([5, 6, 7])
    expect(await client.get(key)).toBe('x')
    await store.charge(charges, 2)
    expect((await store.consume(charges, 1)).map(({ remaining }) => remaining)).toEqual([2, 3, 4])
    expect(await client.type(key)).toBe('list')
  })
})

describe('a key in Redis', () => {
  test('begins with the prefix, whatever that is, and stores with other prefixes share nothing', async () => {
    const prefixes = ['spillway', 'a', 'a:b', 'a:', ':a', '{a}', '{', '}', ' ', '%', '\0', 'x'.repeat(300), '*']
    const stores = prefixes.map(prefix => new RedisStore(client, { prefix }))
    for (const store of stores) expect((await store.consume(charge('k'), 5))[0].allowed).toBe(true)
    for (const store of stores) expect((await store.consume(charge('k'), 1))[0].allowed).toBe(false)
    const keys = await stateKeys(client)
    expect(keys).toHaveLength(prefixes.length)
    expect(new Set(keys.map(key => key.split(':{k}')[0])).size).toBe(prefixes.length)
    expect(keys).toContain('spillway:{k}:default:sliding-window 5@sw60000')
  })

  test("never has a client's name outside its place in the key", async () => {
    const store = new RedisStore(client)
    await store.consume([{ key: '}:evil:{', limit: limitOf(5, '1m'), limiter: '{x}' }], 1)
    expect(await stateKeys(client)).toEqual(['spillway:{%7d:evil:%7b}:%7bx%7d:sliding-window 5@sw60000'])
  })

  test('of a long key is short', async () => {
    const store = new RedisStore(client)
    await store.consume(charge('k'.repeat(10_240)), 1)
    const [key] = await stateKeys(client)
    expect(key.length).toBeLessThan(120)
  })

  test('of a sliding window: at most 12 bytes a permit at 10 000 permits in distinct ms, and 1 KB in one ms', async () => {
    const clock = new ManualClock(START)
    const store = new RedisStore(client, { clock })
    const usage = async (key: string) =>
      Number(await client.call('MEMORY', 'USAGE', (await client.keys(`*{${key}}*`))[0], 'SAMPLES', '0'))
    const limit = limitOf(10_000, '1h')
    for (let i = 0; i < 10_000; i++) {
      clock.advance(1)
      const answer = store.consume(charge('distinct', limit), 1)
      await (i % 100 === 99 ? answer : new Promise(resolve => setImmediate(resolve)))
    }
    expect((await store.peek(charge('distinct', limit), 1))[0].allowed).toBe(false)
    await Promise.all(Array.from({ length: 10_000 }, () => store.consume(charge('one', limit), 1)))
    expect((await store.peek(charge('one', limit), 1))[0].allowed).toBe(false)
    const [distinct, one] = [(await usage('distinct')) / 10_000, await usage('one')]
    console.log(`sliding window in Redis: ${distinct.toFixed(2)} bytes a permit in distinct ms; ${one} bytes in one ms`)
    expect(distinct).toBeLessThanOrEqual(12)
    expect(one).toBeLessThanOrEqual(1024)
  })

  test('is not changed by peeks and refusals', async () => {
    const clock = new ManualClock(START)
    const store = new RedisStore(client, { clock })
    for (const algorithm of ALGORITHM_NAMES) {
      const charges = charge(algorithm, limitOf(3, '1m', algorithm))
      await store.consume(charges, 2)
      const [key] = await client.keys(`*{${algorithm}}*`)
      const before = await client.dump(key)
      await client.pexpire(key, 1_000_000)
      clock.advance(100)
      await store.peek(charges, 1)
      await store.consume(charges, 2)
      await store.consume(charges, 0)
      await store.consume(charges, 9)
      expect([algorithm, await client.dump(key)]).toEqual([algorithm, before])
      expect(await client.pttl(key)).toBeGreaterThan(900_000)
    }
    await store.peek(charge('never used'), 1)
    await store.consume(charge('never used'), 9)
    await store.refund(charge('never used'), 1)
    expect(await client.keys('*never used*')).toEqual([])
  })
})

describe('with clients of all kinds', () => {
  older('ioredis5', (lib: { Redis: typeof Redis }) =>
    test('ioredis 5 and 6 share counts', async () => {
      const old = redis.track(new lib.Redis({ host: redis.host, port: redis.port }))
      const [store, other] = [new RedisStore(client), new RedisStore(old)]
      for (const limit of parsePolicy(
        ALGORITHM_NAMES.map(algorithm => ({ quota: 6, window: '1m', algorithm, name: algorithm })),
      )) {
        expect((await store.consume([{ key: 'k', limit }], 2))[0].remaining).toBe(4)
        expect((await other.consume([{ key: 'k', limit }], 3))[0].remaining).toBe(1)
        expect((await store.consume([{ key: 'k', limit }], 2))[0].allowed).toBe(false)
      }
    }),
  )

  test.each<[string, object]>([
    ['that answers numbers as texts', { stringNumbers: true }],
    ['that gathers commands itself', { enableAutoPipelining: true }],
    ['with a key prefix', { keyPrefix: 'app:{x}:' }],
    ['without an offline queue', { enableOfflineQueue: false }],
    ['of another database', { db: 3 }],
  ])('ioredis %s decides as any other', async (_, options) => {
    const store = new RedisStore(redis.client(options))
    const clock = new ManualClock(START)
    const timed = new RedisStore(redis.client(options), { clock, prefix: 'timed' })
    const limits = parsePolicy('3/1m; 4/1h leaky-bucket; 5/1d sliding-counter')
    const charges = limits.map(limit => ({ key: 'k', limit }))
    expect((await store.consume(charges, 2)).map(({ remaining }) => remaining)).toEqual([1, 2, 3])
    await timed.consume(charges, 2)
    const verdicts = await timed.consume(charges, 1)
    expect(verdicts.map(({ remaining, resetAfterMs, delayMs }) => [remaining, resetAfterMs, delayMs])).toEqual([
      [0, 60_000, 0],
      [1, 2_700_000, 1_800_000],
      [2, 172_800_000, 0],
    ])
    expect((await store.consume(charges, 2)).map(({ allowed }) => allowed)).toEqual([false, true, true])
  })

  test('a prefix of the client comes before that of the store', async () => {
    await new RedisStore(redis.client({ keyPrefix: 'app:' })).consume(charge('k'), 1)
    expect(await stateKeys(client)).toEqual(['app:spillway:{k}:default:sliding-window 5@sw60000'])
  })
})

test('calls without await are carried out in their order', async () => {
  const store = new RedisStore(client)
  const done = [
    store.consume(charge('k'), 3),
    store.refund(charge('k'), 2),
    store.peek(charge('k'), 0),
    store.reset(charge('k')),
    store.consume(charge('k'), 1),
    store.peek(charge('k'), 0),
  ] as const
  await Promise.all(done)
  expect((await done[0])[0].remaining).toBe(2)
  expect((await done[2])[0].remaining).toBe(4)
  expect((await done[5])[0].remaining).toBe(4)
})

test.each(['token-bucket', 'leaky-bucket'])('a %s of quota 0 with a burst is looked at by Redis', async algorithm => {
  const store = new RedisStore(redis.client(), { prefix: `none ${algorithm}` })
  const limiter = new RateLimiter({ policy: `0/1m ${algorithm} burst=20`, store, deadline: '5s', observer: {} })
  expect(await limiter.consume('k', 0)).toMatchObject({ source: 'redis', degraded: false, allowed: true, remaining: 0 })
  await limiter.close()
})

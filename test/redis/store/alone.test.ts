import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import type { Verdict } from '../../../src/limiter/core/decision.js'
import { ALGORITHM_NAMES, type AlgorithmName, parseLimit } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import type { Charge } from '../../../src/limiter/store.js'
import { ManualClock } from '../../../src/testing.js'
import { ofCases } from '../../support/cases.js'
import { askStore } from '../../support/counts.js'
import { eventually } from '../../support/eventually.js'
import { monitor } from '../../support/monitor.js'
import { randomFrom } from '../../support/random.js'
import { stateKeys } from '../../support/state-keys.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})
afterEach(() => client.flushall())

const limitOf = (quota: number, window: string | number, algorithm: AlgorithmName) =>
  parseLimit({ quota, window, algorithm, name: 'plan' })
const passed = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** What a store on Redis answers, and when it decided by the server's clock. */
function decided(store: RedisStore, charge: Charge, cost: number): Promise<{ verdict: Verdict; at: number }> {
  return new Promise((resolve, reject) =>
    askStore(store, [charge], cost, {
      resolve: ([verdict], _, at) => resolve({ verdict, at: at as number }),
      reject,
    }),
  )
}

/** How often the server has run a command. */
async function callsOf(command: string): Promise<number> {
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(await client.info('commandstats'))?.[1] ?? 0)
}

/** The commands of this name that clients send while `act` runs. */
async function commandsOf(name: string, act: () => Promise<unknown>): Promise<string[][]> {
  const sent: string[][] = []
  const stop = await monitor(redis.port, ({ args }) => sent.push(args))
  await act()
  await client.echo('done')
  await eventually('all is seen', async () => sent.some(([command]) => command === 'echo'))
  stop()
  return sent.filter(([command]) => command === name)
}

describe.each(ALGORITHM_NAMES)('a request that comes alone, by the clock of the server (%s)', algorithm => {
  test('is refused when the quota is spent, and refused again', async () => {
    const store = new RedisStore(client)
    const charges = [{ key: 'k', limit: limitOf(2, '1h', algorithm) }]
    const verdicts: Verdict[] = []
    for (let i = 0; i < 6; i++) verdicts.push(...(await store.consume(charges, 1)))
    expect(verdicts.map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
      [true, 1],
      [true, 0],
      ...Array.from({ length: 4 }, () => [false, 0]),
    ])
  })

  test('is decided as in memory, in every field, whatever came before', async () => {
    const random = randomFrom(`alone ${algorithm}`)
    const store = new RedisStore(client)
    for (const window of [20, 150, 3_600_000]) {
      const limits = [2, 9, 70_000].map(quota => limitOf(quota, window, algorithm))
      const clock = new ManualClock(0)
      const own = new MemoryStore({ clock })
      for (let i = 0; i < ofCases(1000); i++) {
        const limit = random.pick(limits)
        const charge = { key: 'k', limit }
        const cost = random.pick([1, 1, 1, 1, 1, 1, 2, 0])
        const many = random.integer(0, 5) === 0 ? 3 : 1
        const answers = await Promise.all(Array.from({ length: many }, () => decided(store, charge, cost)))
        for (const { verdict, at } of answers) {
          clock.set(at)
          expect([i, verdict]).toEqual([i, ...own.consume([charge], cost)])
        }
        if (random.integer(0, 9) === 0) await passed(random.integer(1, 15))
      }
      await client.flushall()
      own.close()
    }
  }, 20_000)

  // EXPIRE, PERSIST, RESTORE and MIGRATE change a lifetime, so it is not the time of anything.
  test('is decided as in memory, whatever lifetime its key has been given', async () => {
    const random = randomFrom(`lifetimes ${algorithm}`)
    const store = new RedisStore(client)
    const clock = new ManualClock(0)
    const own = new MemoryStore({ clock })
    const charge = { key: 'k', limit: limitOf(70_000, '1m', algorithm) }
    for (let i = 0; i < ofCases(500); i++) {
      const many = random.integer(0, 2) === 0 ? 3 : 1
      const askedAt = Date.now()
      const answers = await Promise.all(Array.from({ length: many }, () => decided(store, charge, 1)))
      for (const { verdict, at } of answers) {
        // The server runs on this machine.
        expect([i, at >= askedAt && at <= Date.now()]).toEqual([i, true])
        clock.set(at)
        expect([i, verdict]).toEqual([i, ...own.consume([charge], 1)])
      }
      const [key] = await stateKeys(client)
      const leftMs = await client.pttl(key)
      // Never so short that the key could be gone before the next request: without a lifetime, what is left is -1.
      const nearMs = Math.max(5000, leftMs + random.integer(-60, 60))
      const lifetimeMs = random.pick([0, leftMs, nearMs, 5000, 3_600_000])
      if (lifetimeMs > 0) await client.pexpire(key, lifetimeMs)
      else await client.persist(key)
    }
    own.close()
  })

  test('is not carried out after its last moment, whatever lifetime its key has', async () => {
    const store = new RedisStore(client)
    const charges = [{ key: 'k', limit: limitOf(1000, '1h', algorithm) }]
    await store.consume(charges, 1)
    const [sent] = await commandsOf('evalsha', () => store.consume(charges, 1))
    const [key] = await stateKeys(client)
    const before = await store.peek(charges, 0)
    await client.pexpire(key, (await client.pttl(key)) + 20_000)
    const [seconds] = await client.time()
    const late = sent.map(text => (/^\d{13}$/.test(text) ? String(Number(seconds) * 1000 - 10) : text))
    const [name, ...args] = late
    const reply = (await client.call(name, ...args)) as number[]
    expect(reply).toHaveLength(1)
    expect(reply[0]).toBeGreaterThanOrEqual(Number(seconds) * 1000)
    const [{ remaining }] = await store.peek(charges, 0)
    // A bucket may have regained units meanwhile.
    expect(remaining).toBeGreaterThanOrEqual(before[0].remaining)
  })

  test('asks the server for the time once, and once for blocks and waiters', async () => {
    const store = new RedisStore(client)
    const charges = [{ key: 'k', limit: limitOf(1000, '1h', algorithm) }]
    await store.consume(charges, 1)
    for (const name of ['time', 'exists']) {
      const before = await callsOf(name)
      for (let i = 0; i < 20; i++) await store.consume(charges, 1)
      expect([name, (await callsOf(name)) - before]).toEqual([name, 20])
    }
  })

  test('is refused while its key is blocked, used before or not, and allowed afterwards', async () => {
    const store = new RedisStore(client)
    const limit = limitOf(1000, '1h', algorithm)
    for (const used of [0, 1, 3]) {
      const charges = [{ key: `k${used}`, limit }]
      for (let i = 0; i < used; i++) await store.consume(charges, 1)
      await store.block(charges, 60_000)
      for (let i = 0; i < 3; i++)
        expect(await store.consume(charges, 1)).toMatchObject([{ allowed: false, blocked: true }])
      await store.charge(charges, 1)
      await store.refund(charges, 1)
      await store.reset(charges)
      await store.charge(charges, 1)
      expect(await store.consume(charges, 1)).toMatchObject([{ allowed: false, blocked: true }])
      await store.block(charges, 0)
      for (let i = 0; i < 3; i++) expect(await store.consume(charges, 1)).toMatchObject([{ allowed: true }])
      const [seconds, micros] = await client.time()
      await store.block(charges, 30)
      let last = await decided(store, charges[0], 1)
      while (!last.verdict.allowed) {
        expect(last.verdict.blocked).toBe(true)
        last = await decided(store, charges[0], 1)
      }
      expect(last.at).toBeGreaterThanOrEqual(Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) + 30)
    }
  })

  // A second round trip would exceed the deadline where Redis is far away, and the failure policy would admit blocked
  // keys.
  test('takes one call, whether its key is unused, used, spent or blocked', async () => {
    const store = new RedisStore(client)
    const charges = [{ key: 'k', limit: limitOf(2, '1h', algorithm) }]
    const callsFor = async (act: () => Promise<unknown>) => {
      const before = await callsOf('evalsha')
      await act()
      return (await callsOf('evalsha')) - before
    }
    const consume = () => store.consume(charges, 1)
    await store.consume([{ ...charges[0], key: 'the first call tells the time of the server' }], 1)
    expect(await callsFor(consume)).toBe(1)
    expect(await callsFor(consume)).toBe(1)
    expect(await callsFor(consume)).toBe(1)
    await store.block(charges, 60_000)
    expect(await callsFor(async () => expect(await consume()).toMatchObject([{ blocked: true }]))).toBe(1)
    await store.reset(charges)
    expect(await callsFor(async () => expect(await consume()).toMatchObject([{ blocked: true }]))).toBe(1)
  })

  test('does not overtake waiters', async () => {
    const policy = { quota: 4, window: '1h', algorithm, ...(algorithm.endsWith('bucket') && { burst: 4 }) }
    const limiter = new RateLimiter({ policy, store: new RedisStore(client), onStoreFailure: 'closed', deadline: '5s' })
    await limiter.consume('k')
    const left = new AbortController()
    const waiting = limiter.acquire('k', { cost: 4, timeout: '10h', signal: left.signal }).catch(() => 'left')
    await eventually('it waits', async () => (await client.keys('*:line')).length === 1)
    expect((await limiter.peek('k')).remaining).toBe(3)
    expect((await limiter.consume('k')).allowed).toBe(false)
    left.abort()
    expect(await waiting).toBe('left')
    // Whoever leaves says so with the next ask.
    await eventually('a decision that is allowed', async () => {
      await limiter.reset('k')
      return (await limiter.consume('k')).allowed
    })
  })
})

import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Pool } from 'pg'
import type { Decision } from '../../src/limiter/core/decision.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { PostgresStore, type PostgresStoreOptions } from '../../src/sql/postgres-store.js'
import { ManualClock } from '../../src/testing.js'
import { START } from '../support/stories.js'
import { testPostgres } from '../support/test-postgres.js'

const database = testPostgres()
let pool: Pool
let prefixes = 0
beforeAll(async () => {
  pool = database.pool({ max: 2 })
  await new PostgresStore(pool).createTable()
})

const ALGORITHMS = ['sliding-window', 'token-bucket', 'fixed-window', 'sliding-counter']

/** A limiter whose key 'k' is leased: 8 requests and more have come in one ttl. */
async function warm(policy: string, options: PostgresStoreOptions = {}, client: object = pool) {
  const clock = (options.clock as ManualClock) ?? new ManualClock(START)
  const store = new PostgresStore(client, { clock, prefix: `leases ${++prefixes}`, leases: true, ...options })
  const limiter = new RateLimiter({ policy, store, deadline: '10s', observer: {} })
  const spent = await decisions(limiter, 10)
  return { limiter, store, clock, spent }
}

async function decisions(limiter: RateLimiter, count: number): Promise<Decision[]> {
  const all: Decision[] = []
  for (let i = 0; i < count; i++) all.push(await limiter.consume('k'))
  return all
}

const allowed = (all: readonly Decision[]) => all.filter(decision => decision.allowed).length
const leased = (all: readonly Decision[]) => all.filter(decision => decision.source === 'lease' && decision.allowed)

/** What a process without leases sees. */
async function left(store: PostgresStore, policy: string): Promise<number> {
  const plain = new PostgresStore(pool, { clock: store.clock, prefix: store.prefix })
  const limiter = new RateLimiter({ policy, store: plain, deadline: '10s', observer: {} })
  return (await limiter.peek('k', 0)).remaining
}

test('a leaky bucket is not leased', () => {
  const store = new PostgresStore(pool, { leases: {} })
  expect(() => new RateLimiter({ policy: '100/1s leaky-bucket', store })).toThrow('a leaky bucket can not be leased')
})

describe.each(ALGORITHMS)('under %s', algorithm => {
  test('a busy key is decided from leases, and never over the limit', async () => {
    const { limiter, clock, spent } = await warm(`500/1s ${algorithm}`)
    let passed = allowed(spent)
    const first = await decisions(limiter, 30)
    expect(leased(first).length).toBeGreaterThan(10)
    passed += allowed(first)
    for (let ms = 0; ms < 60; ms++) {
      passed += allowed(await decisions(limiter, 30))
      clock.advance(1)
    }
    // 60 ms regain at most 30 units of the bucket.
    expect(passed).toBeLessThanOrEqual(algorithm === 'token-bucket' ? 530 : 500)
    expect(passed).toBeGreaterThan(440)
    await limiter.close()
  })

  test('peek includes held units, and unspent units go back when the limiter closes', async () => {
    const { limiter, store, spent } = await warm(`1000/1s ${algorithm}`)
    const all = [...spent, ...(await decisions(limiter, 20))]
    const { remaining } = all[29]
    expect(all[29].source).toBe('lease')
    expect((await limiter.peek('k', 1)).remaining).toBe(remaining - 1)
    await limiter.close()
    // A bucket keeps back what it regains while a lease lives: 50 units.
    const kept = algorithm === 'token-bucket' ? 50 : 0
    const after = await left(store, `1000/1s ${algorithm}`)
    expect(after).toBeLessThanOrEqual(970)
    expect(after).toBeGreaterThanOrEqual(970 - kept)
  })

  test('settle gives units back to the lease, and to the database once that has ended', async () => {
    const { limiter, store, clock } = await warm(`1000/1s ${algorithm}`)
    await decisions(limiter, 12)
    const decision = await limiter.consume('k', 4)
    expect(decision.source).toBe('lease')
    const before = (await limiter.peek('k', 0)).remaining
    await limiter.settle(decision, 1)
    expect((await limiter.peek('k', 0)).remaining).toBe(before + 3)
    const late = await limiter.consume('k', 40)
    expect(late.source).toBe('lease')
    clock.advance(algorithm === 'token-bucket' ? 5 : 60)
    await limiter.close()
    const charged = await left(store, `1000/1s ${algorithm}`)
    await limiter.settle(late, 0)
    const back = (await left(store, `1000/1s ${algorithm}`)) - charged
    if (algorithm === 'token-bucket') expect(back).toBeLessThanOrEqual(40)
    else expect(back).toBe(40)
  })

  test('reset and block end held leases, and nothing of them comes back', async () => {
    const { limiter, store } = await warm(`1000/1s ${algorithm}`)
    await decisions(limiter, 20)
    await limiter.block('k', '1m')
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, blocked: true })
    await limiter.unblock('k')
    expect(await limiter.consume('k')).toMatchObject({ allowed: true })
    await limiter.reset('k')
    expect((await limiter.peek('k', 0)).remaining).toBe(1000)
    await limiter.close()
    expect(await left(store, `1000/1s ${algorithm}`)).toBe(1000)
  })
})

test('several limits are leased together: all sell the same', async () => {
  const policy = '1000/1s; 5000/1m name=long token-bucket'
  const { limiter, store } = await warm(policy)
  const all = await decisions(limiter, 20)
  expect(all[19].source).toBe('lease')
  expect(all[19].verdicts[0].remaining).toBe(970)
  await limiter.close()
  expect(await left(store, '1000/1s')).toBe(970)
})

test('a purchase of which the answer is lost is found by its name: nothing is sold twice', async () => {
  let loses = false
  const lossy = {
    async query(text: string, values: readonly unknown[], name?: string) {
      const { rows } = await pool.query({ text, values: [...values], name })
      const isWrite = text.includes('INSERT')
      if (!loses || !isWrite) return rows
      loses = false
      throw new Error('the connection was lost')
    },
  }
  const { limiter, store, spent } = await warm('1000/1s fixed-window', { leases: { ttl: '50ms' } }, lossy)
  let passed = allowed(spent)
  let decision = limiter.decide('k')
  for (; !(decision instanceof Promise); decision = limiter.decide('k')) passed++
  loses = true
  expect(await decision).toMatchObject({ allowed: true })
  expect(loses).toBe(false)
  await limiter.close()
  expect(await left(store, '1000/1s fixed-window')).toBe(1000 - passed - 1)
})

test('units on leases of another process cap the wait of a refusal', async () => {
  const clock = new ManualClock(START)
  const { limiter, store } = await warm('20000/1h fixed-window', { clock, leases: { ttl: '1s' } })
  while (!((await limiter.consume('k', 300)).source === 'lease'));
  const plain = new PostgresStore(pool, { clock, prefix: store.prefix, leases: { ttl: '1s' } })
  const other = new RateLimiter({ policy: '20000/1h fixed-window', store: plain, deadline: '10s', observer: {} })
  const { remaining } = await other.peek('k', 0)
  await other.consume('k', remaining)
  const refused = await other.consume('k', 1)
  expect(refused.allowed).toBe(false)
  expect(refused.retryAfterMs).toBeLessThanOrEqual(1000)
  await Promise.all([limiter.close(), other.close()])
})

test('processes by clocks that stand still share a key, and together keep to the limit', async () => {
  const clock = new ManualClock(START)
  const prefix = `leases shared ${++prefixes}`
  const limiters = Array.from({ length: 4 }, () => {
    const store = new PostgresStore(database.pool({ max: 1 }), { clock, prefix, leases: true })
    return new RateLimiter({ policy: '2000/1s', store, deadline: '10s', observer: {} })
  })
  let passed = 0
  for (let ms = 0; ms < 40; ms++) {
    const all = await Promise.all(limiters.flatMap(limiter => Array.from({ length: 20 }, () => limiter.consume('k'))))
    passed += allowed(all)
    clock.advance(1)
  }
  expect(passed).toBeLessThanOrEqual(2000)
  expect(passed).toBeGreaterThan(1700)
  await Promise.all(limiters.map(limiter => limiter.close()))
})

import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Pool, PoolClient } from 'pg'
import postgres from 'postgres'
import type { Decision } from '../../src/limiter/core/decision.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { testPostgres } from '../support/test-postgres.js'

jest.setTimeout(30_000)

const database = testPostgres()
let admin: Pool
let holder: PoolClient | undefined
beforeAll(async () => {
  admin = database.pool()
  await new PostgresStore(admin).createTable()
})
afterEach(async () => {
  await holder?.query('ROLLBACK')
  holder?.release()
  holder = undefined
})

async function hold(statement: string, values: unknown[] = []): Promise<void> {
  holder = await admin.connect()
  await holder.query('BEGIN')
  await holder.query(statement, values)
}

const hot = (limiterName: string) => hold('SELECT FROM spillway WHERE key LIKE $1 FOR UPDATE', [`%:${limiterName}:hot`])
let names = 0
const newLimiter = (name: string, deadline: string | number = '1s') =>
  new RateLimiter({
    policy: '100000/1h',
    name,
    store: new PostgresStore(database.pool({ max: 2 })),
    deadline,
    denyCache: false,
    onStoreFailure: 'closed',
  })

/** Asks for keys at once, again and again, and gives the decisions of each key. */
async function asked(
  limiter: RateLimiter,
  keys: readonly string[],
  times: number,
): Promise<Record<string, Decision[]>> {
  const decisions: Record<string, Promise<Decision>[]> = Object.fromEntries(keys.map(key => [key, []]))
  for (let i = 0; i < times; i++) {
    for (const key of keys) decisions[key].push(limiter.consume(key))
    await sleep(20)
  }
  const all = Object.entries(decisions).map(async ([key, some]) => [key, await Promise.all(some)] as const)
  return Object.fromEntries(await Promise.all(all))
}

const degraded = (decisions: readonly Decision[]) => decisions.filter(decision => decision.degraded).length

test('a row that somebody holds delays its own key alone', async () => {
  const name = `held ${names++}`
  const limiter = newLimiter(name)
  const keys = ['a', 'b', 'hot', 'z']
  for (const key of keys) await limiter.consume(key)
  await hot(name)
  const { hot: held, ...others } = await asked(limiter, keys, 60)
  expect(degraded(held)).toBe(held.length)
  for (const key of ['a', 'b', 'z']) expect({ key, degraded: degraded(others[key]) }).toEqual({ key, degraded: 0 })
})

test('also while one decision waits patiently for the row, which has it when it is free', async () => {
  const name = `held ${names++}`
  const limiter = newLimiter(name)
  const patient = new RateLimiter({
    policy: '100000/1h',
    name,
    store: new PostgresStore(database.pool({ max: 2 })),
    deadline: '10s',
    denyCache: false,
  })
  for (const key of ['a', 'hot']) await limiter.consume(key)
  await hot(name)
  const waiting = patient.consume('hot')
  const { a } = await asked(patient, ['a'], 40)
  expect(degraded(a)).toBe(0)
  const freedAt = performance.now()
  await holder?.query('ROLLBACK')
  expect((await waiting).degraded).toBe(false)
  expect(performance.now() - freedAt).toBeLessThan(1000)
})

test('several rows that are held, of which one is freed: its key is decided again', async () => {
  const name = `held ${names++}`
  const limiter = newLimiter(name, 2000)
  for (const key of ['hot', 'x']) await limiter.consume(key)
  const other = await admin.connect()
  await other.query('BEGIN')
  await other.query('SELECT FROM spillway WHERE key LIKE $1 FOR UPDATE', [`%:${name}:x`])
  await hot(name)
  const decisions = [limiter.consume('hot'), limiter.consume('x'), limiter.consume('y')]
  expect((await decisions[2]).degraded).toBe(false)
  await other.query('ROLLBACK')
  other.release()
  expect((await decisions[1]).degraded).toBe(false)
  expect((await decisions[0]).degraded).toBe(true)
})

test('a decision of several keys waits for the one that is held, and the others are free meanwhile', async () => {
  const name = `held ${names++}`
  const store = new PostgresStore(database.pool({ max: 2 }))
  const [limit] = parsePolicy('100/1h')
  const of = (...keys: string[]) => keys.map(key => ({ key, limit, limiter: name }))
  for (const key of ['a', 'hot']) await store.consume(of(key), 1)
  await hot(name)
  const both = store.consume(of('a', 'hot'), 1)
  for (let i = 0; i < 20; i++) {
    await store.consume(of('a'), 1)
    await sleep(10)
  }
  await holder?.query('ROLLBACK')
  expect((await both).map(({ allowed }) => allowed)).toEqual([true, true])
  expect((await store.peek(of('a'), 0))[0].remaining).toBe(100 - 22)
})

describe.each([
  ['pg', () => database.pool({ max: 1 })],
  ['postgres', () => postgres(database.url, { max: 1, onnotice: () => {} })],
])('over %s', (_, clientOf) => {
  test('a new row that waited for another transaction is not written after its last moment, and no setting stays', async () => {
    const client = clientOf()
    const name = `late ${names++}`
    const [limit] = parsePolicy('10/1h')
    const store = new PostgresStore(client)
    const charges = [{ key: 'k', limit, limiter: name }]
    await store.peek(charges, 0)
    const { rows } = await admin.query("SELECT split_part(key, ':', 1) AS prefix FROM spillway LIMIT 1")
    await hold("INSERT INTO spillway VALUES ($1, 1, 0, 9e15, '')", [`${rows[0].prefix}:${name}:k`])
    const asked = new RateLimiter({ policy: '10/1h', name, store, deadline: 100, onStoreFailure: 'closed' })
    expect((await asked.consume('k', 7)).degraded).toBe(true)
    await sleep(400)
    await holder?.query('ROLLBACK')
    await sleep(100)
    expect((await store.peek(charges, 0))[0].remaining).toBe(10)
    const show = 'SHOW lock_timeout'
    const setting = 'unsafe' in client ? (await client.unsafe(show))[0] : (await client.query(show)).rows[0]
    expect(setting.lock_timeout).toBe('0')
    await client.end()
  })
})

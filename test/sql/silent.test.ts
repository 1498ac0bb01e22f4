import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import postgres from 'postgres'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { eventually } from '../support/eventually.js'
import { TcpProxy } from '../support/tcp-proxy.js'
import { testPostgres } from '../support/test-postgres.js'

jest.setTimeout(60_000)

const database = testPostgres()
let proxy: TcpProxy
beforeAll(() => new PostgresStore(database.pool()).createTable())
beforeEach(async () => {
  proxy = await TcpProxy.start(database.port)
})
afterEach(() => proxy.stop())
const far = () => database.url.replace(`:${database.port}/`, `:${proxy.port}/`)

describe.each<[string, () => { client: object; end: () => Promise<unknown> }]>([
  [
    'pg',
    () => {
      const pool = database.pool({ connectionString: far(), max: 1 })
      return { client: pool, end: () => pool.end() }
    },
  ],
  [
    'postgres',
    () => {
      const sql = postgres(far(), { max: 1, onnotice: () => {} })
      return { client: sql, end: () => sql.end({ timeout: 0 }) }
    },
  ],
])('over %s', (_, open) => {
  test('a connection that is dropped without a word is given up: decided by the database again within seconds', async () => {
    const { client, end } = open()
    const limiter = new RateLimiter({ policy: '100/1h', name: 'silent', store: new PostgresStore(client) })
    expect((await limiter.consume('k')).degraded).toBe(false)
    proxy.swallowNewest()
    const cutAt = performance.now()
    const isBack = async () => {
      await sleep(50)
      return !(await limiter.consume('k')).degraded
    }
    await eventually('decided by the database', isBack, 20_000)
    // 5 s, and up to 5 s more until the breaker asks again.
    expect(performance.now() - cutAt).toBeLessThan(11_000)
    void end()
  })

  test('createTable settles, though the server accepts and is silent', async () => {
    proxy.swallow()
    const { client, end } = open()
    const startedAt = performance.now()
    await expect(new PostgresStore(client, { table: 'silent' }).createTable()).rejects.toThrow('did not answer in time')
    expect(performance.now() - startedAt).toBeLessThan(11_000)
    void end().catch(() => {})
  })
})

test('an answer that comes after its timeout changes nothing: settlements still give back', async () => {
  const pool = database.pool()
  let holdMs = 0
  const client = {
    async query(text: string, values: readonly unknown[], name?: string) {
      const ms = holdMs
      holdMs = 0
      const { rows } = await pool.query({ text, values: [...values], name })
      await sleep(ms)
      return rows
    },
  }
  const limiter = new RateLimiter({
    policy: '100/1h',
    name: 'late answers',
    store: new PostgresStore(client),
    deadline: 100,
    onStoreFailure: 'closed',
  })
  const lateOnce = async () => {
    holdMs = 700
    expect((await limiter.consume('other')).degraded).toBe(true)
  }
  await limiter.consume('other')
  await lateOnce()
  const decision = await limiter.consume('k', 50)
  await sleep(800)
  await lateOnce()
  await limiter.consume('other')
  await sleep(800)
  await limiter.settle(decision, 10)
  expect((await limiter.peek('k', 0)).remaining).toBe(90)
})

test('a table that exists unlogged is refused where a logged one is asked for, and not the other way', async () => {
  const pool = database.pool()
  const store = new PostgresStore(pool, { table: 'durable' })
  await store.createTable()
  await expect(store.createTable({ logged: true })).rejects.toThrow('ALTER TABLE "durable" SET LOGGED')
  await pool.query('ALTER TABLE durable SET LOGGED')
  await store.createTable({ logged: true })
  await store.createTable()
})

test('half a change is not written: one that fails takes nothing with it', async () => {
  const [limit] = parsePolicy('10/1h')
  const broken = {
    ...limit,
    name: 'broken',
    get quota(): number {
      throw new Error('broken')
    },
  }
  const store = new PostgresStore(database.pool(), { prefix: 'half' })
  const answers = await Promise.allSettled([
    store.charge(
      [
        { key: 'k', limit },
        { key: 'k', limit: broken },
      ],
      3,
    ),
    store.consume([{ key: 'k', limit }], 1),
  ])
  expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
  expect((await store.peek([{ key: 'k', limit }], 0))[0].remaining).toBe(9)
})

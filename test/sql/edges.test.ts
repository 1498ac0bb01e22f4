import { expect, test } from '@jest/globals'
import { RateLimiter } from '../../src/index.js'
import { parseLimit } from '../../src/limiter/core/limit.js'
import { RowKeys } from '../../src/sql/key-row.js'
import { postgresPort } from '../../src/sql/postgres-client.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { PostgresTable } from '../../src/sql/postgres-table.js'
import { eventually } from '../support/eventually.js'
import { poolOf } from '../support/postgres-server.js'
import { testPostgres } from '../support/test-postgres.js'

const database = testPostgres()

test('150 000 decisions of each of two keys wait, and one of both joins them: all are decided', async () => {
  const pool = database.pool({ max: 4 })
  const store = new PostgresStore(pool)
  await store.createTable()
  const limits = ['a', 'b'].map(name => ({ name, quota: 1_000_000, window: '1h', algorithm: 'fixed-window' }) as const)
  const limiter = new RateLimiter({ policy: limits, store, name: 'edge', deadline: '1m', observer: {} })
  const [one, other] = [{ a: 'one' }, { b: 'other' }]
  const both = { ...one, ...other }
  await limiter.consume(both)
  const holder = await pool.connect()
  await holder.query('BEGIN; SELECT FROM spillway FOR UPDATE')
  const asked = [one, other].flatMap(key => Array.from({ length: 150_000 }, () => limiter.consume(key)))
  await eventually('a statement waits for the rows', async () => {
    const { rows } = await pool.query("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return rows.length > 0
  })
  asked.push(limiter.consume(both))
  await holder.query('COMMIT')
  holder.release()
  const decided = await Promise.all(asked)
  expect(decided.filter(({ allowed, source }) => !allowed || source !== 'postgres')).toEqual([])
  const { verdicts } = await limiter.peek(both, 0)
  expect(verdicts.map(({ remaining }) => 1_000_000 - remaining)).toEqual([150_002, 150_002])
}, 60_000)

test('expired rows of a prefix that no process uses any more go with those of the others', async () => {
  const pool = database.pool({ max: 2 })
  const limit = parseLimit({ quota: 1, window: '1s', algorithm: 'fixed-window' })
  const gone = new PostgresStore(pool, { prefix: 'gone' })
  await gone.createTable()
  await gone.charge([{ key: 'k', limit, limiter: 'edge' }], 1, performance.now() + 10_000)
  const rows = new PostgresTable(postgresPort(pool, 'test'), 'spillway', false).take()
  const [first, end] = new RowKeys('another').sweptRange(undefined)
  const inTwoHours = Date.now() + 7_200_000
  await rows?.sweep([first, end], 500, { at: inTwoHours, forMs: 60_000 }, 5000)
  rows?.leave()
  const { rows: left } = await pool.query("SELECT FROM spillway WHERE key LIKE 'gone:%'")
  expect(left).toEqual([])
})

// A text that a database cannot store would fail all decisions of its turn.
test.each(['LATIN1', 'SQL_ASCII'])('a database in %s counts any key, and keys beside it', async encoding => {
  const name = `${database.name}_${encoding.toLowerCase()}`
  await database
    .pool({ max: 1 })
    .query(`CREATE DATABASE ${name} ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
  const pool = poolOf({ connectionString: database.url.replace(/[^/]*$/, name), max: 2 })
  try {
    const store = new PostgresStore(pool, { prefix: 'préfixe 😀' })
    await store.createTable()
    const limiter = new RateLimiter({ policy: '2/1h', store, name: 'limit 😀', deadline: '5s' })
    const keys = ['😀', 'é', 'plain', '\u0000', '\ud800', '😁']
    const decided = await Promise.all(keys.flatMap(key => [1, 2, 3].map(() => limiter.consume(key))))
    expect(decided.map(({ allowed, degraded }) => [allowed, degraded])).toEqual(
      keys.flatMap(() => [
        [true, false],
        [true, false],
        [false, false],
      ]),
    )
    await limiter.close()
  } finally {
    await pool.end()
    await database.pool({ max: 1 }).query(`DROP DATABASE ${name} WITH (FORCE)`)
  }
})

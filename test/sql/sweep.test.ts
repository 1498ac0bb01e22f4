import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { parseLimit } from '../../src/limiter/core/limit.js'
import { KeyRow, RowKeys } from '../../src/sql/key-row.js'
import { KnownRows } from '../../src/sql/known-rows.js'
import { postgresPort } from '../../src/sql/postgres-client.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { PostgresTable } from '../../src/sql/postgres-table.js'
import { RowSweeper } from '../../src/sql/sweeper.js'
import { ManualClock } from '../../src/testing.js'
import { START } from '../support/stories.js'
import { testPostgres } from '../support/test-postgres.js'

/** Rows are kept for so long after they have expired. */
const KEPT_LONGER_MS = 60_000

describe('the sweeper', () => {
  beforeEach(() => void jest.useFakeTimers())
  afterEach(() => void jest.useRealTimers())

  test('looks at a page every 5 s, and at twice as many rows as were added, only while rows are written', async () => {
    const looks: Array<[after: string, most: number]> = []
    let rows = Number.POSITIVE_INFINITY
    const sweeper = new RowSweeper('first', async (after, most) => {
      looks.push([after, most])
      rows -= most
      return rows < 0 ? undefined : `key ${looks.length}`
    })
    const later = async () => {
      looks.length = 0
      await jest.advanceTimersByTimeAsync(60_000)
      // Between two pages the event loop does what else there is.
      for (let i = 0; i < 5; i++) await turn()
      return [...looks]
    }
    expect(await later()).toEqual([])
    sweeper.wrote(1)
    sweeper.wrote(0)
    expect(await later()).toEqual([['first', 500]])
    sweeper.wrote(601)
    expect(await later()).toEqual([
      ['key 1', 500],
      ['key 1', 500],
      ['key 2', 202],
    ])
    rows = 0
    sweeper.wrote(600)
    expect(await later()).toEqual([['key 3', 500]])
    sweeper.wrote(0)
    expect(await later()).toEqual([['first', 500]])
    sweeper.wrote(1)
    sweeper.stop()
    expect(await later()).toEqual([])
  })

  test('goes on after a statement that failed', async () => {
    let looks = 0
    const sweeper = new RowSweeper('first', async () => {
      looks++
      throw new Error('the connection was lost')
    })
    for (let i = 1; i <= 2; i++) {
      sweeper.wrote(5000)
      await jest.advanceTimersByTimeAsync(5000)
      expect(looks).toBe(i)
    }
  })
})

describe('over PostgreSQL', () => {
  const database = testPostgres()

  test('pages of keys lose the rows that expired a minute ago, but for those that somebody holds', async () => {
    const pool = database.pool({ max: 2 })
    const clock = new ManualClock(START)
    const [store, neighbour] = ['swept', 'swept more'].map(prefix => new PostgresStore(pool, { clock, prefix }))
    await store.createTable()
    const spend = (of: PostgresStore, count: number, window: string) => {
      const limit = parseLimit({ quota: 1, window, algorithm: 'fixed-window' })
      const limiter = window
      return Promise.all(
        Array.from({ length: count }, (_, i) =>
          of.charge([{ key: `${i}`, limit, limiter }], 1, performance.now() + 10_000),
        ),
      )
    }
    await Promise.all([spend(store, 1200, '1m'), spend(store, 10, '1h'), spend(neighbour, 5, '1m')])
    const count = async () => (await pool.query('SELECT count(*)::int AS rows FROM spillway')).rows[0].rows
    expect(await count()).toBe(1215)
    const table = new PostgresTable(postgresPort(pool, 'test'), 'spillway', false)
    const [first, end] = new RowKeys('swept').sweptRange(clock)
    const walk = async () => {
      let after: string | undefined = first
      for (let pages = 1; ; pages++) {
        const at = clock.now() - KEPT_LONGER_MS
        const rows = table.take()!
        after = await rows.sweep([after, end], 500, { at, forMs: KEPT_LONGER_MS }, 5000)
        rows.leave()
        if (after === undefined) return pages
      }
    }
    clock.advance(60_000 + KEPT_LONGER_MS - 1)
    expect(await walk()).toBe(3)
    expect(await count()).toBe(1215)
    clock.advance(2)
    const holder = await pool.connect()
    await holder.query("BEGIN; SELECT FROM spillway WHERE key = 'swept:1m:7' FOR UPDATE")
    expect(await walk()).toBe(3)
    expect(await count()).toBe(10 + 5 + 1)
    await holder.query('COMMIT')
    holder.release()
    expect(await walk()).toBe(1)
    expect(await count()).toBe(10 + 5)
  })
})

describe('the rows that a process remembers', () => {
  const row = (letters: number) => KeyRow.decode('1', `2 0\n=9 fw1000 x\n${'s'.repeat(letters)}`)
  const remembered = (known: KnownRows) => [0, 1, 2, 3, 4].filter(i => known.get(`${i}`) !== KeyRow.none)

  test('are as many as the option says: the oldest go', () => {
    const known = new KnownRows(3)
    for (const i of [0, 1, 2, 3, 1, 4]) known.wrote(`${i}`, row(10))
    expect(remembered(known)).toEqual([2, 3, 4])
  })

  test('are fewer if they are long', () => {
    const known = new KnownRows(10_000)
    for (const i of [0, 1, 2]) known.wrote(`${i}`, row(3_000_000))
    expect(remembered(known)).toEqual([1, 2])
    for (const i of [3, 4]) known.wrote(`${i}`, row(10))
    expect(remembered(known)).toEqual([1, 2, 3, 4])
  })
})

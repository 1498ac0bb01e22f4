import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { afterAll, expect, test } from '@jest/globals'
import Database from 'better-sqlite3'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import { openSqlite } from '../../../src/sql/sqlite-database.js'
import { SqliteStore } from '../../../src/sql/sqlite-store.js'
import { RowSweeper } from '../../../src/sql/sweeper.js'
import { ManualClock } from '../../../src/testing.js'
import { expectForgetfulAgreement } from '../../support/sql/forgetful.js'
import { START } from '../../support/stories.js'
import { warnings } from '../../support/warnings.js'

const folder = mkdtempSync(join(tmpdir(), 'spillway-sqlite-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const warned = warnings()
// Always by the library of the store: two copies of SQLite in one process do not see each other's locks.
const [limit] = parsePolicy('10/1h')
const of = (key: string) => [{ key, limit }]
const left = async (store: SqliteStore, key: string) => (await store.peek(of(key), 0))[0].remaining

test(
  'processes that remember a few rows agree with one that forgets nothing',
  () => expectForgetfulAgreement(1000, options => new SqliteStore(join(folder, 'forgetful.db'), options)),
  60_000,
)

test('a row that another process has made longer counts, also where the memory for rows is full', async () => {
  const path = join(folder, 'long.db')
  const clock = new ManualClock(START)
  const [long] = parsePolicy('4000/1d')
  const [a, b] = [new SqliteStore(path, { clock }), new SqliteStore(path, { clock })]
  const charges = (key: string) => [{ key, limit: long }]
  const spend = async (times: number) => {
    for (let i = 0; i < times; i++) {
      clock.advance(1000)
      await b.consume(charges('k0'), 1)
    }
  }
  await spend(2000)
  const database = openSqlite(path, 'test')
  const { letters } = database.prepare('SELECT length(state) AS letters FROM spillway').get() as { letters: number }
  const rows = Math.floor(8_000_000 / letters)
  const copy = database.prepare(
    "INSERT INTO spillway SELECT replace(key, 'k0', ?), version || ?, expires_at, state FROM spillway WHERE key LIKE '%:k0'",
  )
  for (let k = 1; k < rows; k++) copy.run(`k${k}`, k)
  for (let k = 0; k < rows; k++) await a.peek(charges(`k${k}`), 0)
  await spend(1900)
  expect((await a.consume(charges('k0'), 1))[0].remaining).toBe(4000 - 3901)
  for (const one of [a, b]) await one.close()
  database.close()
}, 60_000)

test('any number of decisions may wait for a file that another process holds', async () => {
  const path = join(folder, 'held.db')
  const store = new SqliteStore(path)
  await store.consume(of('k'), 1)
  const holder = openSqlite(path, 'test')
  holder.exec('BEGIN IMMEDIATE')
  const many = Array.from({ length: 150_000 }, () => store.charge(of('many'), 1, performance.now() + 30_000))
  await sleep(50)
  holder.exec('COMMIT')
  await Promise.all(many)
  expect((await store.consume(of('many'), 1))[0].allowed).toBe(false)
  await store.close()
  holder.close()
}, 60_000)

test('a sweep of many pages gives the event loop back between two of them', async () => {
  let [pages, turns] = [0, 0]
  const sweeper = new RowSweeper('', async () => (++pages < 50 ? `${pages}` : undefined))
  let isOver = false
  const walked = sweeper.walk(50 * 500).then(() => {
    isOver = true
  })
  while (!isOver) {
    await turn()
    turns++
  }
  await walked
  expect(pages).toBe(50)
  expect(turns).toBeGreaterThanOrEqual(49)
  sweeper.stop()
})

test('a log that has grown behind a reader is cut when the reader has gone', async () => {
  const path = join(folder, 'log.db')
  const store = new SqliteStore(path)
  const write = async (times: number) => {
    for (let i = 0; i < times; i++)
      await Promise.all(Array.from({ length: 400 }, (_, k) => store.charge(of(`${k}`), 1)))
  }
  await write(1)
  const reader = openSqlite(path, 'test')
  reader.exec('BEGIN')
  reader.prepare('SELECT count(*) FROM spillway').get()
  await write(130)
  const size = () => statSync(`${path}-wal`).size
  expect(size()).toBeGreaterThan(6_000_000)
  reader.close()
  await write(40)
  expect(size()).toBeLessThanOrEqual(5_000_000)
  await store.close()
}, 60_000)

test('a service that iterates over its own rows delays a decision, and fails none', async () => {
  const database = new Database(join(folder, 'iterates.db'))
  database.exec('PRAGMA journal_mode = WAL; CREATE TABLE items (id INTEGER); INSERT INTO items VALUES (1), (2)')
  const store = new SqliteStore(database)
  const rows = database.prepare('SELECT id FROM items').iterate()
  rows.next()
  const asked = store.consume(of('k'), 1)
  await sleep(50)
  rows.return?.()
  expect((await asked)[0].remaining).toBe(9)
  database.close()
})

test('a table that is made while the service is in a transaction of its own outlives its rollback', async () => {
  const database = new Database(join(folder, 'rolled-back.db'))
  database.exec('PRAGMA journal_mode = WAL; BEGIN')
  const store = new SqliteStore(database)
  const asked = store.consume(of('k'), 1)
  await sleep(30)
  database.exec('ROLLBACK')
  expect((await asked)[0].remaining).toBe(9)
  expect(await left(store, 'k')).toBe(9)
  database.close()
})

test('a file that is deleted or replaced is noticed: all processes count in the one that is there', async () => {
  const path = join(folder, 'deleted.db')
  const other = join(folder, 'other.db')
  const store = new SqliteStore(path)
  await store.consume(of('k'), 4)
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
  const later = new SqliteStore(path)
  await later.consume(of('k'), 1)
  await sleep(1100)
  await store.consume(of('k'), 1)
  expect([await left(store, 'k'), await left(later, 'k')]).toEqual([8, 8])
  const replacing = new SqliteStore(other)
  await replacing.consume(of('k'), 7)
  await replacing.close()
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
  copyFileSync(other, path)
  await sleep(1100)
  expect([await left(store, 'k'), await left(later, 'k')]).toEqual([3, 3])
  await Promise.all([store.close(), later.close()])
})

test('one warning for a given database that waits for the disk with each decision', async () => {
  const open = (name: string, pragmas: string) => {
    const database = new Database(join(folder, name))
    database.exec(pragmas)
    return database
  }
  const slow = open('slow.db', 'PRAGMA synchronous = FULL')
  const quick = open('quick.db', 'PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
  for (const database of [slow, slow, quick, openSqlite(':memory:', 'test')]) {
    await new SqliteStore(database).consume(of('k'), 1)
  }
  expect(warned.textsOf('SPILLWAY_SQLITE')).toEqual([
    expect.stringMatching(/journal_mode delete.*PRAGMA journal_mode = WAL/),
  ])
  slow.close()
  quick.close()
})

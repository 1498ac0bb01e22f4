import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import Database from 'better-sqlite3'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import { openSqlite, type SqliteDatabase } from '../../../src/sql/sqlite-database.js'
import { SqliteStore, type SqliteStoreOptions } from '../../../src/sql/sqlite-store.js'

const folder = mkdtempSync(join(tmpdir(), 'spillway-sqlite-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const [limit] = parsePolicy('10/1h')
type Open = new (path: string, options: { returnArrays: boolean }) => SqliteDatabase
const ask = (store: SqliteStore, key: string) => store.consume([{ key, limit }], 1)

test.each([
  ['node:sqlite', (path: string) => openSqlite(path, 'test')],
  ['better-sqlite3', (path: string) => new Database(path)],
])('a full disk fails decisions, says so, and loses nothing: %s', async (library, open) => {
  const database = open(join(folder, `full of ${library}.db`))
  const store = new SqliteStore(database)
  await ask(store, 'first')
  const { page_count } = database.prepare('PRAGMA page_count').get() as { page_count: number }
  database.exec(`PRAGMA max_page_count = ${page_count + 1}`)
  const asked = await Promise.allSettled(Array.from({ length: 300 }, (_, i) => ask(store, `key ${i}`)))
  expect(asked.every(({ status }) => status === 'rejected')).toBe(true)
  await expect(Promise.all(Array.from({ length: 300 }, (_, i) => ask(store, `key ${i}`)))).rejects.toThrow(
    /^SQLite failed: database or disk is full: make room on its disk$/,
  )
  expect((await ask(store, 'first'))[0].remaining).toBe(8)
  database.exec('PRAGMA max_page_count = 10000')
  const after = await Promise.all(Array.from({ length: 300 }, (_, i) => ask(store, `key ${i}`)))
  expect(after.every(([{ remaining }]) => remaining === 9)).toBe(true)
  await store.close()
})

test('a file that is no database, a folder that is not there, and one that nobody may write', async () => {
  const text = join(folder, 'text.db')
  writeFileSync(text, 'not a database, and longer than a header of one would be: '.repeat(100))
  await expect(ask(new SqliteStore(text), 'k')).rejects.toThrow(
    /is not a database: expected the path of a database of SQLite$/,
  )
  expect(() => new SqliteStore(join(folder, 'none', 'limits.db'))).toThrow(/expected a file in a folder that exists$/)
  const path = join(folder, 'read-only.db')
  await ask(new SqliteStore(path), 'k')
  chmodSync(path, 0o444)
  await expect(ask(new SqliteStore(new Database(path, { readonly: true })), 'k')).rejects.toThrow(
    /readonly database: the file can only be read: expected one that this process may write/,
  )
})

test('a table that was dropped is made again, and a store that was closed says so', async () => {
  const database = openSqlite(join(folder, 'dropped.db'), 'test')
  const store = new SqliteStore(database, { table: 'Limits' })
  await ask(store, 'k')
  database.exec('DROP TABLE "Limits"')
  await ask(store, 'k').catch(() => {})
  expect((await ask(store, 'k'))[0].remaining).toBeGreaterThanOrEqual(8)
  await store.close()
  await store.close()
  await expect(ask(store, 'k')).rejects.toThrow('SqliteStore: it was closed')
  expect(database.prepare('SELECT 1 AS one').get()).toMatchObject({ one: 1 })
})

test('a database whose rows are lists fails decisions, and says what was expected', async () => {
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as unknown as { DatabaseSync: Open }
  const database = new DatabaseSync(join(folder, 'lists.db'), { returnArrays: true })
  database.exec('PRAGMA busy_timeout = 70')
  const store = new SqliteStore(database)
  await expect(ask(store, 'k')).rejects.toThrow(
    'SqliteStore: its database answered an array of 1: expected rows that are objects with the names of the columns',
  )
  expect(database.prepare('PRAGMA busy_timeout').get()).toEqual([70])
  await store.close()
})

test('options that mean nothing', () => {
  const build = (options: object) => () => new SqliteStore(join(folder, 'options.db'), options as SqliteStoreOptions)
  expect(build({ busy: '5' })).toThrow('SqliteStore: busy')
  expect(build({ busy: -1 })).toThrow('SqliteStore: busy')
  expect(build({ prepare: true })).toThrow('SqliteStore: unknown option "prepare"')
  expect(build({ table: '' })).toThrow('SqliteStore: table ""')
  expect(build({ maxBatch: 0 })).toThrow('SqliteStore: maxBatch 0')
  for (const database of ['', undefined, null, {}, 5]) {
    expect(() => new SqliteStore(database as string)).toThrow('expected a path, like "limits.db"')
  }
})

import { afterIo, type Clock, systemClock } from '../limiter/core/clock.js'
import { type Duration, parseDurationOrZero } from '../limiter/core/duration.js'
import { PolicyError, StoreError, shown } from '../limiter/core/errors.js'
import { getOrMake } from '../limiter/core/maps.js'
import type { OptionNames } from '../limiter/core/options.js'
import { ClockSteps } from '../limiter/store.js'
import { type Change, type ChangeRunner, takeChanges } from './changes.js'
import { KEPT_LONGER_MS, type KeyRow, NO_VERSION, quoted, RowDraft, RowKeys, Versions } from './key-row.js'
import { KnownRows } from './known-rows.js'
import { parseSqlOptions, SQL_OPTIONS, SqlStore, type SqlStoreOptions, type SqlStoreSettings } from './sql-store.js'
import {
  isBusy,
  isSqliteDatabase,
  openSqlite,
  type SqliteDatabase,
  type SqliteStatement,
  sqliteError,
} from './sqlite-database.js'
import { RowSweeper } from './sweeper.js'

/** Options of a `SqliteStore`. */
export interface SqliteStoreOptions extends SqlStoreOptions {
  /**
   * Default '5ms'. For so long a call waits for another process, and with it everything else in this one; then it tries
   * again by a timer, until the decision's deadline.
   */
  busy?: Duration
}

const OPTIONS: OptionNames<SqliteStoreOptions> = { ...SQL_OPTIONS, busy: true }

/**
 * State in a file of SQLite, shared by all processes of one machine that open it: exact, without a server. The system's
 * clock counts, read while the file is locked. It creates its own table. Each turn of the event loop is one
 * transaction, in one synchronous call.
 */
export class SqliteStore extends SqlStore {
  readonly #transactions: Transactions
  readonly #sweeper: RowSweeper

  /**
   * `database`: a path, a DatabaseSync of node:sqlite, or a Database of better-sqlite3 or bun:sqlite. A path needs
   * node:sqlite (Node 22.13 or later, Deno), bun:sqlite or better-sqlite3, else `PolicyError`; the store then sets WAL
   * mode. A database that is given stays as it is set up, and open: in WAL mode with synchronous = NORMAL decisions
   * take a tenth of the time.
   */
  constructor(database: string | object, options: SqliteStoreOptions = {}) {
    const settings = parseSqlOptions('SqliteStore', options, OPTIONS)
    const busyMs = parseDurationOrZero(options.busy ?? '5ms', 'SqliteStore: busy')
    const isPath = typeof database === 'string' && database !== ''
    if (!isPath && !isSqliteDatabase(database)) {
      throw new PolicyError(
        `SqliteStore: given ${shown(database)}, expected a path, like "limits.db", a DatabaseSync of ` +
          'node:sqlite, or a Database of better-sqlite3',
      )
    }
    const opened = isPath ? openSqlite(database, 'SqliteStore') : undefined
    const client = opened ?? (database as SqliteDatabase)
    const server = isPath ? `SQLite at ${database}` : 'SQLite'
    const keys = new RowKeys(settings.prefix)
    const steps = new ClockSteps()
    const sweeper = new RowSweeper(keys.range[0], async (after, most) => transactions.sweep(after, keys.range[1], most))
    const wrote = (added: number) => sweeper.wrote(added)
    const transactions = new Transactions({
      ...settings,
      database: client,
      server,
      busyMs,
      isOwn: isPath,
      steps,
      wrote,
    })
    // The file is here: nothing has to be connected.
    super({ ...settings, source: 'sqlite', client, keys, runner: transactions, steps, connectDeadlineMs: 0, server })
    this.#transactions = transactions
    this.#sweeper = sweeper
  }

  /** Stops its timers, and closes a database that it opened itself. */
  async close(): Promise<void> {
    this.#sweeper.stop()
    this.#transactions.close()
  }

  /** As `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

interface TransactionOptions extends SqlStoreSettings {
  readonly database: SqliteDatabase
  /** For messages. */
  readonly server: string
  readonly busyMs: number
  /** Whether the store opened the database, and may set it up. */
  readonly isOwn: boolean
  readonly steps: ClockSteps
  /** Rows were written, so many of them for the first time. */
  readonly wrote: (added: number) => void
}

interface CarriedOut {
  /** The moment of the changes. */
  readonly nowMs: number
  /** Those that could not be applied. */
  readonly failed: ReadonlyMap<Change, unknown>
}

/** A row as the table has it. */
interface TableRow {
  readonly version: string
  readonly state: string
}

/** After a busy call it tries again within twice this time, ms. */
const AGAIN_MS = 3

/**
 * Carries out changes over SQLite: all that one turn of the event loop asked for in one transaction, which locks the
 * file first.
 */
class Transactions implements ChangeRunner {
  readonly isFirst = false
  readonly #options: TransactionOptions
  readonly #database: SqliteDatabase
  readonly #clock: Clock
  readonly #known: KnownRows
  readonly #versions = new Versions()
  #statements: ReturnType<typeof statementsOf> | undefined
  /** Asks how long the database waits for others. */
  #patience: SqliteStatement | undefined
  #waiting: Change[] = []
  #isScheduled = false
  #isClosed = false

  constructor(options: TransactionOptions) {
    this.#options = options
    this.#database = options.database
    this.#clock = options.clock ?? systemClock
    this.#known = new KnownRows(options.remember)
  }

  run(change: Change): void {
    this.#waiting.push(change)
    if (this.#isScheduled) return
    this.#isScheduled = true
    afterIo(this.#start)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    if (this.#options.isOwn) this.#database.close()
  }

  /**
   * Removes expired rows among the next `most` after a key, and gives the last key that it looked at; undefined at the
   * end.
   */
  sweep(after: string, to: string, most: number): string | undefined {
    return this.#briefly(() => {
      const { page, remove } = this.#ready()
      const { last, rows } = page.get(after, to, most) as { last: string | null; rows: number }
      if (last !== null) remove.run(after, last, Math.floor(this.#clock.now()) - KEPT_LONGER_MS)
      return last === null || rows < most ? undefined : last
    })
  }

  readonly #start = () => {
    this.#isScheduled = false
    const now = performance.now()
    const late = this.#waiting.filter(({ endsAt }) => endsAt < now)
    if (late.length > 0) this.#waiting = this.#waiting.filter(({ endsAt }) => endsAt >= now)
    const changes = takeChanges(this.#waiting, this.#options.maxBatch)
    if (this.#waiting.length > 0) this.#again(0)
    if (changes.length > 0) this.#carryOut(changes)
    for (const change of late)
      change.reject(new StoreError(`${this.#options.server} was locked by others for too long`))
  }

  #again(afterMs: number): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    if (afterMs === 0) afterIo(this.#start)
    else setTimeout(this.#start, afterMs)
  }

  #carryOut(changes: readonly Change[]): void {
    let carriedOut: CarriedOut
    try {
      carriedOut = this.#briefly(() => this.#transact(changes))
    } catch (error) {
      if (isBusy(error)) {
        this.#waiting.unshift(...changes)
        // At random, so that processes that met once do not meet again.
        this.#again(1 + Math.random() * 2 * AGAIN_MS)
        return
      }
      // Perhaps somebody removed the table: it is made again.
      this.#statements = undefined
      for (const change of changes) change.reject(sqliteError(error, this.#options.server))
      return
    }
    const { nowMs, failed } = carriedOut
    for (const change of changes) {
      if (failed.has(change)) change.reject(failed.get(change))
      else change.done(nowMs)
    }
  }

  #transact(changes: readonly Change[]): CarriedOut {
    const { read, write } = this.#ready()
    this.#database.exec('BEGIN IMMEDIATE')
    try {
      // Read while the file is locked: later than every earlier write.
      const nowMs = Math.floor(this.#clock.now())
      this.#options.steps.note(nowMs)
      const rows = new Map<string, TableRow>()
      const drafts = new Map<string, RowDraft>()
      const failed = new Map<Change, unknown>()
      const draftOf = (key: string) =>
        getOrMake(drafts, key, () => {
          const { version, state } = rows.get(key)!
          this.#known.read(key, version, state)
          return new RowDraft(key, this.#known.get(key))
        })
      for (const change of changes) {
        for (const key of change.keys)
          getOrMake(rows, key, () => (read.get(key) as TableRow | undefined | null) ?? NO_ROW)
        try {
          change.apply(change.keys.map(draftOf), nowMs)
        } catch (error) {
          failed.set(change, error)
        }
      }
      const version = this.#versions.next()
      const written: Array<readonly [key: string, row: KeyRow]> = []
      let added = 0
      for (const draft of drafts.values()) {
        if (!draft.isDirty) continue
        const { row, text, until } = draft.written(version, nowMs)
        write.run(draft.key, version, until, text)
        written.push([draft.key, row])
        if (draft.base.version === NO_VERSION) added++
      }
      this.#database.exec('COMMIT')
      for (const [key, row] of written) this.#known.wrote(key, row)
      if (written.length > 0) this.#options.wrote(added)
      return { nowMs, failed }
    } catch (error) {
      this.#rollBack()
      throw error
    }
  }

  #rollBack(): void {
    try {
      this.#database.exec('ROLLBACK')
    } catch {
      // After some errors SQLite has done it.
    }
  }

  /**
   * Waits for others only as long as the options say. A database that others of this process use too keeps its own
   * patience.
   */
  #briefly<T>(work: () => T): T {
    if (this.#isClosed) throw new StoreError('SqliteStore: it was closed')
    const { isOwn, busyMs } = this.#options
    if (isOwn && this.#statements !== undefined) return work()
    this.#patience ??= this.#database.prepare('PRAGMA busy_timeout')
    const { timeout } = this.#patience.get() as { timeout: number }
    this.#database.exec(`PRAGMA busy_timeout = ${busyMs}`)
    try {
      return work()
    } finally {
      if (!isOwn) this.#database.exec(`PRAGMA busy_timeout = ${timeout}`)
    }
  }

  /** The statements; with the first call the table is made. */
  #ready(): ReturnType<typeof statementsOf> {
    if (this.#statements !== undefined) return this.#statements
    const { table, isOwn } = this.#options
    if (isOwn) this.#database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
    // Its rows stand in the order in which they came, not of their keys: those that are busy now lie together, and a
    // transaction writes few pages.
    this.#database.exec(
      `CREATE TABLE IF NOT EXISTS ${quoted(table)} (key TEXT PRIMARY KEY, version TEXT NOT NULL, expires_at ` +
        'INTEGER NOT NULL, state TEXT NOT NULL)',
    )
    this.#statements = statementsOf(this.#database, quoted(table))
    return this.#statements
  }
}

const NO_ROW: TableRow = { version: NO_VERSION, state: '' }

function statementsOf(database: SqliteDatabase, table: string) {
  return {
    read: database.prepare(`SELECT version, state FROM ${table} WHERE key = ?`),
    write: database.prepare(
      `INSERT INTO ${table} (key, version, expires_at, state) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE ` +
        'SET version = excluded.version, expires_at = excluded.expires_at, state = excluded.state',
    ),
    page: database.prepare(
      `SELECT max(key) AS last, count(*) AS rows FROM (SELECT key FROM ${table} WHERE key > ? AND key < ? ` +
        'ORDER BY key LIMIT ?)',
    ),
    remove: database.prepare(`DELETE FROM ${table} WHERE key > ? AND key <= ? AND expires_at < ?`),
  }
}

export type { SqlStoreOptions } from './sql-store.js'

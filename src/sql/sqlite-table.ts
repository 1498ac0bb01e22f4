import { StoreError, shown } from '../limiter/core/errors.js'
import { emitWarning } from '../limiter/core/warnings.js'
import { quoted } from './key-row.js'
import { isLocked, type SqliteDatabase, type SqliteStatement } from './sqlite-database.js'

interface TableOptions {
  readonly database: SqliteDatabase
  readonly table: string
  readonly server: string
  readonly busyMs: number
  /** The file of a database that the store opened itself, and may set up; undefined: it was given. */
  readonly file: { readonly path: string; readonly open: () => SqliteDatabase } | undefined
}

/** A log that has grown behind a reader is cut to this size, bytes. */
const LOG_BYTES = 4 * 1024 * 1024
/** How often it is looked whether the file is still in its place, ms. */
const LOOK_EVERY_MS = 1000
/** A process that writes locks the file for some 50 µs: after each such time it is tried again, ms. */
const PAUSE_MS = 0.05

/** Databases of whose settings a warning was given. */
const WARNED = new WeakSet<object>()

/** The table in SQLite: its statements, and the lock of its file. */
export class SqliteTable {
  readonly #options: TableOptions
  #database: SqliteDatabase
  #statements: ReturnType<typeof statementsOf> | undefined
  /** Asks how long the database waits for others. */
  #patience: SqliteStatement | undefined
  #pause: Int32Array | undefined
  /** In this mode nothing but the beginning of a transaction waits for others. */
  #isWal = false
  /** Which file it is, and when that was looked at. */
  #identity: string | undefined
  #lookedAt = Number.NEGATIVE_INFINITY

  constructor(options: TableOptions) {
    this.#options = options
    this.#database = options.database
  }

  /** With the first call the table is made. */
  get statements(): ReturnType<typeof statementsOf> {
    if (this.#statements === undefined) {
      const { table, file } = this.#options
      if (file !== undefined) {
        const pragmas = `journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = ${LOG_BYTES}`
        this.#database.exec(`PRAGMA ${pragmas}`)
      }
      this.#lookAtSettings()
      this.#create(quoted(table))
      this.#statements = statementsOf(this.#database, quoted(table))
    }
    return this.#statements
  }

  /** The statements are made anew. */
  forget(): void {
    this.#statements = undefined
  }

  /**
   * Works on the table, and waits for others only as long as the options say. A database that others of this process
   * use too keeps its own patience.
   */
  use<T>(work: (statements: ReturnType<typeof statementsOf>) => T): T {
    const { file, busyMs } = this.#options
    if (file !== undefined) {
      this.#lookAtFile(file)
      if (this.#statements === undefined) this.#database.exec(`PRAGMA busy_timeout = ${busyMs}`)
      return work(this.statements)
    }
    this.#patience ??= this.#database.prepare('PRAGMA busy_timeout')
    const timeout = timeoutIn(this.#patience.get())
    this.#database.exec(`PRAGMA busy_timeout = ${this.#isWal ? 0 : busyMs}`)
    try {
      return work(this.statements)
    } finally {
      this.#database.exec(`PRAGMA busy_timeout = ${timeout}`)
    }
  }

  /** Works in a transaction of its own. */
  transact<T>(work: () => T): T {
    this.#begin()
    try {
      const done = work()
      this.#database.exec('COMMIT')
      return done
    } catch (error) {
      this.#rollBack()
      throw error
    }
  }

  /** Locks the file. SQLite itself would look again after a ms, and then ever later. */
  #begin(): void {
    let giveUpAt: number | undefined
    for (;;) {
      try {
        this.#database.exec('BEGIN IMMEDIATE')
        return
      } catch (error) {
        const now = performance.now()
        giveUpAt ??= now + (this.#isWal ? this.#options.busyMs : 0)
        if (!isLocked(error) || now >= giveUpAt) throw error
      }
      this.#pause ??= new Int32Array(new SharedArrayBuffer(4))
      Atomics.wait(this.#pause, 0, 0, PAUSE_MS)
    }
  }

  #rollBack(): void {
    try {
      this.#database.exec('ROLLBACK')
    } catch {
      // After some errors SQLite has done it; and the transaction may not have begun.
    }
  }

  close(): void {
    if (this.#options.file !== undefined) this.#database.close()
  }

  /** In a transaction of its own: while the service is within one of its own, this one cannot begin. */
  #create(table: string): void {
    this.transact(() =>
      // Its rows stand in the order in which they came, not of their keys: those that are busy now lie together, and a
      // transaction writes few pages.
      this.#database.exec(
        `CREATE TABLE IF NOT EXISTS ${table} (key TEXT PRIMARY KEY, version TEXT NOT NULL, expires_at ` +
          'INTEGER NOT NULL, state TEXT NOT NULL)',
      ),
    )
  }

  #lookAtSettings(): void {
    const mode = this.#pragma('journal_mode')
    this.#isWal = mode === 'wal'
    const { file } = this.#options
    if (file !== undefined) {
      if (this.#isWal) this.#database.exec('PRAGMA busy_timeout = 0')
      return
    }
    const isSlow = !['wal', 'memory', 'off'].includes(String(mode)) && Number(this.#pragma('synchronous')) > 1
    if (!isSlow || WARNED.has(this.#database)) return
    WARNED.add(this.#database)
    emitWarning(
      'SPILLWAY_SQLITE',
      `SqliteStore: its database has journal_mode ${mode} and synchronous FULL, and so waits for the disk with each ` +
        'decision: call PRAGMA journal_mode = WAL and PRAGMA synchronous = NORMAL on it',
    )
  }

  #pragma(name: string): unknown {
    return Object.values((this.#database.prepare(`PRAGMA ${name}`).get() ?? {}) as object)[0]
  }

  /** A file that was deleted or replaced is no longer that of the other processes: opens the one in its place. */
  #lookAtFile({ path, open }: NonNullable<TableOptions['file']>): void {
    const now = performance.now()
    if (now - this.#lookedAt < LOOK_EVERY_MS) return
    this.#lookedAt = now
    const identity = identityOf(path)
    if (this.#identity !== undefined && identity !== this.#identity) {
      this.#database.close()
      this.#statements = undefined
      this.#database = open()
      this.#identity = identityOf(path)
    } else this.#identity ??= identity
  }
}

/** Throws `StoreError` for a row that is no object with the names of the columns: the state could not be read either. */
function timeoutIn(row: unknown): unknown {
  const { timeout } = (row ?? {}) as { timeout?: unknown }
  if (timeout !== undefined) return timeout
  throw new StoreError(
    `SqliteStore: its database answered ${shown(row)}: expected rows that are objects with the names of the columns, ` +
      'like new DatabaseSync(path), without returnArrays',
  )
}

/** Undefined: it is not a file. */
function identityOf(path: string): string | undefined {
  const stat = globalThis.process
    ?.getBuiltinModule?.('node:fs')
    ?.statSync(path, { throwIfNoEntry: false, bigint: true })
  return stat && `${stat.dev}:${stat.ino}`
}

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

import { asyncDispose } from '../limiter/core/async-dispose.js'
import { type Duration, parseDurationOrZero } from '../limiter/core/duration.js'
import { PolicyError, shown } from '../limiter/core/errors.js'
import type { OptionNames } from '../limiter/core/options.js'
import { ClockSteps } from '../limiter/store.js'
import { RowKeys } from './key-row.js'
import { parseSqlOptions, SQL_OPTIONS, SqlStore, type SqlStoreOptions } from './sql-store.js'
import { isSqliteDatabase, openSqlite, type SqliteDatabase } from './sqlite-database.js'
import { Transactions } from './sqlite-transactions.js'
import { RowSweeper } from './sweeper.js'

/** Options of a `SqliteStore`. */
export interface SqliteStoreOptions extends SqlStoreOptions {
  /**
   * Default '5ms'. For so long a call waits for another process that writes, and with it everything else in this one;
   * then it tries again by a timer, until the decision's deadline. 0: by the timer alone.
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
    const open = isPath ? () => openSqlite(database, 'SqliteStore') : undefined
    const client = open?.() ?? (database as SqliteDatabase)
    const server = isPath ? `SQLite at ${database}` : 'SQLite'
    const keys = new RowKeys(settings.prefix)
    const steps = new ClockSteps()
    const [first, end] = keys.sweptRange(settings.clock)
    const sweeper = new RowSweeper(first, async (after, most) => transactions.sweep(after, end, most))
    const wrote = (added: number) => sweeper.wrote(added)
    const transactions = new Transactions({
      ...settings,
      database: client,
      server,
      busyMs,
      file: open && { path: database as string, open },
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
  [asyncDispose](): Promise<void> {
    return this.close()
  }
}

export type { SqlStoreOptions } from './sql-store.js'

import { asyncDispose } from '../limiter/core/async-dispose.js'
import { type Duration, parseDurationOrZero } from '../limiter/core/duration.js'
import { PolicyError, StoreError, shown } from '../limiter/core/errors.js'
import { checkFlag, checkOptions, type OptionNames } from '../limiter/core/options.js'
import { ClockSteps } from '../limiter/store.js'
import { Flights } from './flights.js'
import { KEPT_LONGER_MS, quoted, RowKeys } from './key-row.js'
import { postgresPort } from './postgres-client.js'
import type { PostgresPort } from './postgres-port.js'
import { formatComment, type PostgresRows, PostgresTable, postgresSchema } from './postgres-table.js'
import { checkTable, parseSqlOptions, SQL_OPTIONS, SqlStore, type SqlStoreOptions } from './sql-store.js'
import { RowSweeper } from './sweeper.js'

/** Options of a `PostgresStore`. */
export interface PostgresStoreOptions extends SqlStoreOptions {
  /**
   * Default '1s'. Until the database has answered this process for the first time, decisions wait for it until this
   * long after the first of them was asked, or their own deadline if that ends later: so a process that has just
   * started counts where the others do. 0: the deadline from the start.
   */
  connectDeadline?: Duration
  /**
   * Default 'auto': named statements until the server (PgBouncer in transaction mode) says that it does not know one;
   * then unnamed for good.
   */
  prepare?: boolean | 'auto'
}

/** What `createTable` and `schema` make. */
export interface PostgresTableOptions {
  /**
   * Default false: quicker, and the table is empty after a crash of the server. true: it survives, for more disk
   * writes.
   */
  logged?: boolean
}

const OPTIONS: OptionNames<PostgresStoreOptions> = { ...SQL_OPTIONS, connectDeadline: true, prepare: true }
/** A statement that makes a table may wait for others that do. */
const SCHEMA_MS = 10_000
const SWEEP_MS = 5000

/**
 * State in a table of PostgreSQL 13 or later, shared by all processes with the same table, prefix and limiter name.
 * Exact: the server's clock counts, however many processes decide. No lock is held while the database waits for this
 * process. Works behind PgBouncer in transaction mode.
 *
 * A decision never creates the table: see `createTable` and `schema`.
 */
export class PostgresStore extends SqlStore {
  readonly #table: PostgresTable
  readonly #sweeper: RowSweeper

  /**
   * `client`: a Pool of pg 8, the function of postgres 3, or a `SqlClient`; the store never closes it. One connection
   * for each process is enough: give the store a small pool of its own, because a pool that is exhausted is an outage.
   * Throws `PolicyError`.
   */
  constructor(client: object, options: PostgresStoreOptions = {}) {
    const settings = parseSqlOptions('PostgresStore', options, OPTIONS)
    const { connectDeadline = '1s', prepare = 'auto' } = options
    if (prepare !== 'auto' && typeof prepare !== 'boolean') {
      throw new PolicyError(`PostgresStore: prepare ${shown(prepare)}: expected true, false or "auto"`)
    }
    const connectDeadlineMs = parseDurationOrZero(connectDeadline, 'PostgresStore: connectDeadline')
    const port: PostgresPort = postgresPort(client, 'PostgresStore')
    const table = new PostgresTable(port, settings.table, prepare)
    const keys = new RowKeys(settings.prefix)
    const steps = new ClockSteps()
    const { clock } = settings
    const [first, end] = keys.sweptRange(clock)
    const sweeper = new RowSweeper(first, async (after, most) => {
      const at = clock && clock.now() - KEPT_LONGER_MS
      const rows = table.take()
      if (rows === undefined) throw new StoreError('two statements wait for the database already')
      try {
        return await rows.sweep([after, end], most, { at, forMs: KEPT_LONGER_MS }, SWEEP_MS)
      } finally {
        rows.leave()
      }
    })
    const runner = new Flights({ ...settings, table, steps, wrote: added => sweeper.wrote(added) })
    super({ ...settings, source: 'postgres', client, keys, runner, steps, connectDeadlineMs, server: port.server })
    this.#table = table
    this.#sweeper = sweeper
  }

  /**
   * Creates the table if it is missing; safe to call in every process at once. Rejects with `StoreError`, also if the
   * table is of another format. Needs the right to create tables; in larger services let a migration do it: see
   * `schema`.
   */
  async createTable(options: PostgresTableOptions = {}): Promise<void> {
    const logged = parseLogged('PostgresStore.createTable', options)
    const rows = this.#table.take()
    if (rows === undefined) throw new StoreError('PostgresStore: two statements wait for the database already')
    try {
      await this.#create(rows, logged)
    } finally {
      rows.leave()
    }
  }

  async #create(rows: PostgresRows, logged: boolean): Promise<void> {
    const endsAt = performance.now() + SCHEMA_MS
    const run = (text: string, values: string[] = []) => rows.run(text, values, Math.max(1, endsAt - performance.now()))
    const find =
      "SELECT relpersistence, obj_description(oid, 'pg_class') AS comment FROM pg_class WHERE oid = to_regclass($1)"
    const look = async () => (await run(find, [quoted(this.table)]))[0]
    const found = await look()
    if (found !== undefined) {
      checkFormat(this.table, found.comment)
      if (logged && found.relpersistence === 'u') {
        throw new StoreError(
          `PostgresStore: the table ${this.table} is unlogged, and empty after a crash of the server: expected ` +
            `ALTER TABLE ${quoted(this.table)} SET LOGGED, or createTable() without { logged: true }`,
        )
      }
      if (found.comment === formatComment) return
    }
    // One statement, so that nobody sees a table that is half made.
    const statements = postgresSchema(this.table, logged).join(';\n')
    try {
      await run(`DO $do$ BEGIN\n${statements};\nEND $do$`)
    } catch (error) {
      // Other processes that create it at the same time make this one fail in several ways.
      if ((await look())?.comment !== formatComment) throw error
    }
  }

  /**
   * The statements of `createTable`, for a migration tool: `await client.query(PostgresStore.schema({ table: 'limits'
   * }))`. Throws `PolicyError`.
   */
  static schema(options: { table?: string } & PostgresTableOptions = {}): string {
    checkOptions('PostgresStore.schema', options, { table: true, logged: true }, '{ table: "limits" }')
    const { table = 'spillway', ...more } = options
    const logged = parseLogged('PostgresStore.schema', more)
    return `${postgresSchema(checkTable('PostgresStore.schema', table), logged).join(';\n')};\n`
  }

  /** Stops its timers; the client stays open. */
  async close(): Promise<void> {
    this.#sweeper.stop()
  }

  /** As `close`, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close()
  }
}

function checkFormat(table: string, comment: unknown): void {
  if (comment === formatComment || typeof comment !== 'string' || !comment.startsWith('spillway format')) return
  throw new StoreError(
    `PostgresStore: the table ${table} is of ${shown(comment)}, this version of spillway writes ` +
      `${shown(formatComment)}: expected another table, or the same version in all processes`,
  )
}

function parseLogged(owner: string, options: PostgresTableOptions): boolean {
  checkOptions(owner, options, { logged: true }, '{ logged: true }')
  const { logged = false } = options
  checkFlag(logged, `${owner}: logged`)
  return logged
}

export type { SqlClient } from './postgres-client.js'
export type { SqlStoreOptions } from './sql-store.js'

import type { Clock } from '../limiter/core/clock.js'
import { PolicyError, shown } from '../limiter/core/errors.js'
import {
  checkClock,
  checkInteger,
  checkOptions,
  checkText,
  type ForeignNames,
  type OptionNames,
} from '../limiter/core/options.js'
import { SharedStore } from '../limiter/shared-store.js'
import { SqlCounts, type SqlParts } from './sql-counts.js'

/** Options of the stores over SQL. */
export interface SqlStoreOptions {
  /**
   * Default 'spillway'. The table; in PostgreSQL it may be qualified, 'limits.spillway'. Letters, digits, _ and one
   * dot, else `PolicyError`.
   */
  table?: string
  /** Default 'spillway': separates services that share the table. */
  prefix?: string
  /** Default 400: the most rows of one statement; integer ≥ 1. */
  maxBatch?: number
  /**
   * Default 10 000: of so many keys the process remembers the state that it wrote last; integer ≥ 1. Of long states
   * fewer, so that memory is bounded.
   */
  remember?: number
  /** Default: the database's clock. Pass a clock only in tests and simulations. */
  clock?: Clock
}

/** The options, checked and with their defaults. */
export interface SqlStoreSettings {
  readonly table: string
  readonly prefix: string
  readonly maxBatch: number
  readonly remember: number
  readonly clock: Clock | undefined
}

export const SQL_OPTIONS: OptionNames<SqlStoreOptions> = {
  table: true,
  prefix: true,
  maxBatch: true,
  remember: true,
  clock: true,
}

/** Options of other stores. */
const FOREIGN: ForeignNames = [
  ['table', 'a hot key belongs in Redis, which leases its units: new RedisStore(client, { leases: true })', 'leases'],
]

/** Throws `PolicyError` for options that mean nothing. `names`: all options of the store. */
export function parseSqlOptions<Options extends SqlStoreOptions>(
  owner: string,
  options: Options,
  names: OptionNames<Options>,
): SqlStoreSettings {
  checkOptions(owner, options, names, '{ prefix: "app" }', FOREIGN)
  const { table = 'spillway', prefix = 'spillway', maxBatch = 400, remember = 10_000, clock } = options
  checkText(prefix, `${owner}: prefix`, 'spillway')
  checkInteger(maxBatch, `${owner}: maxBatch`, 400, 1)
  checkInteger(remember, `${owner}: remember`, 10_000, 1)
  if (clock !== undefined) checkClock(clock, `${owner}: clock`)
  return { table: checkTable(owner, table), prefix, maxBatch, remember, clock }
}

/** A name of a table that needs no quotes. */
export function checkTable(owner: string, table: unknown): string {
  if (typeof table === 'string' && /^[a-z_]\w{0,62}(\.[a-z_]\w{0,62})?$/i.test(table)) return table
  throw new PolicyError(
    `${owner}: table ${shown(table)}: expected letters, digits, _ and at most one dot, like "spillway" or ` +
      '"limits.spillway"',
  )
}

/**
 * State in a table of a database, shared by all processes with the same table, prefix and limiter name. One row holds
 * all that is kept of a key of one limiter. The arithmetic runs in the process; the database keeps states, and its
 * clock counts.
 */
export abstract class SqlStore extends SharedStore {
  /** The client as given. */
  readonly client: object
  /** The table as given. */
  readonly table: string
  /** What every key begins with. */
  readonly prefix: string

  protected constructor(parts: SqlParts) {
    super(new SqlCounts(parts))
    this.client = parts.client
    this.table = parts.table
    this.prefix = parts.prefix
  }
}

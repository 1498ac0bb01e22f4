import { PolicyError, StoreError, shown } from '../limiter/core/errors.js'
import { quoted } from './key-row.js'
import { type PgPool, PooledStatement } from './pg-statement.js'
import type { PostgresPort, Row, SentStatement, SqlValue } from './postgres-port.js'
import { PostgresSockets } from './postgres-sockets.js'

/** What a store needs of a client of PostgreSQL, for clients that it does not know: Neon, PGlite and others. */
export interface SqlClient {
  /**
   * Runs one statement with the values of $1, $2 and so on, and gives its rows. `name`: the statement may be prepared
   * under it.
   */
  query(text: string, values: readonly unknown[], name?: string): Promise<ReadonlyArray<Record<string, unknown>>>
}

/** The parts of a client of pg 8 that a pool may lack. */
interface PgClient {
  readonly options?: Address & { readonly connectionString?: unknown }
  connect(): unknown
  query(config: object): Promise<{ readonly rows: readonly Row[] }>
}

/** The parts of the function of postgres 3 that are used. */
interface PostgresFunction {
  readonly options?: Address
  unsafe(text: string, values: readonly SqlValue[], options: object): PostgresQuery
}

/** Sends nothing before somebody waits for it. */
interface PostgresQuery extends Promise<readonly Row[]> {
  cancel(): unknown
}

interface Address {
  readonly host?: unknown
  readonly port?: unknown
}

/** A client is recognised by its shape. Throws `PolicyError`. */
export function postgresPort(client: object, owner: string): PostgresPort {
  if (isPostgresFunction(client)) {
    const sockets = PostgresSockets.of(client)
    return {
      server: serverAt(client.options),
      send: (text, values, name) => {
        const query = client.unsafe(text, values, { prepare: name !== undefined })
        return new PlainStatement(query, () => void query.cancel(), sockets?.watch())
      },
    }
  }
  if (isPgClient(client)) {
    const { connectionString } = client.options ?? {}
    const server = typeof connectionString === 'string' ? serverOfUrl(connectionString) : serverAt(client.options)
    return {
      server,
      send: (text, values, name) =>
        isPgPool(client)
          ? new PooledStatement(client, { text, values, name })
          : new PlainStatement(client.query({ text, values, name }).then(({ rows }) => rows)),
    }
  }
  if (isSqlClient(client)) {
    return {
      server: 'PostgreSQL',
      send: (text, values, name) => new PlainStatement((async () => client.query(text, values, name))()),
    }
  }
  throw new PolicyError(
    `${owner}: given ${shown(client)}, expected a Pool of pg, the function of postgres, or an object with ` +
      `query(text, values): new ${owner}(new Pool({ connectionString }))`,
  )
}

function isPostgresFunction(client: unknown): client is PostgresFunction {
  return typeof client === 'function' && typeof (client as { unsafe?: unknown }).unsafe === 'function'
}

function isPgClient(client: unknown): client is PgClient {
  return isSqlClient(client) && typeof (client as { connect?: unknown }).connect === 'function'
}

function isPgPool(client: object): client is PgPool {
  return typeof (client as { totalCount?: unknown }).totalCount === 'number'
}

function isSqlClient(client: unknown): client is SqlClient {
  return typeof client === 'object' && client !== null && typeof (client as { query?: unknown }).query === 'function'
}

/**
 * A statement of which the client knows the connection; unless that can be dropped, one that is given up is forgotten.
 */
class PlainStatement implements SentStatement {
  readonly rows: Promise<readonly Row[]>
  readonly cancel: () => void
  drop: (error: Error) => void = () => {}

  constructor(
    rows: Promise<readonly Row[]>,
    cancel: () => void = () => {},
    dropConnection: (error: Error) => void = () => {},
  ) {
    this.cancel = cancel
    this.rows = new Promise((resolve, reject) => {
      this.drop = error => {
        reject(error)
        dropConnection(error)
      }
      rows.then(resolve, reject)
    })
  }
}

function serverOfUrl(url: string): string {
  return `PostgreSQL at ${URL.canParse(url) ? new URL(url).host : 'its server'}`
}

function serverAt({ host, port }: Address = {}): string {
  const [first] = [host].flat()
  return `PostgreSQL at ${typeof first === 'string' ? `${first}:${[port].flat()[0] ?? 5432}` : 'its server'}`
}

/**
 * The server does not know a prepared statement, or knows another one of its name: between us is a pooler that gives
 * each transaction another connection.
 */
export function isUnknownStatement(error: unknown): boolean {
  return ['42P05', '26000'].includes(codeOf(error))
}

/** A row was held by somebody else for longer than the statement may wait. Nothing was written. */
export function isHeld(error: unknown): boolean {
  return codeOf(error) === '55P03'
}

/** Nothing was written, because another transaction came first: as if all rows were lost. */
export function isConflict(error: unknown): boolean {
  return ['40001', '40P01'].includes(codeOf(error))
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | undefined)?.code)
}

/** A `StoreError` that says what to do, where that is known. */
export function postgresError(error: unknown, server: string, table: string): StoreError {
  if (error instanceof StoreError) return error
  const message = (error as Error)?.message ?? shown(error)
  const advice = ADVICE[codeOf(error)]?.(table, message)
  return new StoreError(`${server} failed: ${message}${advice === undefined ? '' : `: ${advice}`}`, { cause: error })
}

const ONLY_READS = 'the server only reads, it may be a standby: expected a pool of the primary'

/** By SQLSTATE. */
const ADVICE: Readonly<Record<string, (table: string, message: string) => string | undefined>> = {
  '42P01': table =>
    'create the table, by await store.createTable() or in a migration with the statements that npx spillway sql ' +
    `postgres --table ${table} prints`,
  '42703': table => `the table ${table} was not made by this version of spillway: drop it and create it again`,
  '42501': (table, message) =>
    /schema|create/.test(message)
      ? 'let a user who may create tables there run the statements that npx spillway sql postgres --table ' +
        `${table} prints`
      : `GRANT SELECT, INSERT, UPDATE, DELETE ON ${/[A-Z]/.test(table) ? quoted(table) : table} TO the user of ` +
        'the pool',
  '3F000': () => 'create the schema first, or name a table in one that exists',
  '25006': () => ONLY_READS,
  // Of an unlogged table.
  '0A000': (_, message) => (message.includes('during recovery') ? ONLY_READS : undefined),
  '22012': () => 'a row waited for another transaction until it was too late, and nothing was written',
  '53100': () => 'make room on its disk',
  '53300': () =>
    'raise max_connections, or give the store a small pool of its own: it needs one connection in each process',
}

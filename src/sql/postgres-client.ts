import { PolicyError, StoreError, shown } from '../limiter/core/errors.js'
import { quoted } from './key-row.js'

type Row = Readonly<Record<string, unknown>>
export type SqlValue = string | null

/** What a store needs of a client of PostgreSQL, for clients that it does not know: Neon, PGlite and others. */
export interface SqlClient {
  /**
   * Runs one statement with the values of $1, $2 and so on, and gives its rows. `name`: the statement may be prepared
   * under it.
   */
  query(text: string, values: readonly unknown[], name?: string): Promise<ReadonlyArray<Record<string, unknown>>>
}

/** A client as the store uses it. */
export interface PostgresPort {
  /** The server, for messages. */
  readonly server: string
  /**
   * An unnamed statement is planned each time. The client may end the connection of a query that takes longer than
   * `timeoutMs`.
   */
  query(text: string, values: readonly SqlValue[], name: string | undefined, timeoutMs: number): Promise<readonly Row[]>
}

/** The parts of a pool of pg 8 that are used. */
interface PgPool {
  readonly options?: Address & { readonly connectionString?: unknown }
  connect(): unknown
  query(config: object): Promise<{ readonly rows: readonly Row[] }>
  on?(event: 'error', listener: () => void): unknown
}

/** The parts of the function of postgres 3 that are used. */
interface PostgresFunction {
  readonly options?: Address
  unsafe(text: string, values: readonly SqlValue[], options: object): Promise<readonly Row[]>
}

interface Address {
  readonly host?: unknown
  readonly port?: unknown
}

/** A client is recognised by its shape. Throws `PolicyError`. */
export function postgresPort(client: object, owner: string): PostgresPort {
  if (isPostgresFunction(client)) {
    const server = serverAt(client.options)
    // A query that hangs is left alone: its answer no longer counts.
    // Its own thenable sends nothing before somebody waits for it.
    return {
      server,
      query: async (text, values, name) => client.unsafe(text, values, { prepare: name !== undefined }),
    }
  }
  if (isPgPool(client)) {
    const { connectionString } = client.options ?? {}
    const server = typeof connectionString === 'string' ? serverOfUrl(connectionString) : serverAt(client.options)
    return {
      server,
      query: (text, values, name, timeoutMs) =>
        client.query({ text, values, name, query_timeout: Math.ceil(timeoutMs) }).then(({ rows }) => rows),
    }
  }
  if (isSqlClient(client))
    return { server: 'PostgreSQL', query: async (text, values, name) => client.query(text, values, name) }
  throw new PolicyError(
    `${owner}: given ${shown(client)}, expected a Pool of pg, the function of postgres, or an object with ` +
      `query(text, values): new ${owner}(new Pool({ connectionString }))`,
  )
}

function isPostgresFunction(client: unknown): client is PostgresFunction {
  return typeof client === 'function' && typeof (client as { unsafe?: unknown }).unsafe === 'function'
}

function isPgPool(client: unknown): client is PgPool {
  return isSqlClient(client) && typeof (client as { connect?: unknown }).connect === 'function'
}

function isSqlClient(client: unknown): client is SqlClient {
  return typeof client === 'object' && client !== null && typeof (client as { query?: unknown }).query === 'function'
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
  '53100': () => 'make room on its disk',
  '53300': () =>
    'raise max_connections, or give the store a small pool of its own: it needs one connection in each process',
}

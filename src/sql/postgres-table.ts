import { StoreError, shown } from '../limiter/core/errors.js'
import { hashOf } from '../limiter/core/short-key.js'
import { FORMAT, NO_VERSION, quoted } from './key-row.js'
import { isConflict, isHeld, isUnknownStatement, postgresError } from './postgres-client.js'
import { type PostgresPlace, PostgresPlaces } from './postgres-places.js'
import type { PostgresPort, SqlValue } from './postgres-port.js'
import type { RowWrite, StoredRow, VersionedRows, VersionedTable, WriteAnswer, WriteBatch } from './versioned-table.js'

/** The server's clock in ms, at the moment when it is read: now() would be the start of the transaction. */
const CLOCK = "date_part('epoch', clock_timestamp()) * 1000"

/**
 * Ends a statement that waits for a row for longer, and nothing else: the setting is gone with the statement. It counts
 * for rows that are locked after it was executed.
 */
const patience = (value: string) => `set_config('lock_timeout', ${value}::text, true)`
/**
 * Fails if it is later, and with it the whole statement: a row may be added only when another transaction has ended.
 */
const inTime = (until: string) => `1 / (${CLOCK} <= ${until}::float8)::int`

/** The texts of all statements. `table`: quoted. */
function statementsOf(table: string) {
  const set =
    'SET version = excluded.version, prev = excluded.prev, expires_at = excluded.expires_at, state = excluded.state'
  return {
    // Always by the index of the key, however the table looked when it was planned: so it may be prepared. Rows in the
    // order of their keys, as in all statements: no deadlocks.
    write: `WITH patience AS MATERIALIZED (SELECT ${patience('$9')}),
w AS (
INSERT INTO ${table} AS r (key, version, prev, expires_at, state)
SELECT i.key, $5::bigint, i.prev, i.expires_at, i.state
FROM patience, unnest($1::text::text[], $2::text::bigint[], $3::text::bigint[], $4::text::text[]) AS i (key, prev, expires_at, state)
WHERE ${CLOCK} BETWEEN $6::float8 AND $7::float8
ORDER BY i.key COLLATE "C"
ON CONFLICT (key) DO UPDATE ${set} WHERE r.version = excluded.prev AND ${CLOCK} <= $7::float8
RETURNING r.key, ${inTime('$7')})
SELECT ${CLOCK} AS clock, CASE WHEN count(*) < $8::int THEN coalesce(json_agg(key)::text, '[]') END AS written FROM w`,

    writeOne: `INSERT INTO ${table} AS r (key, version, prev, expires_at, state)
SELECT $1::text, $5::bigint, $2::bigint, $3::bigint, $4::text WHERE ${patience('$8')} IS NOT NULL AND ${CLOCK} BETWEEN $6::float8 AND $7::float8
ON CONFLICT (key) DO UPDATE ${set} WHERE r.version = excluded.prev AND ${CLOCK} <= $7::float8
RETURNING ${CLOCK} AS clock, ${inTime('$7')}`,

    // Locks what is there, then looks at the clock; a read beside the write would see the rows as they were before it
    // waited for the locks.
    writeGroups: `WITH patience AS MATERIALIZED (SELECT ${patience('$9')}),
i AS MATERIALIZED (
SELECT * FROM unnest($1::text::text[], $2::text::bigint[], $3::text::bigint[], $4::text::text[], $8::text::int[]) AS i (key, prev, expires_at, state, part)),
held AS MATERIALIZED (SELECT r.key, r.version, r.state FROM patience, ${table} AS r WHERE r.key = ANY ($1::text::text[]) ORDER BY r.key FOR NO KEY UPDATE OF r),
moment AS MATERIALIZED (SELECT ${CLOCK} AS clock, count(*) AS held FROM held),
lost AS MATERIALIZED (
SELECT DISTINCT i.part FROM moment CROSS JOIN i LEFT JOIN held ON held.key = i.key
WHERE held.version IS DISTINCT FROM i.prev OR clock NOT BETWEEN $6::float8 AND $7::float8),
written AS (
UPDATE ${table} AS r SET version = $5::bigint, prev = i.prev, expires_at = i.expires_at, state = i.state
FROM i WHERE r.key = i.key AND i.part NOT IN (SELECT part FROM lost))
SELECT clock, i.key, held.version::text AS version, held.state
FROM moment LEFT JOIN (i JOIN lost ON lost.part = i.part LEFT JOIN held ON held.key = i.key) ON true`,

    add: `WITH patience AS MATERIALIZED (SELECT ${patience('$3')})
INSERT INTO ${table} (key, version, prev, expires_at, state)
SELECT k.key, ${NO_VERSION}, ${NO_VERSION}, $2::bigint, '' FROM patience, unnest($1::text::text[]) AS k (key) ORDER BY k.key COLLATE "C"
ON CONFLICT (key) DO NOTHING`,

    read: `SELECT ${CLOCK} AS clock, k.key, r.version::text AS version, r.state
FROM unnest($1::text::text[]) AS k (key) LEFT JOIN ${table} AS r ON r.key = k.key`,

    held: `WITH free AS MATERIALIZED (SELECT key FROM ${table} WHERE key = ANY ($1::text::text[]) FOR NO KEY UPDATE SKIP LOCKED)
SELECT ${CLOCK} AS clock, key FROM ${table} WHERE key = ANY ($1::text::text[]) AND key NOT IN (SELECT key FROM free)`,

    sweep: `WITH page AS MATERIALIZED (SELECT key, expires_at FROM ${table} WHERE key > $1::text AND key < $2::text ORDER BY key LIMIT $3::int),
gone AS (DELETE FROM ${table} WHERE key IN (
SELECT r.key FROM ${table} AS r WHERE r.key IN (SELECT key FROM page WHERE expires_at < coalesce($4::float8, ${CLOCK} - $5::float8))
AND r.expires_at < coalesce($4::float8, ${CLOCK} - $5::float8) FOR UPDATE SKIP LOCKED))
SELECT max(key) AS last, count(*)::int AS rows, ${CLOCK} AS clock FROM page`,
  }
}

/**
 * The statements that make the table. Text is compared by its bytes, so that no update of the system changes the order
 * of keys. Free room in each page, and no index on a column that changes: then a row that is written again costs no
 * work on indexes. Long states are not compressed, which would take longer than to write them.
 */
export function postgresSchema(table: string, logged: boolean): string[] {
  const name = quoted(table)
  return [
    `CREATE ${logged ? '' : 'UNLOGGED '}TABLE IF NOT EXISTS ${name} (
  key text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  prev bigint NOT NULL,
  expires_at bigint NOT NULL,
  state text NOT NULL
) WITH (fillfactor = 70)`,
    `ALTER TABLE ${name} ALTER COLUMN state SET STORAGE EXTERNAL`,
    `COMMENT ON TABLE ${name} IS '${formatComment}'`,
  ]
}

/** The comment of a table of this version. */
export const formatComment = `spillway format ${FORMAT}`

type Statement = keyof ReturnType<typeof statementsOf>

/** The table in PostgreSQL. */
export class PostgresTable implements VersionedTable {
  readonly sql: ReturnType<typeof statementsOf>
  readonly #places: PostgresPlaces
  readonly #names: Partial<Record<Statement, string>>
  /** Whether the two statements that most decisions need are prepared. */
  #prepares: boolean

  constructor(
    port: PostgresPort,
    readonly table: string,
    readonly prepare: boolean | 'auto',
  ) {
    this.#places = new PostgresPlaces(port)
    this.sql = statementsOf(quoted(table))
    // By the text, because another version of this package may share the connection.
    const nameOf = (text: string) => `spillway_${hashOf(text).slice(1, 17)}`
    // The others would be planned for the table as it is now: one that is small is read whole.
    this.#names = { write: nameOf(this.sql.write), writeOne: nameOf(this.sql.writeOne) }
    this.#prepares = prepare !== false
  }

  set onFree(act: () => void) {
    this.#places.onFree = act
  }

  take(): PostgresRows | undefined {
    const place = this.#places.take()
    return place && new PostgresRows(this, place)
  }

  /** Of the server, for messages. */
  get server(): string {
    return this.#places.port.server
  }

  nameOf(statement: Statement): string | undefined {
    return this.#prepares ? this.#names[statement] : undefined
  }

  /** Whether it is because the server does not know a prepared statement; then there will be no more of them. */
  isUnprepared(error: unknown): boolean {
    if (this.prepare === true || !isUnknownStatement(error)) return false
    this.#prepares = false
    return true
  }
}

/** Its rows, for who has a place: one statement for each call. */
export class PostgresRows implements VersionedRows {
  constructor(
    readonly table: PostgresTable,
    readonly place: PostgresPlace,
  ) {}

  leave(): void {
    this.place.leave()
  }

  async read(keys: readonly string[], timeoutMs: number) {
    const rows = await this.#run('read', [arrayOf(keys)], timeoutMs)
    const found = new Map<string, StoredRow>()
    for (const { key, version, state } of rows) {
      if (version !== null) found.set(key as string, { version: version as string, state: state as string })
    }
    return { clock: Number(rows[0].clock), rows: found }
  }

  write(batch: WriteBatch, timeoutMs: number): Promise<WriteAnswer | undefined> {
    const { rows } = batch
    const written = rows.length === 1 ? this.#writeOne(batch, rows[0], timeoutMs) : this.#writeEach(batch, timeoutMs)
    return written.catch(error => notWritten(error, rows))
  }

  #writeOne(
    { rows, version, from, until, waitMs }: WriteBatch,
    row: RowWrite,
    timeoutMs: number,
  ): Promise<WriteAnswer> {
    const { key, prev, expiresAt, state } = row
    const values = [key, prev, expiresAt, state, version, from, until, waitMs].map(String)
    return this.#run('writeOne', values, timeoutMs).then(([answer]) =>
      answer === undefined ? { clock: undefined, lost: allOf(rows) } : { clock: Number(answer.clock), lost: NONE },
    )
  }

  async #writeEach({ rows, version, from, until, waitMs }: WriteBatch, timeoutMs: number): Promise<WriteAnswer> {
    const values = [...columnsOf(rows), ...[version, from, until, rows.length, waitMs].map(String)]
    const [{ clock, written }] = await this.#run('write', values, timeoutMs)
    if (written === null) return { clock: Number(clock), lost: NONE }
    const lost = allOf(rows)
    for (const key of JSON.parse(written as string) as string[]) lost.delete(key)
    return { clock: Number(clock), lost }
  }

  async writeGroups(batch: WriteBatch, timeoutMs: number): Promise<WriteAnswer | undefined> {
    const { rows, version, from, until, waitMs } = batch
    const lost = new Map<string, StoredRow | undefined>()
    try {
      const groups = `{${rows.map(({ group }) => group).join()}}`
      const values = [...columnsOf(rows), version, String(from), String(until), groups, String(waitMs)]
      const answer = await this.#run('writeGroups', values, timeoutMs)
      for (const { key, version, state } of answer) {
        if (key === null) continue
        const row = version === null ? undefined : { version: version as string, state: state as string }
        lost.set(key as string, row)
      }
      return { clock: Number(answer[0].clock), lost }
    } catch (error) {
      return notWritten(error, rows)
    }
  }

  async add(keys: readonly string[], expiresAt: number, waitMs: number, timeoutMs: number): Promise<boolean> {
    try {
      await this.#run('add', [arrayOf(keys), String(expiresAt), String(waitMs)], timeoutMs)
      return true
    } catch (error) {
      if (isHeld(error)) return false
      throw error
    }
  }

  async held(keys: readonly string[], timeoutMs: number): Promise<ReadonlySet<string>> {
    return new Set((await this.#run('held', [arrayOf(keys)], timeoutMs)).map(({ key }) => key as string))
  }

  async sweep(
    range: readonly [after: string, to: string],
    most: number,
    expired: { readonly at: number | undefined; readonly forMs: number },
    timeoutMs: number,
  ): Promise<string | undefined> {
    const at = expired.at === undefined ? null : String(expired.at)
    const values = [...range, String(most), at, String(expired.forMs)]
    const [{ last, rows }] = await this.#run('sweep', values, timeoutMs)
    return Number(rows) < most ? undefined : (last as string)
  }

  /** Runs a statement that is not in the list. */
  async run(text: string, values: readonly SqlValue[], timeoutMs: number) {
    const { server, table } = this.table
    try {
      return await this.place.run(text, values, undefined, timeoutMs)
    } catch (error) {
      throw postgresError(error, server, table)
    }
  }

  async #run(statement: Statement, values: readonly SqlValue[], timeoutMs: number) {
    const { server, table, sql } = this.table
    const name = this.table.nameOf(statement)
    const rows = await this.place.run(sql[statement], values, name, timeoutMs).catch(error => {
      if (isConflict(error) || isHeld(error)) throw error
      // It was not executed.
      if (name !== undefined && this.table.isUnprepared(error)) return this.run(sql[statement], values, timeoutMs)
      throw postgresError(error, server, table)
    })
    const mayBeEmpty = statement === 'writeOne' || statement === 'add' || statement === 'held'
    if (Array.isArray(rows) && (rows.length === 0 ? mayBeEmpty : rows[0].clock !== undefined)) return rows
    throw new StoreError(
      `PostgresStore: its client answered ${shown(rows)}: expected a list of rows, objects with the names of ` +
        'the columns as they are: query: async (text, values) => (await pool.query(text, [...values])).rows',
    )
  }
}

/** What an error says of a write: undefined if a row was held for too long. Throws it if it says something else. */
function notWritten(error: unknown, rows: WriteBatch['rows']): WriteAnswer | undefined {
  if (isHeld(error)) return undefined
  if (isConflict(error)) return { clock: undefined, lost: allOf(rows) }
  throw error
}

const NONE: ReadonlyMap<string, undefined> = new Map()

function allOf(rows: WriteBatch['rows']): Map<string, undefined> {
  return new Map(rows.map(({ key }) => [key, undefined]))
}

function columnsOf(rows: WriteBatch['rows']): [keys: string, prevs: string, expiresAt: string, states: string] {
  return [
    arrayOf(rows.map(({ key }) => key)),
    `{${rows.map(({ prev }) => prev).join()}}`,
    `{${rows.map(({ expiresAt }) => expiresAt).join()}}`,
    arrayOf(rows.map(({ state }) => state)),
  ]
}

/** A list of texts as PostgreSQL reads it: clients differ in how they write lists. */
function arrayOf(texts: readonly string[]): string {
  return `{${texts.map(text => (/["\\]/.test(text) ? `"${text.replace(/["\\]/g, '\\$&')}"` : `"${text}"`)).join()}}`
}

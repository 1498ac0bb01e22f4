import { StoreError, shown } from '../limiter/core/errors.js'
import { hashOf } from '../limiter/core/short-key.js'
import type { RowWrite, StoredRow, VersionedTable, WriteAnswer, WriteBatch } from './flights.js'
import { FORMAT, NO_VERSION, quoted } from './key-row.js'
import { isConflict, isUnknownStatement, type PostgresPort, postgresError, type SqlValue } from './postgres-client.js'

/** The server's clock in ms, at the moment when it is read: now() would be the start of the transaction. */
const CLOCK = "date_part('epoch', clock_timestamp()) * 1000"

/** The texts of all statements. `table`: quoted. */
function statementsOf(table: string) {
  const set =
    'SET version = excluded.version, prev = excluded.prev, expires_at = excluded.expires_at, state = excluded.state'
  return {
    // Always by the index of the key, however the table looked when it was planned: so it may be prepared. Rows in the
    // order of their keys, as in all statements: no deadlocks.
    write: `WITH w AS (
INSERT INTO ${table} AS r (key, version, prev, expires_at, state)
SELECT i.key, $5::bigint, i.prev, i.expires_at, i.state
FROM unnest($1::text::text[], $2::text::bigint[], $3::text::bigint[], $4::text::text[]) AS i (key, prev, expires_at, state)
WHERE ${CLOCK} BETWEEN $6::float8 AND $7::float8
ORDER BY i.key COLLATE "C"
ON CONFLICT (key) DO UPDATE ${set} WHERE r.version = excluded.prev AND ${CLOCK} <= $7::float8
RETURNING r.key)
SELECT ${CLOCK} AS clock, CASE WHEN count(*) < $8::int THEN coalesce(json_agg(key)::text, '[]') END AS written FROM w`,

    writeOne: `INSERT INTO ${table} AS r (key, version, prev, expires_at, state)
SELECT $1::text, $5::bigint, $2::bigint, $3::bigint, $4::text WHERE ${CLOCK} BETWEEN $6::float8 AND $7::float8
ON CONFLICT (key) DO UPDATE ${set} WHERE r.version = excluded.prev AND ${CLOCK} <= $7::float8
RETURNING ${CLOCK} AS clock`,

    // Locks what is there, then looks at the clock; a read beside the write would see the rows as they were before it
    // waited for the locks.
    writeGroups: `WITH i AS MATERIALIZED (
SELECT * FROM unnest($1::text::text[], $2::text::bigint[], $3::text::bigint[], $4::text::text[], $8::text::int[]) AS i (key, prev, expires_at, state, part)),
held AS MATERIALIZED (SELECT r.key, r.version, r.state FROM ${table} AS r WHERE r.key = ANY ($1::text::text[]) ORDER BY r.key FOR NO KEY UPDATE),
moment AS MATERIALIZED (SELECT ${CLOCK} AS clock, count(*) AS held FROM held),
lost AS MATERIALIZED (
SELECT DISTINCT i.part FROM moment CROSS JOIN i LEFT JOIN held ON held.key = i.key
WHERE held.version IS DISTINCT FROM i.prev OR clock NOT BETWEEN $6::float8 AND $7::float8),
written AS (
UPDATE ${table} AS r SET version = $5::bigint, prev = i.prev, expires_at = i.expires_at, state = i.state
FROM i WHERE r.key = i.key AND i.part NOT IN (SELECT part FROM lost))
SELECT clock, i.key, held.version::text AS version, held.state
FROM moment LEFT JOIN (i JOIN lost ON lost.part = i.part LEFT JOIN held ON held.key = i.key) ON true`,

    add: `INSERT INTO ${table} (key, version, prev, expires_at, state)
SELECT k.key, ${NO_VERSION}, ${NO_VERSION}, $2::bigint, '' FROM unnest($1::text::text[]) AS k (key) ORDER BY k.key COLLATE "C"
ON CONFLICT (key) DO NOTHING`,

    read: `SELECT ${CLOCK} AS clock, k.key, r.version::text AS version, r.state
FROM unnest($1::text::text[]) AS k (key) LEFT JOIN ${table} AS r ON r.key = k.key`,

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

/** The table in PostgreSQL: one statement for each call. */
export class PostgresTable implements VersionedTable {
  readonly #sql: ReturnType<typeof statementsOf>
  readonly #names: { readonly write: string; readonly writeOne: string }
  /** Whether the two statements that most decisions need are prepared. */
  #prepares: boolean

  constructor(
    readonly port: PostgresPort,
    readonly table: string,
    readonly prepare: boolean | 'auto',
  ) {
    this.#sql = statementsOf(quoted(table))
    // By the text, because another version of this package may share the connection.
    const nameOf = (text: string) => `spillway_${hashOf(text).slice(1, 17)}`
    this.#names = { write: nameOf(this.#sql.write), writeOne: nameOf(this.#sql.writeOne) }
    this.#prepares = prepare !== false
  }

  async read(keys: readonly string[], timeoutMs: number) {
    const rows = await this.#run('read', [arrayOf(keys)], timeoutMs)
    const found = new Map<string, StoredRow>()
    for (const { key, version, state } of rows) {
      if (version !== null) found.set(key as string, { version: version as string, state: state as string })
    }
    return { clock: Number(rows[0].clock), rows: found }
  }

  write(batch: WriteBatch, timeoutMs: number): Promise<WriteAnswer> {
    const { rows } = batch
    const written = rows.length === 1 ? this.#writeOne(batch, rows[0], timeoutMs) : this.#writeEach(batch, timeoutMs)
    return written.catch(error => {
      if (!isConflict(error)) throw error
      return { clock: undefined, lost: allOf(rows) }
    })
  }

  #writeOne({ rows, version, from, until }: WriteBatch, row: RowWrite, timeoutMs: number): Promise<WriteAnswer> {
    const { key, prev, expiresAt, state } = row
    const values = [key, prev, String(expiresAt), state, version, String(from), String(until)]
    return this.#run('writeOne', values, timeoutMs).then(([answer]) =>
      answer === undefined ? { clock: undefined, lost: allOf(rows) } : { clock: Number(answer.clock), lost: NONE },
    )
  }

  async #writeEach({ rows, version, from, until }: WriteBatch, timeoutMs: number): Promise<WriteAnswer> {
    const values = [...columnsOf(rows), version, String(from), String(until), String(rows.length)]
    const [{ clock, written }] = await this.#run('write', values, timeoutMs)
    if (written === null) return { clock: Number(clock), lost: NONE }
    const lost = allOf(rows)
    for (const key of JSON.parse(written as string) as string[]) lost.delete(key)
    return { clock: Number(clock), lost }
  }

  async writeGroups({ rows, version, from, until }: WriteBatch, timeoutMs: number): Promise<WriteAnswer> {
    const lost = new Map<string, StoredRow | undefined>()
    try {
      const groups = `{${rows.map(({ group }) => group).join()}}`
      const values = [...columnsOf(rows), version, String(from), String(until), groups]
      const answer = await this.#run('writeGroups', values, timeoutMs)
      for (const { key, version, state } of answer) {
        if (key === null) continue
        const row = version === null ? undefined : { version: version as string, state: state as string }
        lost.set(key as string, row)
      }
      return { clock: Number(answer[0].clock), lost }
    } catch (error) {
      if (!isConflict(error)) throw error
      return { clock: undefined, lost: allOf(rows) }
    }
  }

  async add(keys: readonly string[], expiresAt: number, timeoutMs: number): Promise<object> {
    return this.#run('add', [arrayOf(keys), String(expiresAt)], timeoutMs)
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
    try {
      return await this.port.query(text, values, undefined, timeoutMs)
    } catch (error) {
      throw postgresError(error, this.port.server, this.table)
    }
  }

  async #run(statement: keyof ReturnType<typeof statementsOf>, values: readonly SqlValue[], timeoutMs: number) {
    const text = this.#sql[statement]
    // The others would be planned for the table as it is now: one that is small is read whole.
    const name =
      this.#prepares && (statement === 'write' || statement === 'writeOne') ? this.#names[statement] : undefined
    const rows = await this.port.query(text, values, name, timeoutMs).catch(error => {
      if (isConflict(error)) throw error
      if (name === undefined || this.prepare === true || !isUnknownStatement(error)) {
        throw postgresError(error, this.port.server, this.table)
      }
      // It was not executed.
      this.#prepares = false
      return this.run(text, values, timeoutMs)
    })
    const mayBeEmpty = statement === 'writeOne' || statement === 'add'
    if (Array.isArray(rows) && (rows.length === 0 ? mayBeEmpty : rows[0].clock !== undefined)) return rows
    throw new StoreError(
      `PostgresStore: its client answered ${shown(rows)}: expected a list of rows, objects with the names of ` +
        'the columns as they are: query: async (text, values) => (await pool.query(text, [...values])).rows',
    )
  }
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

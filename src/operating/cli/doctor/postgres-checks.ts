import { parseLimit } from '../../../limiter/core/limit.js'
import { quoted } from '../../../sql/key-row.js'
import { PostgresStore } from '../../../sql/postgres-store.js'
import { formatComment } from '../../../sql/postgres-table.js'
import { count, share } from '../table.js'
import { type Finding, ok, problem, unseen, warning } from './diagnosis.js'

type Row = Readonly<Record<string, unknown>>

/** What the doctor looks at. */
export interface Examined {
  /** Resolves to the rows of a query. */
  ask(text: string, values?: readonly string[]): Promise<readonly Row[]>
  /** The same connection, for a store. */
  readonly client: object
  readonly table: string
  readonly prefix: string
}

const OLDEST = 130_000

export async function versionFinding({ ask }: Examined): Promise<Finding> {
  const [{ version, number }] = await ask(
    `SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number`,
  )
  const text = `PostgreSQL ${version}`
  return Number(number) < OLDEST
    ? problem('version', `${text}: older than 13`, 'use PostgreSQL 13 or later')
    : ok('version', text)
}

/** Whether the server accepts writes. */
export async function roleFinding({ ask }: Examined): Promise<Finding> {
  const [{ standby, readonly }] = await ask(
    `SELECT pg_is_in_recovery() AS standby, current_setting('default_transaction_read_only') = 'on' AS readonly`,
  )
  const remedy = 'give the store a pool of the primary (target_session_attrs=read-write finds it among several hosts)'
  if (standby) return problem('role', 'a standby: every decision that spends fails', remedy)
  if (readonly) {
    const setting = 'default_transaction_read_only is on: every decision that spends fails'
    return problem('role', setting, 'set it to off, for the user of the store at least')
  }
  return ok('role', 'accepts writes')
}

const ISOLATION = 'isolation'

export async function isolationFinding({ ask }: Examined): Promise<Finding> {
  const [{ level }] = await ask(`SELECT current_setting('default_transaction_isolation') AS level`)
  if (level === 'read committed') return ok(ISOLATION, String(level))
  return warning(
    ISOLATION,
    `default_transaction_isolation is ${level}: decisions of a busy key fail each other (40001) and are repeated`,
    "ALTER ROLE … SET default_transaction_isolation = 'read committed' for the user of the store",
  )
}

export async function connectionFinding({ ask }: Examined): Promise<Finding> {
  const [{ here, most, idle }] = await ask(
    `SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int AS here,
current_setting('max_connections')::int AS most, coalesce(current_setting('idle_session_timeout', true), '0') AS idle`,
  )
  const text = `${here} of at most ${most}`
  if (Number(here) >= 0.9 * Number(most)) {
    return warning(
      'connections',
      `${text}: further ones are refused`,
      'give each store a small pool of its own, one or two connections, or put PgBouncer before the server',
    )
  }
  if (idle !== '0') {
    return warning(
      'connections',
      `idle_session_timeout is ${idle}: a process without traffic is disconnected, and connects again within ` +
        'the deadline of its next decision',
      'ALTER ROLE … SET idle_session_timeout = 0 for the user of the store',
    )
  }
  return ok('connections', text)
}

const TABLE = 'table'

/** The table, and what a restart of the server leaves of it. Undefined as second: the rest cannot be looked at. */
export async function tableFindings(examined: Examined): Promise<{ findings: Finding[]; isThere: boolean }> {
  const { ask, table } = examined
  const create = `npx spillway sql postgres --table ${table} | psql, or await store.createTable()`
  const [row] = await ask(
    `SELECT relpersistence AS kept, reloptions AS options, obj_description(oid, 'pg_class') AS comment
FROM pg_class WHERE oid = to_regclass($1)`,
    [quoted(table)],
  )
  if (row === undefined) return { findings: [problem(TABLE, `there is no table ${table}`, create)], isThere: false }
  const { kept, options, comment } = row
  if (comment !== formatComment) {
    const text =
      `${table} is of ${comment === null ? 'an unknown format: it has no comment' : `"${comment}"`}, this ` +
      `version writes "${formatComment}"`
    const remedy = `use another table, or one version of spillway in all processes; else drop it, and: ${create}`
    return { findings: [problem(TABLE, text, remedy)], isThere: false }
  }
  const persistence =
    kept === 'u'
      ? 'unlogged: after a crash of the server, and on a promoted standby, it is empty and every limit starts afresh'
      : 'logged: it survives a crash'
  return { findings: [ok(TABLE, `${table}, ${persistence}`), fillFinding(table, options)], isThere: true }
}

const FILL = 'fill factor'
const MOST_FILL = 85

function fillFinding(table: string, options: unknown): Finding {
  const [, text = '100'] = /fillfactor=(\d+)/.exec(String(options)) ?? []
  if (Number(text) <= MOST_FILL) return ok(FILL, text)
  return warning(
    FILL,
    `${text}: a page has no room for the next version of its rows, so writes move to other pages and cost the index`,
    `ALTER TABLE ${quoted(table)} SET (fillfactor = 70), then VACUUM FULL, which locks the table`,
  )
}

/** The rights that a store needs. */
export async function rightsFinding({ ask, table }: Examined): Promise<Finding> {
  const rights = ['SELECT', 'INSERT', 'UPDATE', 'DELETE']
  const [row] = await ask(
    'SELECT current_user AS name, ' +
      `${rights.map(right => `has_table_privilege(to_regclass($1), '${right}') AS "${right}"`).join()}`,
    [quoted(table)],
  )
  const missing = rights.filter(right => row[right] !== true)
  if (missing.length === 0) return ok('rights', `${row.name} may ${rights.join(', ')}`)
  const need = missing.includes('DELETE') && missing.length === 1 ? 'expired rows stay' : 'decisions fail'
  const remedy = `GRANT ${missing.join(', ')} ON ${quoted(table)} TO "${row.name}"`
  return problem('rights', `${row.name} may not ${missing.join(', ')}: ${need}`, remedy)
}

/** Performs what limiters do, on a key of its own, whose row expires at once. */
export async function decisionFinding({ client, table, prefix }: Examined): Promise<Finding> {
  const store = new PostgresStore(client, { table, prefix })
  const limit = parseLimit({ quota: 2, window: 1000 })
  const charges = [{ key: `!doctor ${process.pid}`, limiter: '!doctor', limit }]
  const endsAt = performance.now() + DECISION_MS
  try {
    await store.charge(charges, 1, endsAt)
    await store.refund(charges, 1, endsAt)
    await store.block(charges, 1, endsAt)
    await store.reset(charges, endsAt)
    return ok('decisions', 'are made')
  } catch (error) {
    const { message, cause } = error as Error
    const [text, ...advice] = message.split(': ')
    const remedy = advice.at(-1) ?? 'see what the server says'
    return problem('decisions', cause === undefined ? message : `${text}: ${(cause as Error).message}`, remedy)
  } finally {
    await store.close()
  }
}

const DECISION_MS = 2000
const FEWEST_UPDATES = 1000
const MOST_DEAD = 10_000

/** How well the table is written: updates that need no index, other indexes, dead rows. */
export async function writesFinding({ ask, table }: Examined): Promise<Finding> {
  const [row] = await ask(
    `SELECT n_tup_upd::float8 AS updates, n_tup_hot_upd::float8 AS hot, n_live_tup::float8 AS live, n_dead_tup::float8 AS dead,
(SELECT count(*) FROM pg_index WHERE indrelid = relid)::int AS indexes FROM pg_stat_all_tables WHERE relid = to_regclass($1)`,
    [quoted(table)],
  )
  if (row === undefined) return unseen('writes', 'the server does not count them', 'set track_counts = on')
  const [updates, hot, live, dead, indexes] = ['updates', 'hot', 'live', 'dead', 'indexes'].map(name =>
    Number(row[name]),
  )
  const text = `${share(hot, updates)} of ${count(updates)} updates are HOT`
  if (indexes > 1) {
    const why = 'every write of a column that is in one costs about twice as much'
    return warning('writes', `${text}; ${indexes} indexes, expected that of the key alone: ${why}`, 'drop the others')
  }
  if (updates >= FEWEST_UPDATES && hot < 0.9 * updates) {
    const why = 'something keeps old versions of rows, or the pages are full'
    return warning(
      'writes',
      `${text}, expected 90 % or more: ${why}`,
      'see "fill factor" and "snapshots"; VACUUM FULL once',
    )
  }
  if (dead > MOST_DEAD && dead > 2 * live) {
    const remedy = 'see "snapshots", and whether autovacuum runs'
    return warning('writes', `${count(dead)} dead versions beside ${count(live)} rows: writes become slower`, remedy)
  }
  return ok('writes', updates < FEWEST_UPDATES ? `${count(updates)} updates so far` : text)
}

const SNAPSHOTS = 'snapshots'
const LONG_S = 60

/** What keeps old versions of hot rows: transactions that stay open, replication slots, publications. */
export async function snapshotFinding({ ask, table }: Examined): Promise<Finding> {
  const [row] = await ask(
    `SELECT (SELECT max(extract(epoch FROM now() - xact_start))::int FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()) AS longest,
(SELECT string_agg(slot_name, ', ') FROM pg_replication_slots WHERE NOT active AND xmin IS NOT NULL) AS slots,
(SELECT string_agg(pubname, ', ') FROM pg_publication_tables WHERE to_regclass(format('%I.%I', schemaname, tablename)) = to_regclass($1)) AS publications`,
    [quoted(table)],
  )
  const { longest, slots, publications } = row
  if (publications !== null) {
    const remedy = 'leave the table out of the publication, or create it without --logged'
    return warning(SNAPSHOTS, `publication ${publications} sends every decision to its subscribers`, remedy)
  }
  if (slots !== null) {
    return warning(
      SNAPSHOTS,
      `the idle replication slot ${slots} keeps old versions of all rows: busy keys become slower and slower`,
      'drop the slot, or let its standby catch up',
    )
  }
  if (Number(longest) >= LONG_S) {
    return warning(
      SNAPSHOTS,
      `a transaction has been open for ${count(Number(longest))} s: meanwhile every version of every row is ` +
        'kept, and busy keys become slower',
      'end it (pg_stat_activity names it), and read reports and backups from a standby',
    )
  }
  return ok(SNAPSHOTS, `no transaction has been open for ${LONG_S} s`)
}

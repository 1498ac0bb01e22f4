import { createRequire } from 'node:module'
import { join } from 'node:path'
import { SpillwayError } from '../../../limiter/core/errors.js'
import { postgresPort } from '../../../sql/postgres-client.js'
import type { Option } from '../arguments.js'
import { UsageError } from '../arguments.js'
import { type Finding, problem, unseen } from './diagnosis.js'
import {
  connectionFinding,
  decisionFinding,
  type Examined,
  isolationFinding,
  rightsFinding,
  roleFinding,
  snapshotFinding,
  tableFindings,
  versionFinding,
  writesFinding,
} from './postgres-checks.js'
import { clockFinding, latencyFinding } from './server-checks.js'

const EXPECTED = 'expected a URL like postgres://user@db.example:5432/app'

export const POSTGRES_OPTION = {
  value: 'the URL of a PostgreSQL',
  example: '--postgres postgres://user@db.example/app',
} as const satisfies Option

/** The URL as given, without its password for output. Throws `UsageError` without repeating it. */
export function readPostgresUrl(text: string): { readonly url: string; readonly shown: string } {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^postgres(ql)?:$/.test(url.protocol)) {
    throw new UsageError(`--postgres: given something else, ${EXPECTED}`)
  }
  // A single word before the @ may be a password, too; so may what follows the ?.
  const who = url.username === '' ? '' : `${url.password === '' ? '***' : url.username}@`
  return { url: text, shown: `${url.protocol}//${who}${url.host}${url.pathname}` }
}

/** A client of one connection, by the package that is installed in the folder. */
function connect(url: string, answerMs: number, folder: string): { client: object; end(): Promise<unknown> } {
  const load = createRequire(join(folder, 'package.json'))
  const names = ['pg', 'postgres']
  const name = names.find(one => {
    try {
      return load.resolve(one) !== ''
    } catch {
      return false
    }
  })
  if (name === undefined) {
    throw new SpillwayError(`--postgres needs the package ${names.join(' or ')} in this folder, like: npm install pg`)
  }
  if (name === 'postgres') {
    const sql = load(name)(url, { max: 1, connect_timeout: answerMs / 1000, onnotice: () => {} })
    return { client: sql, end: () => sql.end({ timeout: 0 }) }
  }
  const pool = new (load(name).Pool)({ connectionString: url, max: 1, connectionTimeoutMillis: answerMs })
  // A connection that breaks makes its query fail, too.
  pool.on('error', () => {})
  return { client: pool, end: () => pool.end() }
}

/** Examines a server and the table of a store, by the client that is installed in `folder`. */
export async function examinePostgres(
  url: string,
  { table, prefix }: Pick<Examined, 'table' | 'prefix'>,
  { answerMs, interrupted }: { readonly answerMs: number; readonly interrupted: AbortSignal },
  folder = process.cwd(),
): Promise<Finding[]> {
  const { client, end } = connect(url, answerMs, folder)
  const port = postgresPort(client, 'PostgresStore')
  const ended = new Promise<never>((_, reject) => {
    const end = () => reject(new SpillwayError('no answer in time'))
    if (interrupted.aborted) end()
    interrupted.addEventListener('abort', end, { once: true })
  })
  ended.catch(() => {})
  const ask: Examined['ask'] = (text, values = []) =>
    Promise.race([
      port.send(text, values, undefined).rows,
      ended,
      rejection(answerMs, `it did not answer within ${answerMs} ms`),
    ])
  const examined = { ask, client, table, prefix }
  const findings: Finding[] = []
  const add = async (subject: string, look: () => Promise<Finding>) => {
    findings.push(await look().catch(error => unseen(subject, (error as Error).message, 'allow the user to see it')))
  }
  try {
    findings.push(await versionFinding(examined))
    await add('role', () => roleFinding(examined))
    await add('isolation', () => isolationFinding(examined))
    await add('connections', () => connectionFinding(examined))
    await add('latency', () => latencyFinding('SELECT 1', () => ask('SELECT 1')))
    await add('clock', () => clockFinding(async () => Number((await ask(NOW))[0].now)))
    const { findings: ofTable, isThere } = await tableFindings(examined)
    findings.push(...ofTable)
    if (isThere) {
      await add('rights', () => rightsFinding(examined))
      findings.push(await decisionFinding(examined))
      await add('writes', () => writesFinding(examined))
      await add('snapshots', () => snapshotFinding(examined))
    }
  } catch (error) {
    findings.push(problem('server', ...troubleOf(error)))
  } finally {
    // One that hangs is left alone: the command ends the process.
    await Promise.race([end(), new Promise(done => setTimeout(done, 100))])
  }
  return findings
}

const NOW = "SELECT date_part('epoch', clock_timestamp()) * 1000 AS now"

function rejection(ms: number, message: string): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new SpillwayError(message)), ms).unref()
  })
}

/** What helps, by the code of the system or of the server. */
const REMEDIES: Readonly<Record<string, string>> = {
  '28P01': 'check the user and the password; PGPASSWORD may hold it',
  '28000': 'let pg_hba.conf admit this user from here, with TLS if it asks for it (?sslmode=require)',
  '3D000': 'the last part of the URL names the database',
  '53300': 'raise max_connections, or give each store a small pool of its own',
  '57P03': 'the server starts: wait',
}

function troubleOf(error: unknown): [text: string, remedy: string] {
  const { errors, ...only } = error as AggregateError & { readonly code?: string }
  const first = (errors?.[0] ?? error) as Error & { readonly code?: string }
  const text = first.message || (error as Error).message || String(first.code ?? only.code)
  return [text, REMEDIES[String(first.code)] ?? 'see whether it runs, and whether the address is right']
}

import {
  type Arguments,
  type Command,
  columnsOf,
  EXIT,
  type Option,
  type Terminal,
  UsageError,
  write,
} from '../arguments.js'
import {
  hostAndPort,
  REDIS_HELP,
  REDIS_OPTIONS,
  readRedis,
  type SecureAddress,
  shownAddress,
} from '../redis-address.js'
import { Connection, fieldsOf, type Reply, type ReplyLimits, troubleOf, WaitNotice } from '../redis-connection.js'
import { TABLE_OPTION } from '../sql-command.js'
import { type Diagnosis, diagnosisAsJson, diagnosisAsText, type Finding, hasProblem, problem } from './diagnosis.js'
import { channelFinding, scriptFinding } from './permissions.js'
import { examinePostgres, POSTGRES_OPTION, readPostgresUrl } from './postgres.js'
import {
  clockFinding,
  clusterFinding,
  connectionFindings,
  latencyFinding,
  lifetimeFinding,
  memoryFinding,
  persistenceFinding,
  readServerInfo,
  redisClock,
  roleFinding,
  slownessFinding,
  versionFinding,
} from './server-checks.js'

/**
 * Examines a server, and in a cluster the other primaries. `reached` is called once it is known whether the server
 * answers.
 */
export async function examine(
  address: SecureAddress,
  prefix: string,
  limits: ReplyLimits,
  reached = () => {},
): Promise<Finding[]> {
  const findings: Finding[] = []
  try {
    const connection = await Connection.open(address, limits).finally(reached)
    const others = await examineNode(connection, address, prefix, findings)
    const looks = others.map(async other => {
      const found: Finding[] = []
      await Connection.open(other, limits)
        .then(opened => examineNode(opened, other, prefix, found))
        .catch(error => found.push(unreachable(error)))
      const node = hostAndPort(other.host, other.port)
      // A check that passes on every server is reported once.
      return found
        .filter(({ state }) => state === 'warning' || state === 'problem')
        .map(finding => ({ ...finding, node }))
    })
    findings.push(...(await Promise.all(looks)).flat())
  } catch (error) {
    findings.push(unreachable(error))
  }
  return findings
}

/** Adds findings as they are made; returns the addresses of the other primaries. */
async function examineNode(
  connection: Connection,
  address: SecureAddress,
  prefix: string,
  findings: Finding[],
): Promise<SecureAddress[]> {
  try {
    const server = await readServerInfo(connection)
    const isCluster = server.info('cluster_enabled') === '1'
    const sentinel = server.info('redis_mode') === 'sentinel'
    findings.push(versionFinding(server), roleFinding(server))
    if (sentinel) return []
    const clusterInfo = isCluster ? fieldsOf(await connection.ask('CLUSTER', 'INFO')) : undefined
    const cluster = clusterFinding(server, clusterInfo)
    if (cluster) findings.push(cluster)
    findings.push(memoryFinding(server), persistenceFinding(server), ...connectionFindings(server))
    findings.push(await latencyFinding('PING', () => connection.ask('PING')), await slownessFinding(connection))
    findings.push(await clockFinding(() => redisClock(connection)))
    if (server.info('role') !== 'slave') findings.push(await scriptFinding(connection, prefix, isCluster))
    findings.push(await channelFinding(address, prefix, connection.limits), await lifetimeFinding(connection, prefix))
    return isCluster ? otherPrimaries(await connection.ask('CLUSTER', 'SLOTS'), address, server.info('tcp_port')) : []
  } finally {
    connection.close()
  }
}

function unreachable(error: unknown): Finding {
  const { text, remedy } = troubleOf(error)
  return problem('server', text, remedy)
}

function otherPrimaries(slots: Reply, address: SecureAddress, ownPort: string | undefined): SecureAddress[] {
  const primaries = new Map<string, SecureAddress>()
  for (const range of Array.isArray(slots) ? slots : []) {
    const [host, port] = Array.isArray(range) && Array.isArray(range[2]) ? range[2] : []
    if (typeof port !== 'number') continue
    // A node that does not know its own address returns none: it is the one we are connected to.
    const other = { ...address, host: typeof host === 'string' && host !== '' ? host : address.host, port }
    primaries.set(hostAndPort(other.host, port), other)
  }
  return [...primaries.values()].filter(
    ({ host, port }) => port !== address.port || (host !== address.host && String(port) !== ownPort),
  )
}

const ANSWER_MS = 2000
const LONGEST_MS = 15_000

const HELP = `Usage: spillway doctor --redis URL [options]
       spillway doctor --postgres URL [options]

Finds misconfigurations of Redis or PostgreSQL that affect limiters, and explains the fix. Of Redis: eviction, persistence, version,
role, cluster slots, latency, clocks, permissions, closed connections, keys without a lifetime. Of PostgreSQL: the table and its
format, rights, fill factor, how it is written, old snapshots, isolation, version, role, latency, clocks. Changes nothing: it does
what a limiter does on its own key, which expires within seconds.

  spillway doctor --redis redis://127.0.0.1:6379
  REDIS_URL=rediss://user:password@redis.example:6380/2 spillway doctor --json
  PGPASSWORD=... spillway doctor --postgres postgres://user@db.example/app

${REDIS_HELP}
  --postgres URL   examines this PostgreSQL instead, by the package pg or postgres of this folder
  --table NAME     of your PostgresStore, default spillway
  --prefix TEXT    of your store, default spillway
  --json           { redis or postgres, ok, findings: [{ subject, state, text, remedy, node }], tookMs }
  -h, --help

A state is ok, warning, problem, or unseen if the user has no permission for the check. In a cluster every primary is examined.
Takes at most ${LONGEST_MS / 1000} s, whatever the server does.
Exit codes: 0 no problem, 1 a problem, 2 invalid arguments, 130 Ctrl-C.
`

const OPTIONS: Record<string, Option> = {
  ...REDIS_OPTIONS,
  postgres: POSTGRES_OPTION,
  table: TABLE_OPTION,
  json: { example: '--json' },
}

export const doctorCommand: Command = {
  summary: 'finds misconfigurations of Redis or PostgreSQL and explains the fix',
  help: HELP,
  options: OPTIONS,

  async run(given, terminal, interrupted) {
    const startedAt = performance.now()
    const limits = { answerMs: ANSWER_MS, interrupted: AbortSignal.any([interrupted, AbortSignal.timeout(LONGEST_MS)]) }
    const found = given.has('postgres')
      ? await lookAtPostgres(given, limits)
      : await lookAtRedis(given, terminal, limits)
    const diagnosis: Diagnosis = { ...found, tookMs: performance.now() - startedAt }
    const json = given.has('json')
    await write(
      terminal.stdout,
      json ? diagnosisAsJson(diagnosis) : diagnosisAsText(diagnosis, columnsOf(terminal, 100, 140)),
    )
    if (interrupted.aborted) return EXIT.interrupted
    return hasProblem(diagnosis) ? EXIT.fault : EXIT.ok
  },
}

async function lookAtRedis(given: Arguments, terminal: Terminal, limits: ReplyLimits) {
  if (given.has('table')) throw new UsageError(`--table: expected it with --postgres, like ${POSTGRES_OPTION.example}`)
  const { address, prefix } = readRedis('doctor', given, terminal)
  const notice = new WaitNotice(terminal, address)
  const findings = await examine(address, prefix, limits, () => notice.stop())
  return { kind: 'redis', server: shownAddress(address), findings } as const
}

async function lookAtPostgres(given: Arguments, limits: ReplyLimits) {
  const other =
    given.positionals.length > 0 ? 'a word' : ['redis', 'cacert', 'cert', 'key'].find(name => given.has(name))
  if (other !== undefined) {
    throw new UsageError(
      `given ${other} beside --postgres, expected --table, --prefix or --json, like ${POSTGRES_OPTION.example}`,
    )
  }
  const { url, shown } = readPostgresUrl(given.values('postgres')[0])
  const [table = 'spillway'] = given.values('table')
  const [prefix = 'spillway'] = given.values('prefix')
  return { kind: 'postgres', server: shown, findings: await examinePostgres(url, { table, prefix }, limits) } as const
}

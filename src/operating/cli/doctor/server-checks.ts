import { keySegment } from '../../../limiter/core/key-segment.js'
import { type Connection, fieldsOf, type Reply, ReplyError, SENTINEL } from '../redis-connection.js'
import { sizeOf } from '../table.js'
import { type Finding, ok, problem, unseen, warning } from './diagnosis.js'

const SETTINGS = ['save', 'timeout', 'tcp-keepalive', 'stop-writes-on-bgsave-error', 'cluster-require-full-coverage']

/** The answers of a server to INFO and CONFIG GET. */
interface ServerInfo {
  /** Undefined if INFO has no such field, or is not permitted. */
  info(field: string): string | undefined
  /** As `info`, as a number. */
  number(field: string): number | undefined
  /** Undefined if CONFIG is not permitted. */
  setting(name: string): string | undefined
  /** Why INFO was refused. */
  readonly refused: string | undefined
}

export async function readServerInfo(connection: Connection): Promise<ServerInfo> {
  const [told, ...settings] = await Promise.all([
    connection.ask('INFO'),
    ...SETTINGS.map(name => connection.ask('CONFIG', 'GET', name)),
  ])
  const fields = fieldsOf(told)
  const values = new Map(settings.flatMap(pairOf))
  return {
    info: field => fields?.get(field),
    number(field) {
      const text = fields?.get(field)
      return text === undefined || text === '' || Number.isNaN(Number(text)) ? undefined : Number(text)
    },
    setting: name => values.get(name),
    refused: told instanceof ReplyError ? told.message : undefined,
  }
}

function pairOf(reply: Reply): (readonly [string, string])[] {
  if (!Array.isArray(reply) || reply.length < 2) return []
  return [[String(reply[0]), String(reply[1])]]
}

const CONNECTIONS = 'connections'

/** The server's limits for connected clients. */
export function connectionFindings(server: ServerInfo): Finding[] {
  return [...idleFindings(server), ...crowdFindings(server)]
}

function idleFindings(server: ServerInfo): Finding[] {
  const [idle, keepAlive] = [server.setting('timeout'), server.setting('tcp-keepalive')]
  if (idle === undefined || keepAlive === undefined) {
    return [unseen(CONNECTIONS, 'timeout and tcp-keepalive: CONFIG GET would tell', 'allow CONFIG GET')]
  }
  const findings: Finding[] = []
  if (idle !== '0') {
    findings.push(
      warning(
        CONNECTIONS,
        `timeout ${idle}: a client that is idle for ${idle} s is disconnected, and onStoreFailure answers its first decisions after that`,
        'set timeout 0',
      ),
    )
  }
  if (keepAlive === '0') {
    findings.push(
      warning(CONNECTIONS, 'tcp-keepalive 0: connections of clients that died are kept', 'set tcp-keepalive 300'),
    )
  }
  return findings.length > 0 ? findings : [ok(CONNECTIONS, `timeout 0, tcp-keepalive ${keepAlive}`)]
}

function crowdFindings(server: ServerInfo): Finding[] {
  const [here, most] = [server.number('connected_clients'), server.number('maxclients')]
  if (here === undefined || most === undefined || here < 0.9 * most) return []
  return [
    warning(
      CONNECTIONS,
      `${here} of at most ${most} clients connected: further clients are refused`,
      'raise maxclients, or find the service that keeps so many connections',
    ),
  ]
}

const MEMORY = 'memory'

/** The eviction policy: what the server does when its memory is full. */
export function memoryFinding(server: ServerInfo): Finding {
  const most = server.number('maxmemory')
  const used = server.number('used_memory')
  const policy = server.info('maxmemory_policy')
  if (most === undefined || used === undefined || policy === undefined) {
    return unseen(MEMORY, 'the server does not report its memory', 'allow INFO, or see what maxmemory-policy says')
  }
  if (most === 0) {
    return warning(
      MEMORY,
      `no maxmemory: ${sizeOf(used)} used, and the system may kill the server when memory runs out`,
      'set maxmemory to what the machine can spare, with maxmemory-policy noeviction',
    )
  }
  const full = `${sizeOf(used)} of ${sizeOf(most)} used`
  if (policy === 'noeviction') return fullness(used / most, full)
  const evicted = server.number('evicted_keys') ?? 0
  const already = evicted > 0 ? `, ${evicted} keys evicted since it started` : ''
  if (policy.startsWith('volatile-')) {
    return warning(
      MEMORY,
      `maxmemory-policy ${policy}: when the memory is full (${full}${already}) keys with a lifetime are evicted first, and every ` +
        'count of a limit has one: an evicted key may spend its whole quota again',
      'set maxmemory-policy noeviction (onStoreFailure then answers failed decisions), or give limits a server of their own',
    )
  }
  return problem(
    MEMORY,
    `maxmemory-policy ${policy}: when the memory is full (${full}${already}) any key may be evicted: counts of limits, so that too ` +
      'much is let through, and rates, permits and queued messages, which have no lifetime and are then lost',
    'set maxmemory-policy noeviction',
  )
}

function fullness(part: number, full: string): Finding {
  const text = `noeviction, ${full}`
  if (part >= 1) {
    return problem(MEMORY, `${text}: it refuses to write, and onStoreFailure decides`, 'raise maxmemory or free memory')
  }
  return part < 0.9 ? ok(MEMORY, text) : warning(MEMORY, `${text}: full, it refuses to write`, 'raise maxmemory')
}

const PERSISTENCE = 'persistence'

/** What a restart loses, by the persistence settings. */
export function persistenceFinding(server: ServerInfo): Finding {
  const log = server.info('aof_enabled')
  if (log === undefined) return unseen(PERSISTENCE, 'the server does not report what it saves', 'allow INFO')
  const failed = server.info('rdb_last_bgsave_status') === 'err' || server.info('aof_last_write_status') === 'err'
  if (failed && server.setting('stop-writes-on-bgsave-error') !== 'no') {
    return problem(
      PERSISTENCE,
      'its last attempt to save failed, and it may refuse to write (MISCONF): onStoreFailure then decides',
      'see the log of the server; usually its disk is full, or it may not write to the folder',
    )
  }
  if (log === '1') return ok(PERSISTENCE, 'appendonly: a restart keeps all but about the last second')
  const snapshots = server.setting('save')
  if (snapshots === undefined) {
    return unseen(
      PERSISTENCE,
      'no appendonly; whether it saves snapshots, CONFIG GET save would tell',
      'allow CONFIG GET',
    )
  }
  if (snapshots !== '') {
    return ok(
      PERSISTENCE,
      `snapshots (save ${snapshots}): a crash forgets what came after the last; queues want appendonly`,
    )
  }
  return warning(
    PERSISTENCE,
    'none: a restart forgets everything. Fine for limits, whose clients then start afresh; delayed messages and permits are lost',
    'for queues, semaphores and rates that are set once: appendonly yes',
  )
}

/** The first version with all commands that our scripts use. */
const OLDEST = [6, 2]

export function versionFinding(server: ServerInfo): Finding {
  const redis = server.info('redis_version')
  if (redis === undefined)
    return unseen('version', server.refused ?? 'the server does not report its version', 'allow INFO')
  const name = `${server.info('server_name') === 'valkey' ? `Valkey ${server.info('valkey_version')}, as ` : ''}Redis ${redis}`
  const [major, minor] = redis.split('.').map(Number)
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    return problem('version', `${name}: older than 6.2`, 'use Redis 6.2 or later, or Valkey')
  }
  return ok('version', name)
}

/** Whether the server accepts writes. */
export function roleFinding(server: ServerInfo): Finding {
  const role = server.info('role')
  if (server.info('redis_mode') === 'sentinel') {
    return problem('role', ...SENTINEL)
  }
  if (role === undefined) return unseen('role', 'the server does not report its role', 'allow INFO')
  if (role === 'master') {
    const replicas = server.number('connected_slaves') ?? 0
    return ok('role', replicas === 0 ? 'primary' : `primary, replicas: ${replicas}`)
  }
  const primary = `${server.info('master_host')}:${server.info('master_port')}`
  return problem(
    'role',
    `a replica of ${primary}, link ${server.info('master_link_status')}: every decision that spends fails (READONLY)`,
    'connect to the primary; behind sentinels or in a cluster let the client find it',
  )
}

/** `clusterInfo`: the fields of CLUSTER INFO. */
export function clusterFinding(
  server: ServerInfo,
  clusterInfo: ReadonlyMap<string, string> | undefined,
): Finding | undefined {
  if (server.info('cluster_enabled') !== '1') return undefined
  if (clusterInfo === undefined) return unseen('cluster', 'on, but CLUSTER INFO may not be asked', 'allow cluster|info')
  const count = (field: string) => Number(clusterInfo.get(field) ?? 0)
  const open = 16_384 - count('cluster_slots_assigned')
  const failing = count('cluster_slots_pfail') + count('cluster_slots_fail')
  const remedy = 'redis-cli --cluster check lists them, --cluster fix repairs them'
  if (open > 0) {
    const all = server.setting('cluster-require-full-coverage') === 'no' ? 'their keys fail' : 'every key fails'
    return problem('cluster', `${open} of 16384 slots belong to no node: ${all} (CLUSTERDOWN)`, remedy)
  }
  if (failing > 0 || clusterInfo.get('cluster_state') !== 'ok') {
    return problem('cluster', `state ${clusterInfo.get('cluster_state')}, ${failing} slots on nodes that fail`, remedy)
  }
  const nodes = `${clusterInfo.get('cluster_size')} primaries, all slots covered`
  return count('cluster_size') < 3
    ? warning('cluster', `${nodes}: too few to agree on a failover`, 'have three primaries')
    : ok('cluster', `${nodes}; give the store a cluster client`)
}

const LONGEST_MS = 1000
const A_STEP = 1000
const MOST_LOOKED_AT = 5000
const MOST_NAMED = 3
/**
 * The endings of limit keys: see `countName` in src/limiter/count-name.ts. Keys of queues and other shared objects may live
 * for ever.
 */
const OF_A_LIMIT = /[:@/](?:(?:fw|sw|sc)\d+|tb|lb)(?::line)?$/

/** Finds limit keys without a lifetime, which every write should set: a scan of the server, within a time limit. */
export async function lifetimeFinding(connection: Connection, prefix: string): Promise<Finding> {
  const end = performance.now() + LONGEST_MS
  const forever: string[] = []
  let [cursor, looked, walked] = ['0', 0, 0]
  do {
    const reply = await connection.ask('SCAN', cursor, 'MATCH', `${escaped(keySegment(prefix))}:*`, 'COUNT', A_STEP)
    if (!Array.isArray(reply)) {
      const why = reply instanceof ReplyError ? reply.message : 'an answer that the doctor does not understand'
      return unseen('lifetimes', why, 'run the doctor as a user who may SCAN and PTTL; limiters need not')
    }
    cursor = String(reply[0])
    walked += A_STEP
    const keys = (reply[1] as readonly string[]).filter(key => OF_A_LIMIT.test(key))
    const lifetimes = await Promise.all(keys.map(key => connection.ask('PTTL', key)))
    forever.push(...keys.filter((_, i) => lifetimes[i] === -1))
    looked += keys.length
  } while (cursor !== '0' && looked < MOST_LOOKED_AT && performance.now() < end)
  const far = cursor === '0' ? 'all' : `the first ${looked} (time ran out after about ${walked} keys)`
  if (forever.length === 0) return ok('lifetimes', `${looked} keys of limits looked at, ${far}: each has a lifetime`)
  return warning(
    'lifetimes',
    `${forever.length} of ${looked} keys of limits have none, like ${forever.slice(0, MOST_NAMED).join(' ')}: they stay until they are used again`,
    'find what removed it (PERSIST, or RESTORE with a ttl of 0), and delete these keys',
  )
}

function escaped(prefix: string): string {
  return prefix.replace(/[\\*?[\]^-]/g, '\\$&')
}

const MOST_PINGS = 200
const PINGING_MS = 1000
/** The default deadline of a `RateLimiter`. */
const DEADLINE_MS = 50
/** A clock difference from which on to warn: times in headers are wrong by as much. */
const CLOCK_MS = 1000

/** The duration of a round trip, from many samples. */
export async function latencyFinding(name: 'PING' | 'SELECT 1', ask: () => Promise<unknown>): Promise<Finding> {
  const rounds: number[] = []
  const end = performance.now() + PINGING_MS
  while (rounds.length < MOST_PINGS && performance.now() < end) {
    const askedAt = performance.now()
    // An error answer counts too: it takes as long.
    await ask()
    rounds.push(performance.now() - askedAt)
  }
  rounds.sort((a, b) => a - b)
  const [p50, p99] = [rounds[Math.floor(rounds.length * 0.5)], rounds[Math.floor(rounds.length * 0.99)]]
  const text = `${name} takes ${p50.toFixed(1)} ms (p50), ${p99.toFixed(1)} ms (p99) of the ${DEADLINE_MS} ms that a decision may`
  const remedy = 'bring the processes closer to the server, or give the limiter a longer deadline'
  if (p50 >= DEADLINE_MS) return problem('latency', `${text}: onStoreFailure answers most decisions`, remedy)
  if (p99 >= DEADLINE_MS) return warning('latency', `${text}: onStoreFailure answers some decisions`, remedy)
  if (p99 >= DEADLINE_MS / 2) return warning('latency', `${text}: little margin is left`, remedy)
  return ok('latency', text)
}

/** The clock of Redis, ms; its words where it does not tell. */
export async function redisClock(connection: Connection): Promise<number | string> {
  const reply = await connection.ask('TIME')
  return Array.isArray(reply) ? Number(reply[0]) * 1000 + Number(reply[1]) / 1000 : refusal(reply)
}

/**
 * Compares the server's clock, which all decisions use, with the clock of this process. `ask`: the server's, ms, or why
 * it is not told.
 */
export async function clockFinding(ask: () => Promise<number | string>): Promise<Finding> {
  const askedAt = Date.now()
  const there = await ask()
  const answeredAt = Date.now()
  if (typeof there === 'string') return unseen('clock', there, 'allow TIME: every script asks it')
  const apart = there < askedAt ? there - askedAt : Math.max(0, there - answeredAt)
  const text = `${Math.abs(apart) < 1 ? 'agrees with' : `${Math.abs(apart).toFixed(0)} ms ${apart < 0 ? 'behind' : 'ahead of'}`} this machine's`
  if (Math.abs(apart) <= CLOCK_MS) return ok('clock', text)
  return warning(
    'clock',
    `${text}: decisions go by the server's and stay right, but moments that you compute here (at, dueAt, expiresAt) are off`,
    'synchronize both with NTP',
  )
}

/** Recent commands that blocked the server. */
export async function slownessFinding(connection: Connection): Promise<Finding> {
  const reply = await connection.ask('SLOWLOG', 'GET', 128)
  if (!Array.isArray(reply)) return unseen('slowness', refusal(reply), 'allow SLOWLOG GET')
  const hourAgo = Date.now() / 1000 - 3600
  const slow = reply.flatMap(entry => {
    if (!Array.isArray(entry) || Number(entry[1]) < hourAgo) return []
    const ms = Number(entry[2]) / 1000
    return ms >= DEADLINE_MS ? [{ ms, command: Array.isArray(entry[3]) ? String(entry[3][0]) : '?' }] : []
  })
  if (slow.length === 0) return ok('slowness', `no command of the last hour is known to have taken ${DEADLINE_MS} ms`)
  const worst = slow.reduce((a, b) => (b.ms > a.ms ? b : a))
  return warning(
    'slowness',
    `${slow.length} commands of the last hour took ${DEADLINE_MS} ms or more, the longest ${worst.ms.toFixed(0)} ms (${worst.command}): ` +
      'everybody waits meanwhile',
    'SLOWLOG GET tells which; KEYS, large deletions and long scripts belong on another server',
  )
}

function refusal(reply: unknown): string {
  return reply instanceof ReplyError ? reply.message : 'an answer that the doctor does not understand'
}

import { hostAndPort } from '../redis-address.js'
import type { SecureAddress } from './certificates.js'
import { connectionFindings } from './clients.js'
import { Connection, ConnectionError, type Patience } from './connection.js'
import { type Finding, problem } from './finding.js'
import { clockFinding, latencyFinding, slownessFinding } from './latency.js'
import { lifetimeFinding } from './lifetimes.js'
import { memoryFinding } from './memory.js'
import { channelFinding, scriptFinding } from './permissions.js'
import { persistenceFinding } from './persistence.js'
import { type Reply, ReplyError } from './replies.js'
import { clusterFinding, roleFinding, versionFinding } from './role.js'
import { readServerInfo } from './server-info.js'

/** Error codes that a server returns for every command while it cannot serve. */
const NOT_NOW: Readonly<Record<string, string>> = {
  LOADING: 'it reads its data from disk: wait',
  BUSY: 'a script runs for too long and blocks all clients: SCRIPT KILL ends it',
  MASTERDOWN: 'it has lost its primary: find out why, or promote it',
  NOAUTH: 'give the password in the URL: redis://user:password@host, or redis://:password@host without a name',
  WRONGPASS: 'check the name and the password in the URL; special characters are written as in URLs (%2F for /)',
  NOPERM: 'allow the user what docs/operating.md lists under "Permissions"',
}

/** Examines a server, and in a cluster the other primaries. */
export async function examine(address: SecureAddress, prefix: string, patience: Patience): Promise<Finding[]> {
  const findings: Finding[] = []
  try {
    const others = await examineNode(address, prefix, patience, findings)
    const looks = others.map(async other => {
      const found: Finding[] = []
      await examineNode(other, prefix, patience, found).catch(error => found.push(unreachable(error)))
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
  address: SecureAddress,
  prefix: string,
  patience: Patience,
  findings: Finding[],
): Promise<SecureAddress[]> {
  const connection = await Connection.open(address, patience)
  try {
    const pong = await connection.ask('PING')
    const word = pong instanceof ReplyError ? pong.message.split(' ')[0] : ''
    // A user without permission for PING may still have all permissions that are needed.
    if (word !== '' && word !== 'NOPERM') {
      throw pong
    }
    const server = await readServerInfo(connection)
    const isCluster = server.info('cluster_enabled') === '1'
    const sentinel = server.info('redis_mode') === 'sentinel'
    findings.push(versionFinding(server), roleFinding(server))
    if (sentinel) return []
    const clusterInfo = isCluster ? fieldsOf(await connection.ask('CLUSTER', 'INFO')) : undefined
    const cluster = clusterFinding(server, clusterInfo)
    if (cluster) findings.push(cluster)
    findings.push(memoryFinding(server), persistenceFinding(server), ...connectionFindings(server))
    findings.push(await latencyFinding(connection), await slownessFinding(connection), await clockFinding(connection))
    if (server.info('role') !== 'slave') findings.push(await scriptFinding(connection, prefix, isCluster))
    findings.push(await channelFinding(address, prefix, patience), await lifetimeFinding(connection, prefix))
    return isCluster ? otherPrimaries(await connection.ask('CLUSTER', 'SLOTS'), address, server.info('tcp_port')) : []
  } finally {
    connection.close()
  }
}

/** The finding for a ConnectionError, or for a server that refuses our commands. */
function unreachable(error: unknown): Finding {
  if (error instanceof ReplyError) {
    const word = error.message.split(' ')[0]
    return problem('server', error.message, NOT_NOW[word] ?? 'see what the server says')
  }
  if (!(error instanceof ConnectionError)) throw error
  return problem(
    'server',
    error.message,
    'see whether it runs, whether the address is right, and rediss: where it wants TLS',
  )
}

function fieldsOf(reply: Reply): ReadonlyMap<string, string> | undefined {
  if (typeof reply !== 'string') return undefined
  return new Map(reply.split('\r\n').map(line => line.split(':') as [string, string]))
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

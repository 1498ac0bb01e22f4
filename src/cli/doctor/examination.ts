import { hostAndPort, type SecureAddress } from '../redis-address.js'
import { Connection, fieldsOf, type Patience, type Reply, troubleOf } from '../redis-connection.js'
import { type Finding, problem } from './finding.js'
import { clockFinding, latencyFinding, slownessFinding } from './latency.js'
import { channelFinding, scriptFinding } from './permissions.js'
import {
  clusterFinding,
  connectionFindings,
  lifetimeFinding,
  memoryFinding,
  persistenceFinding,
  readServerInfo,
  roleFinding,
  versionFinding,
} from './server-checks.js'

/** Examines a server, and in a cluster the other primaries. `reached` is called once it is known whether the server answers. */
export async function examine(
  address: SecureAddress,
  prefix: string,
  patience: Patience,
  reached = () => {},
): Promise<Finding[]> {
  const findings: Finding[] = []
  try {
    const connection = await Connection.open(address, patience).finally(reached)
    const others = await examineNode(connection, address, prefix, findings)
    const looks = others.map(async other => {
      const found: Finding[] = []
      await Connection.open(other, patience)
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
    findings.push(await latencyFinding(connection), await slownessFinding(connection), await clockFinding(connection))
    if (server.info('role') !== 'slave') findings.push(await scriptFinding(connection, prefix, isCluster))
    findings.push(await channelFinding(address, prefix, connection.patience), await lifetimeFinding(connection, prefix))
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

import { type Finding, ok, unseen, warning } from './finding.js'
import type { ServerInfo } from './server-info.js'

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

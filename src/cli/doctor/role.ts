import { SENTINEL } from '../wait-notice.js'
import { type Finding, ok, problem, unseen, warning } from './finding.js'
import type { ServerInfo } from './server-info.js'

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

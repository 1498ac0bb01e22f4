import { type Finding, ok, problem, unseen, warning } from './finding.js'
import type { ServerInfo } from './server-info.js'

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

function sizeOf(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(1)} MB`
}

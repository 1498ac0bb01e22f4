import { type Finding, ok, problem, unseen, warning } from './finding.js'
import type { ServerInfo } from './server-info.js'

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

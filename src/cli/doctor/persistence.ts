import type { Facts } from './facts.js'
import { type Finding, ok, problem, unseen, warning } from './finding.js'

const PERSISTENCE = 'persistence'

/** What a restart loses, by the persistence settings. */
export function persistenceFinding(facts: Facts): Finding {
  const log = facts.info('aof_enabled')
  if (log === undefined) return unseen(PERSISTENCE, 'the server does not report what it saves', 'allow INFO')
  const failed = facts.info('rdb_last_bgsave_status') === 'err' || facts.info('aof_last_write_status') === 'err'
  if (failed && facts.setting('stop-writes-on-bgsave-error') !== 'no') {
    return problem(
      PERSISTENCE,
      'its last attempt to save failed, and it may refuse to write (MISCONF): onStoreFailure then decides',
      'see the log of the server; usually its disk is full, or it may not write to the folder',
    )
  }
  if (log === '1') return ok(PERSISTENCE, 'appendonly: a restart keeps all but about the last second')
  const snapshots = facts.setting('save')
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

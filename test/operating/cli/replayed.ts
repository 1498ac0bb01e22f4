import { parsePolicy } from '../../../src/limiter/core/limit.js'
import { LineCutter } from '../../../src/operating/cli/replay/log-source.js'
import { Replay, type ReplayOptions } from '../../../src/operating/cli/replay/replay.js'
import type { Report } from '../../../src/operating/cli/replay/report.js'

export interface Replayed extends Partial<Omit<ReplayOptions, 'policies'>> {
  readonly policies?: readonly string[]
}

/** The report on a log, by ip under '10/1m' unless told otherwise. */
export function replayed(log: Buffer | readonly string[], options: Replayed = {}): Report {
  const { policies = ['10/1m'] } = options
  const replay = new Replay({
    by: 'ip',
    ipv6Subnet: 56,
    top: 10,
    ...options,
    policies: policies.map(text => ({ text, policy: parsePolicy(text) })),
  })
  const cutter = new LineCutter(replay, 4096)
  cutter.push(Buffer.isBuffer(log) ? log : Buffer.from(`${log.join('\n')}\n`))
  cutter.end()
  return replay.finish()
}

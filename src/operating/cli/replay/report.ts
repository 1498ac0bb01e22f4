import type { Policy } from '../../../limiter/core/limit.js'
import { printableWithin } from '../../../limiter/core/printable.js'
import { counted } from '../table.js'
import type { Subject } from './access-log.js'
import type { RankedKey, ReportDetails } from './ranking.js'
import type { TimelineRow } from './timeline.js'

/** Requests over time, in rows of one span. */
interface ReportTimeline {
  readonly spanSeconds: number
  readonly rows: readonly TimelineRow[]
}

/** The result of a replay: the log, then each policy, then all policies side by side. */
export interface Report {
  /** False if the reading ended before the log did. */
  readonly complete: boolean
  readonly by: Subject
  readonly requests: number
  /** Requests without a key, like requests without a user under `--by user`: no limit applies to them. */
  readonly withoutKey: number
  /** Requests with a virtual host before the client. */
  readonly withHost: number
  readonly skipped: SkippedLines
  readonly order: LineOrder
  /** Seconds since the epoch; undefined if there was no request. */
  readonly from: number | undefined
  readonly to: number | undefined
  readonly keys: number
  readonly trials: readonly TrialResult[]
  /** Ranked by the policy that refuses a key most. */
  readonly top: readonly RankedKey[]
  /** In at most 30 rows. */
  readonly timeline: ReportTimeline
  /** Only if it was requested. */
  readonly details?: ReportDetails & { readonly timeline: ReportTimeline }
}

export interface TrialResult {
  readonly text: string
  readonly policy: Policy
  readonly denied: number
  readonly deniedKeys: number
  /** Ranked by this policy alone. */
  readonly top: readonly RankedKey[]
}

/** Lines that are not a request in common or combined format. */
interface SkippedLines {
  readonly lines: number
  /** The number of these lines that are too long to keep. */
  readonly overlong: number
  /** The beginning of the first of these lines, unescaped: escape it before printing. */
  readonly first: { readonly line: number; readonly text: string } | undefined
}

interface LineOrder {
  /** Lines that came earlier than the one before them. */
  readonly outOfOrder: number
  /**
   * 'none': the log was in order; 'whole': the log was sorted as a whole; 'window': each line was sorted within a
   * window of lines.
   */
  readonly sorted: 'none' | 'whole' | 'window'
  readonly windowLines: number
  /** Lines that came too late for the window, counted at the time already reached. */
  readonly late: number
}

/**
 * The report as its page reads it, from JSON: without the keys that only the other forms name. Waits of −1 never end.
 */
export type PageReport = Omit<Report, 'trials' | 'top' | 'details'> & {
  readonly log: string
  readonly trials: ReadonlyArray<Omit<TrialResult, 'top'>>
  readonly details: NonNullable<Report['details']>
}

/** 'A' for the first of several policies; nothing for a single one. */
export function letterOf(index: number, policies: number): string {
  if (policies === 1) return ''
  return index < 26 ? String.fromCharCode(65 + index) : String(index + 1)
}

/** A number as text: '1,729' in a terminal, '1 729' on a page. */
type Count = (value: number) => string

/** What is to be said of the lines of the log: read, skipped, out of order. */
export function noteLines(report: Omit<Report, 'trials' | 'top'>, count: Count): string[] {
  const { by, withoutKey, withHost, complete, order, skipped } = report
  const requests = (value: number) => counted(value, 'request', count)
  const lines: string[] = []
  if (!complete) lines.push('Only a part: the reading ended before the log did.')
  if (withoutKey > 0) lines.push(`Without ${by}: ${requests(withoutKey)}, under no limit and counted as allowed.`)
  if (withHost > 0) lines.push(`With a virtual host before the client: ${requests(withHost)}.`)
  return [...lines, ...orderLines(order, count), ...skippedLines(skipped, count)]
}

function orderLines({ outOfOrder, sorted, windowLines, late }: LineOrder, count: Count): string[] {
  if (sorted === 'none') return []
  const many = `Out of order: ${counted(outOfOrder, 'line', count)}, earlier than the line before;`
  if (sorted === 'whole') return [`${many} the whole log was sorted by time.`]
  const lines = [`${many} too many to hold, so each was sorted by time among the next ${count(windowLines)}.`]
  if (late > 0) lines.push(`Later still: ${counted(late, 'line', count)}, counted at the time reached by then.`)
  return lines
}

/** Why lines were skipped. */
export function skippedLines({ lines, overlong, first }: SkippedLines, count: Count): string[] {
  if (lines === 0) return []
  const long = overlong > 0 ? `, ${count(overlong)} of them too long for a line of a log` : ''
  const where = first ? `; the first is line ${count(first.line)}: ${printableWithin(first.text, 60) || '(blank)'}` : ''
  return [`Skipped: ${counted(lines, 'line', count)} that hold no request${long}${where}`]
}

import type { Policy } from '../../core/limit.js'
import type { ReportDetails } from './html-details.js'
import type { Subject } from './page-data.js'
import type { RankedKey } from './ranking.js'
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
export interface SkippedLines {
  readonly lines: number
  /** The number of these lines that are too long to keep. */
  readonly overlong: number
  /** The beginning of the first of these lines, unescaped: escape it before printing. */
  readonly first: { readonly line: number; readonly text: string } | undefined
}

export interface LineOrder {
  /** Lines that came earlier than the one before them. */
  readonly outOfOrder: number
  /** 'none': the log was in order; 'whole': the log was sorted as a whole; 'window': each line was sorted within a window of lines. */
  readonly sorted: 'none' | 'whole' | 'window'
  readonly windowLines: number
  /** Lines that came too late for the window, counted at the time already reached. */
  readonly late: number
}

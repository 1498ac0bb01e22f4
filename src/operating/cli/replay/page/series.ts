/** The rows of a report as the columns of charts. */
import type { SubjectDetails } from '../ranking.js'
import type { PageReport } from '../report.js'
import type { TimelineRow } from '../timeline.js'

/**
 * Longer gaps are shown as a break: otherwise one stray line of another year would compress everything else into a
 * point.
 */
const LONGEST_GAP = 24

/** Columns of a chart; null: a long gap without requests. */
export interface Chart {
  readonly spanSeconds: number
  readonly at: ReadonlyArray<number | null>
  readonly requests: ReadonlyArray<number | null>
  /** By policy. */
  readonly denied: ReadonlyArray<ReadonlyArray<number | null>>
}

/** The chart of all requests. */
export function chartOf({ trials, details: { timeline } }: Pick<PageReport, 'trials' | 'details'>): Chart {
  const { rows, spanSeconds } = timeline
  const starts = rows.map(({ at }) => at)
  return columns(rows, starts, spanSeconds, trials.length)
}

/** The chart of one subject, over the time of all of them. */
export function subjectChart(
  { rows, spanSeconds }: SubjectDetails,
  activity: readonly TimelineRow[],
  policies: number,
) {
  return columns(activity, rows, spanSeconds, policies)
}

function columns(
  rows: readonly TimelineRow[],
  starts: readonly number[],
  spanSeconds: number,
  policies: number,
): Chart {
  const at = columnsOf(starts, spanSeconds)
  const rowAt = new Map(rows.map(row => [row.at, row]))
  const column = (value: (row: TimelineRow) => number) =>
    at.map(moment => {
      const row = moment === null ? undefined : rowAt.get(moment)
      return moment === null ? null : row === undefined ? 0 : value(row)
    })
  return {
    spanSeconds,
    at,
    requests: column(row => row.requests),
    denied: Array.from({ length: policies }, (_, i) => column(row => row.denied[i])),
  }
}

/** What one policy allows and refuses. */
export function trafficOf({ at, requests, denied }: Chart, policy: number) {
  return {
    at: at.map(second => (second ?? 0) * 1000),
    allowed: requests.map((value, i) => (value === null ? null : value - (denied[policy][i] ?? 0))),
    refused: denied[policy],
  }
}

/** All moments from the first row to the last, but for long gaps. */
function columnsOf(rows: readonly number[], spanSeconds: number): Array<number | null> {
  const at: Array<number | null> = []
  for (const [i, moment] of rows.entries()) {
    const missing = i === 0 ? 0 : (moment - rows[i - 1]) / spanSeconds - 1
    if (missing > LONGEST_GAP) at.push(rows[i - 1] + spanSeconds, null, moment - spanSeconds)
    else for (let gap = missing; gap > 0; gap--) at.push(moment - gap * spanSeconds)
    at.push(moment)
  }
  return at
}

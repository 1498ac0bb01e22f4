import { hasManyGaps } from './row-gaps.js'

/** Requests of one span of time, and how many of them each policy refused. */
export interface TimelineRow {
  /** Start of the span, seconds since the epoch. */
  at: number
  requests: number
  readonly denied: number[]
}

const MINUTE = 60
const HOUR = 3600
const DAY = 86_400

/** While counting: each a multiple of the one before, so that rows can be joined. */
const COUNTING_SPANS = [1, 5, 30, MINUTE, 5 * MINUTE, 30 * MINUTE, HOUR, DAY, 30 * DAY, 360 * DAY]
const MOST_COUNTED = 1440
/** For people. Each is a multiple of every counting span below it. */
const SHOWN_SPANS = [
  ...[1, 2, 5, 10, 15, 20, 30],
  ...[1, 2, 5, 10, 15, 20, 30].map(minutes => minutes * MINUTE),
  ...[1, 2, 3, 4, 6, 8, 12].map(hours => hours * HOUR),
  ...[1, 2, 7, 14, 30, 90, 360, 3600].map(days => days * DAY),
]

/**
 * Counts over a time whose length is not known beforehand, in constant memory: when there are too many rows, their spans
 * grow. A span in which nothing happened has no row, so one stray line of another year costs no detail.
 */
export class Timeline {
  #rows: TimelineRow[] = []
  #span = COUNTING_SPANS[0]

  constructor(readonly policies: number) {}

  /** The row of a second not earlier than those before: add to it at once, for later rows may be joined. */
  rowAt(second: number): TimelineRow {
    const at = second - (second % this.#span)
    const last = this.#rows.at(-1)
    if (last !== undefined && last.at === at) return last
    if (this.#rows.length >= MOST_COUNTED) {
      this.#coarsen()
      return this.rowAt(second)
    }
    const row = { at, requests: 0, denied: new Array<number>(this.policies).fill(0) }
    this.#rows.push(row)
    return row
  }

  /** At most `mostRows` rows, in the shortest span that makes a round number for people; for a chart in a span that makes no comb. */
  summary(mostRows: number, { forChart = false } = {}): { spanSeconds: number; rows: TimelineRow[] } {
    let rows = this.#rows
    let spanSeconds = this.#span
    for (const span of SHOWN_SPANS) {
      if (span < this.#span) continue
      spanSeconds = span
      rows = joined(this.#rows, span)
      const starts = rows.map(({ at }) => at)
      if (rows.length <= mostRows && !(forChart && hasManyGaps(starts, span))) break
    }
    return { spanSeconds, rows }
  }

  #coarsen(): void {
    for (const span of COUNTING_SPANS) {
      if (span <= this.#span) continue
      this.#span = span
      this.#rows = joined(this.#rows, span)
      if (this.#rows.length < MOST_COUNTED / 2) return
    }
  }
}

function joined(rows: readonly TimelineRow[], span: number): TimelineRow[] {
  const wide: TimelineRow[] = []
  for (const row of rows) {
    const at = row.at - (row.at % span)
    const last = wide.at(-1)
    if (last === undefined || last.at !== at) wide.push({ at, requests: row.requests, denied: [...row.denied] })
    else {
      last.requests += row.requests
      for (let i = 0; i < last.denied.length; i++) last.denied[i] += row.denied[i]
    }
  }
  return wide
}

/** With few rows, gaps are more informative than merged rows. */
const FEWEST_ROWS = 24

/**
 * Whether rows of this length have so many gaps that a chart would look like a comb, as for a log that was written for a minute in each
 * hour: then a longer row is clearer. A few long gaps do not count.
 */
export function hasManyGaps(rows: readonly number[], spanSeconds: number): boolean {
  let gaps = 0
  for (let i = 1; i < rows.length; i++) if (rows[i] > rows[i - 1] + spanSeconds) gaps++
  return rows.length >= FEWEST_ROWS && gaps > rows.length / 4
}

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

/** The possible lengths of rows: each a multiple of the one before, so that rows can be merged. */
const SPANS = [1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400, 432_000, 2_592_000, 31_104_000]
const MOST_ROWS = 192

/** The requests and refusals of many subjects over time, in rows of one length for all, which grows with the covered time. */
export class ActivitySeries {
  #span = 0
  #rows = new Set<number>()
  #lastRow = -1
  /** Of each subject its rows, one after another: start in seconds, requests, refused by each policy. */
  #series: number[][] = []
  readonly #width: number

  constructor(policies: number) {
    this.#width = 2 + policies
  }

  get spanSeconds(): number {
    return SPANS[this.#span]
  }

  /** Starts of all rows in which anything happened, in seconds. */
  get rows(): number[] {
    return [...this.#rows].sort((a, b) => a - b)
  }

  /** `refused`: for each policy whether it refuses the request. The second is not earlier than those before. */
  add(id: number, second: number, refused: readonly boolean[]): void {
    const at = second - (second % this.spanSeconds)
    if (at !== this.#lastRow) this.#rows.add(at)
    this.#lastRow = at
    while (this.#series.length <= id) this.#series.push([])
    const series = this.#series[id]
    let row = series.length - this.#width
    if (row < 0 || series[row] !== at) {
      row = series.length
      series.push(at, 0)
      for (let i = 0; i < refused.length; i++) series.push(0)
    }
    series[row + 1]++
    for (let i = 0; i < refused.length; i++) if (refused[i]) series[row + 2 + i]++
    while (this.#rows.size > MOST_ROWS && this.#span < SPANS.length - 1) this.#coarsen()
  }

  /** Call after the last `add`: chooses a length of rows in which charts have few gaps. */
  finish(): void {
    while (hasManyGaps(this.rows, this.spanSeconds) && this.#span < SPANS.length - 1) this.#coarsen()
  }

  /** For each row of a subject: its start, its requests, and how many of them each policy refused. */
  of(
    id: number,
  ): ReadonlyArray<{ readonly at: number; readonly requests: number; readonly denied: readonly number[] }> {
    const series = this.#series[id] ?? []
    return Array.from({ length: series.length / this.#width }, (_, i) => {
      const [at, requests, ...denied] = series.slice(i * this.#width, (i + 1) * this.#width)
      return { at, requests, denied }
    })
  }

  #coarsen(): void {
    this.#span++
    const span = this.spanSeconds
    this.#lastRow = -1
    this.#rows = new Set([...this.#rows].map(at => at - (at % span)))
    this.#series = this.#series.map(series => this.#joined(series, span))
  }

  #joined(series: readonly number[], span: number): number[] {
    const wide: number[] = []
    for (let from = 0; from < series.length; from += this.#width) {
      const at = series[from] - (series[from] % span)
      const last = wide.length - this.#width
      if (last < 0 || wide[last] !== at) wide.push(at, ...series.slice(from + 1, from + this.#width))
      else for (let i = 1; i < this.#width; i++) wide[last + i] += series[from + i]
    }
    return wide
  }
}

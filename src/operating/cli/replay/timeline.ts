/** With few rows, gaps are more informative than merged rows. */
const FEWEST_ROWS = 24

/**
 * Whether rows of this length have so many gaps that a chart would look like a comb, as for a log that was written for
 * a minute in each hour: then a longer row is clearer. A few long gaps do not count.
 */
export function hasManyGaps(rows: readonly number[], spanSeconds: number): boolean {
  let gaps = 0
  for (let i = 1; i < rows.length; i++) if (rows[i] > rows[i - 1] + spanSeconds) gaps++
  return rows.length >= FEWEST_ROWS && gaps > rows.length / 4
}

/** Requests of one span of time, and how many of them each policy refused. */
export interface TimelineRow {
  /** Start of the span, seconds since the epoch. */
  readonly at: number
  readonly requests: number
  readonly denied: readonly number[]
}

const MINUTE = 60
const HOUR = 3600
const DAY = 86_400

/** For people. Each is a multiple of every length below it in which all requests are counted. */
const SHOWN_SPANS = [
  ...[1, 2, 5, 10, 15, 20, 30],
  ...[1, 2, 5, 10, 15, 20, 30].map(minutes => minutes * MINUTE),
  ...[1, 2, 3, 4, 6, 8, 12].map(hours => hours * HOUR),
  ...[1, 2, 7, 14, 30, 90, 360, 3600].map(days => days * DAY),
]

/**
 * The possible lengths of rows while counting, each a multiple of the one before, so that rows can be joined; and most
 * rows.
 */
interface Lengths {
  readonly spans: readonly number[]
  readonly mostRows: number
}

/** The only subject where all requests are counted together. */
export const ALL = 0

export const OF_ALL: Lengths = {
  spans: [1, 5, 30, MINUTE, 5 * MINUTE, 30 * MINUTE, HOUR, DAY, 30 * DAY, 360 * DAY],
  mostRows: 1440,
}
const OF_MANY: Lengths = {
  spans: [1, 5, 15, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, DAY, 5 * DAY, 30 * DAY, 360 * DAY],
  mostRows: 192,
}

/**
 * The requests and refusals of many subjects over a time whose length is not known beforehand, in rows of one length
 * for all: when there are too many rows, they grow. A span in which nothing happened has no row, so one stray line of
 * another year costs no detail.
 */
export class TimeRows {
  #length = 0
  #starts = new Set<number>()
  #lastStart = -1
  /** Of each subject its rows, one after another: start in seconds, requests, refused by each policy. */
  #series: number[][] = []
  readonly #width: number

  constructor(
    policies: number,
    readonly lengths = OF_MANY,
  ) {
    this.#width = 2 + policies
  }

  get spanSeconds(): number {
    return this.lengths.spans[this.#length]
  }

  /** Starts of all rows in which anything happened, in seconds. */
  get rows(): number[] {
    return [...this.#starts].sort((a, b) => a - b)
  }

  /** `refused`: for each policy whether it refuses the request. The second is not earlier than those before. */
  add(id: number, second: number, refused: readonly boolean[]): void {
    const at = second - (second % this.spanSeconds)
    if (at !== this.#lastStart) this.#starts.add(at)
    this.#lastStart = at
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
    while (this.#starts.size > this.lengths.mostRows && this.#canGrow) this.#grow()
  }

  /** Call after the last `add`: chooses a length of rows in which charts have few gaps. */
  finish(): void {
    while (hasManyGaps(this.rows, this.spanSeconds) && this.#canGrow) this.#grow()
  }

  /** The rows of a subject. */
  of(id: number): TimelineRow[] {
    return this.#rowsOf(this.#series[id] ?? [])
  }

  /**
   * At most `mostRows` rows of all requests, in the shortest span that makes a round number for people; for a chart in
   * a span that makes no comb.
   */
  summary(mostRows: number, { forChart = false } = {}): { spanSeconds: number; rows: TimelineRow[] } {
    let [spanSeconds, rows] = [this.spanSeconds, this.of(ALL)]
    for (const span of SHOWN_SPANS) {
      if (span < this.spanSeconds) continue
      spanSeconds = span
      rows = this.#rowsOf(this.#joined(this.#series[ALL] ?? [], span))
      const starts = rows.map(({ at }) => at)
      if (rows.length <= mostRows && !(forChart && hasManyGaps(starts, span))) break
    }
    return { spanSeconds, rows }
  }

  #rowsOf(series: readonly number[]): TimelineRow[] {
    return Array.from({ length: series.length / this.#width }, (_, i) => {
      const [at, requests, ...denied] = series.slice(i * this.#width, (i + 1) * this.#width)
      return { at, requests, denied }
    })
  }

  get #canGrow(): boolean {
    return this.#length < this.lengths.spans.length - 1
  }

  #grow(): void {
    this.#length++
    const span = this.spanSeconds
    this.#lastStart = -1
    this.#starts = new Set([...this.#starts].map(at => at - (at % span)))
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

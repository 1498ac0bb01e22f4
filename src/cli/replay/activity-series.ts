import { hasManyGaps } from './row-gaps.js'

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

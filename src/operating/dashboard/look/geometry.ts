/**
 * Charts as numbers and paths: no DOM, so that a report can be drawn without a browser. Part of the shared look, see
 * tokens.css.
 */

/** Values at moments; null: unknown at that moment. */
export type Values = readonly (number | null)[]

/** The span of a chart in its own units; moments and values are placed in it. */
export interface ChartArea {
  readonly width: number
  readonly height: number
  /** The value at the upper edge; the lower edge is 0. */
  readonly top: number
}

/**
 * The smallest of 1, 2, 4, 5 or 8 × 10ⁿ at or above a value, so that half and quarter of it read well. 1 for nothing.
 */
export function niceTop(value: number): number {
  if (!(value > 0) || !Number.isFinite(value)) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  for (const step of [1, 2, 4, 5, 8]) if (value <= step * power) return step * power
  return 10 * power
}

/** The largest of all values; 0 if there is none. */
export function largest(...rows: readonly Values[]): number {
  let most = 0
  for (const row of rows) for (const value of row) if (value !== null && value > most) most = value
  return most
}

/** Each value of `upper` on top of that of `lower`. */
export function stacked(lower: Values, upper: Values): Values {
  return upper.map((value, i) => (value === null ? null : value + (lower[i] ?? 0)))
}

/** The line through values; it has a gap where a value is null. */
export function linePath(values: Values, frame: ChartArea): string {
  return runsOf(values)
    .map(
      run =>
        `M${placesOf(run)
          .map(x => pointAt(values, x, frame))
          .join('L')}`,
    )
    .join('')
}

/** The area between values and the values below them, by default the lower edge. */
export function areaPath(values: Values, frame: ChartArea, below?: Values): string {
  return runsOf(values)
    .map(run => {
      const over = placesOf(run).map(x => pointAt(values, x, frame))
      const under = placesOf(run).map(x =>
        below === undefined ? point(x, 0, values.length, frame) : pointAt(below, x, frame),
      )
      return `M${over.join('L')}L${under.reverse().join('L')}Z`
    })
    .join('')
}

/**
 * A line only near values above 0: from one place before each run of them to one place after. For refusals, so that
 * quiet periods show no line.
 */
export function whereAbove(values: Values, line: Values): Values {
  const some = (i: number) => (values[i] ?? 0) > 0
  return line.map((value, i) => (some(i) || some(i - 1) || some(i + 1) ? value : null))
}

/** The place of a moment from left to right, 0 to 1. */
export function place(index: number, count: number): number {
  return count < 2 ? 0.5 : index / (count - 1)
}

/** The index of the value nearest to a place from 0 to 1. */
export function indexAt(share: number, count: number): number {
  return Math.max(0, Math.min(count - 1, Math.round(share * (count - 1))))
}

/** The places through which a run is drawn. A value that stands alone is a line of the width of one place. */
function placesOf(run: readonly number[]): readonly number[] {
  return run.length > 1 ? run : [run[0] - 0.49, run[0] + 0.49]
}

/** The runs of values that are known, as lists of places. */
function runsOf(values: Values): number[][] {
  const runs: number[][] = []
  let run: number[] | undefined
  for (let i = 0; i < values.length; i++) {
    if (values[i] === null) run = undefined
    else if (run === undefined) {
      run = [i]
      runs.push(run)
    } else run.push(i)
  }
  return runs
}

function pointAt(values: Values, x: number, frame: ChartArea): string {
  return point(x, values[Math.round(x)] ?? 0, values.length, frame)
}

function point(i: number, value: number, count: number, { width, height, top }: ChartArea): string {
  // A chart of one value is as wide as that value.
  const x = (count < 2 ? i + 0.5 : Math.max(0, Math.min(1, place(i, count)))) * width
  const y = height - (Math.min(value, top) / top) * height
  return `${round(x)} ${round(y)}`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

import type { Turns } from './contest.js'

/** The middle of several measurements, with the quartiles around it. */
export interface Median {
  readonly value: number
  readonly low: number
  readonly high: number
}

export function median(values: readonly number[]): Median {
  const sorted = [...values].sort((a, b) => a - b)
  return { value: quantile(sorted, 0.5), low: quantile(sorted, 0.25), high: quantile(sorted, 0.75) }
}

/** One figure of a contender over its turns. */
export function medianOf<Result>(turns: Turns<Result>, name: string, figure: (result: Result) => number): Median {
  return median(turnsOf(turns, name).map(figure))
}

/** One contender's figure ÷ another's, turn by turn: load that slowed both down cancels out. */
export function ratio<Result>(
  turns: Turns<Result>,
  name: string,
  reference: string,
  figure: (result: Result) => number,
): Median {
  const others = turnsOf(turns, reference)
  return median(turnsOf(turns, name).map((result, i) => figure(result) / figure(others[i])))
}

/** The cells of a contender's row in a table. */
interface Row<Result> {
  readonly name: string
  /** The median of a figure. */
  of(figure: (result: Result) => number): string
  /** The same, with its quartiles. */
  spreadOf(figure: (result: Result) => number): string
  /** Its ratio to the figure of another contender. */
  against(reference: string, figure: (result: Result) => number): string
}

/** A row for each contender. */
export function rowsOf<Result>(turns: Turns<Result>, cells: (row: Row<Result>) => readonly string[]): Table['rows'] {
  return [...turns.keys()].map(name =>
    cells({
      name,
      of: figureOf => figure(medianOf(turns, name, figureOf).value),
      spreadOf: figureOf => spread(medianOf(turns, name, figureOf)),
      against: (reference, figureOf) => (name === reference ? '1' : spread(ratio(turns, name, reference, figureOf))),
    }),
  )
}

function turnsOf<Result>(turns: Turns<Result>, name: string): readonly Result[] {
  const results = turns.get(name)
  if (results === undefined) throw new Error(`no contender is called ${name}`)
  return results
}

function quantile(sorted: readonly number[], share: number): number {
  const place = (sorted.length - 1) * share
  const low = Math.floor(place)
  const high = Math.ceil(place)
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low)
}

/** A figure that was measured once, or comes out the same every time. */
export function single(value: number): Median {
  return { value, low: value, high: value }
}

/** A number with about three digits that say something: 1 234 567, 12.3, 0.123. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  const size = Math.abs(value)
  if (size >= 100) return Math.round(value).toLocaleString('en-US').replaceAll(',', ' ')
  return value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : size === 0 ? 0 : 3)
}

/** `1.23 (1.19–1.27)`: the median and its quartiles. */
export function spread({ value, low, high }: Median): string {
  return low === high ? figure(value) : `${figure(value)} (${figure(low)}–${figure(high)})`
}

/** Rows of text under a heading each; all columns but the first are numbers and stand to the right. */
export interface Table {
  readonly caption: string
  readonly head: readonly string[]
  readonly rows: ReadonlyArray<readonly string[]>
}

/** A table in Markdown that also reads well as plain text. */
export function tableText({ caption, head, rows }: Table): string {
  const widths = head.map((_, i) => Math.max(3, ...[head, ...rows].map(row => row[i].length)))
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join(' | ')} |`
  const rule = `|${widths.map((width, i) => (i === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`
  return [caption, '', line(head), rule, ...rows.map(line)].join('\n')
}

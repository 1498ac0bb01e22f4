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

import { ALLOWED, type Counts, FALLBACK, REFUSED } from '../outcome-counts.js'
import type { Reports } from './reports.js'

/** The present rates of a limit, allowed and refused per second: over the current step and the one before. */
export function ratesOf(reports: Reports, id: string) {
  const { counts, seconds } = reports.recent(id, 2)
  const decided = counts[ALLOWED] + counts[REFUSED]
  return {
    counts,
    allowed: rounded(counts[ALLOWED] / seconds),
    refused: rounded(counts[REFUSED] / seconds),
    share: decided > 0 ? counts[REFUSED] / decided : 0,
    degraded: shareOf(counts, FALLBACK),
  }
}

/** The share of decisions from the source with this index. */
export function shareOf(counts: Counts, place: number): number {
  let all = 0
  for (let i = 3; i < counts.length; i++) all += counts[i]
  return all > 0 ? counts[place] / all : 0
}

export function rounded(value: number): number {
  return value === 0 ? 0 : Number(value.toPrecision(3))
}

import { ALLOWED, type Counts, FALLBACK, REFUSED, SHADOW } from '../outcome-counts.js'
import type { Reports } from './reports.js'

/** The present rates of a limit, allowed and refused per second: over the current step and the one before. */
export function ratesOf(reports: Reports, id: string) {
  const { counts, seconds } = reports.recent(id, 2)
  const decided = counts[ALLOWED] + counts[REFUSED]
  return {
    counts,
    shadow: rounded(counts[SHADOW] / seconds),
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

/** Three digits. `toPrecision` takes ten times as long, and a page has thousands of rates. */
export function rounded(value: number): number {
  if (value === 0) return 0
  const places = 2 - Math.floor(Math.log10(value))
  const scale = 10 ** Math.abs(places)
  return places >= 0 ? Math.round(value * scale) / scale : Math.round(value / scale) * scale
}

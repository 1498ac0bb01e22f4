import { ALLOWED, type Counts, FALLBACK, REFUSED, SHADOW } from '../outcome-counts.js'
import { STEP_MS, STEPS, stepOf } from '../record-keys.js'
import type { Series } from '../view.js'
import type { Reports } from './reports.js'

/** The current step is shown from this age on: earlier its rate is noise. */
const RIPE_MS = 3500

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

/** The last 15 minutes, per second. */
export function seriesOf(reports: Reports, id: string): Series {
  const { last, elapsedMs } = reports.window
  const first = stepOf(reports.readAt) - STEPS + 1
  const known = reports.firstStep
  const end = elapsedMs >= RIPE_MS ? last : last - 1
  const allowed: Array<number | null> = []
  const refused: Array<number | null> = []
  for (let step = first; step <= end; step++) {
    if (step < known) {
      allowed.push(null)
      refused.push(null)
      continue
    }
    const counts = reports.counts(id, step)
    const seconds = (step === last ? elapsedMs : STEP_MS) / 1000
    allowed.push(rounded((counts?.[ALLOWED] ?? 0) / seconds))
    refused.push(rounded((counts?.[REFUSED] ?? 0) / seconds))
  }
  return { from: first * STEP_MS, allowed, refused }
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

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

/** The last 15 minutes, per second. Of the series `before` it only those steps are counted again that may have changed since, from `open` on. */
export function seriesOf(reports: Reports, id: string, before?: Series, open = Number.NEGATIVE_INFINITY): Series {
  const { last, elapsedMs } = reports.window
  const first = stepOf(reports.readAt) - STEPS + 1
  const known = reports.firstStep
  const end = elapsedMs >= RIPE_MS ? last : last - 1
  const shift = before === undefined ? 0 : first - before.from / STEP_MS
  const same = before === undefined ? 0 : Math.max(0, Math.min(before.allowed.length - shift, open - first))
  const allowed = before === undefined ? [] : before.allowed.slice(shift, shift + same)
  const refused = before === undefined ? [] : before.refused.slice(shift, shift + same)
  for (let step = first + same; step <= end; step++) {
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

/** Three digits. `toPrecision` takes ten times as long, and a page has thousands of rates. */
export function rounded(value: number): number {
  if (value === 0) return 0
  const places = 2 - Math.floor(Math.log10(value))
  const scale = 10 ** Math.abs(places)
  return places >= 0 ? Math.round(value * scale) / scale : Math.round(value / scale) * scale
}

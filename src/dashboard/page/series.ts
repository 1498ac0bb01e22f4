import { clock, rate, span } from '../look/format.js'
import type { Series } from '../view.js'
import type { Traffic } from './chart.js'

/** A rise is what is refused after so long without a refusal, and at least one step. */
const CALM_MS = 60_000

/** A series with the moments of its values. */
export function trafficOf({ from, stepMs, allowed, refused }: Series): Required<Traffic> {
  return { at: allowed.map((_, i) => from + i * stepMs), stepMs, allowed, refused }
}

/** A chart in one sentence: '13.1 refused per second, up from 0 at 14:02'. */
export function sentenceOf({ at, stepMs, allowed, refused }: Required<Traffic>): string {
  const last = at.length - 1
  if (last < 0 || allowed[last] == null) return 'No values yet.'
  const now = `${rate(allowed[last] ?? 0)} allowed and ${rate(refused[last] ?? 0)} refused per second`
  if ((refused[last] ?? 0) === 0) {
    const most = refused.reduce((most: number, value) => Math.max(most, value ?? 0), 0)
    return most === 0
      ? `${now}, none refused in ${span(at.length * stepMs)}.`
      : `${now}, down from ${rate(most)} refused.`
  }
  let start = last
  for (let i = last, calm = 0; i >= 0 && calm < Math.ceil(CALM_MS / stepMs); i--) {
    calm = (refused[i] ?? 0) > 0 ? 0 : calm + 1
    if (calm === 0) start = i
  }
  return start === 0 ? `${now}, for ${span(at.length * stepMs)} or more.` : `${now}, up from 0 at ${clock(at[start])}.`
}

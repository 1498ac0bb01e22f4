import type { Verdict } from '../../limiter/core/decision.js'
import type { Limit } from '../../limiter/core/limit.js'
import type { Charge } from '../../limiter/store.js'
import type { Client } from './options.js'

/** Never reached, so that a store only counts and never refuses; short enough for code that writes numbers as text. */
const ENDLESS = 10 ** 12

/** A separate limiter name, so that other limiters on the same store do not share these counts. */
export const HITS_LIMITER = 'erl'
export const HITS_LIMIT = 'hits'

/** Of a limiter whose `windowMs` is not given, or is no number. */
export const DEFAULT_WINDOW_MS = 60_000

/**
 * `windowMs` as a number: plain JavaScript passes on texts of the environment. 0 and less: as in express-rate-limit, a
 * window ends when it begins, and nothing is refused.
 */
export function windowLength(windowMs: unknown): number {
  const isBlank = typeof windowMs === 'string' && windowMs.trim() === ''
  const length = isBlank ? Number.NaN : Math.trunc(Number(windowMs))
  return Number.isFinite(length) ? length : DEFAULT_WINDOW_MS
}

/** The fixed window in which a spillway store counts hits as express-rate-limit expects: all, the refused ones too. */
export function hitsWindow(windowMs: number): Limit {
  return Object.freeze({ name: HITS_LIMIT, quota: ENDLESS, windowMs, burst: ENDLESS, algorithm: 'fixed-window' })
}

/** An untyped key generator may return a number or nothing: its text is counted, as in express-rate-limit. */
export function hitsCharge(key: string, limit: Limit): Charge {
  return { key: String(key), limit, limiter: HITS_LIMITER }
}

/** The number of hits that a verdict under such a window represents. */
export function hitsOf({ remaining, resetAfterMs }: Verdict, nowMs: number): Client {
  return { totalHits: ENDLESS - remaining, resetTime: new Date(nowMs + resetAfterMs) }
}

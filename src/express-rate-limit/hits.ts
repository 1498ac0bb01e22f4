import type { Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import type { Charge } from '../stores/store.js'
import type { Client } from './client-info.js'

/** Never reached, so that a store which only counts never refuses; few enough digits for whoever writes numbers as text. */
const ENDLESS = 10 ** 12

/** Its own room in a store, whoever else counts there. */
export const HITS_LIMITER = 'erl'
export const HITS_LIMIT = 'hits'

/** The fixed window by which a store of ours counts hits as express-rate-limit wants them: all, the refused ones too. */
export function hitsWindow(windowMs: number): Limit {
  return Object.freeze({ name: HITS_LIMIT, quota: ENDLESS, windowMs, burst: ENDLESS, algorithm: 'fixed-window' })
}

/** A key generator without types may give a number, or nothing: counted by its text, as express-rate-limit counts it. */
export function hitsCharge(key: string, limit: Limit): Charge {
  return { key: String(key), limit, limiter: HITS_LIMITER }
}

/** How many hits a verdict under such a window stands for. */
export function hitsOf({ remaining, resetAfterMs }: Verdict, nowMs: number): Client {
  return { totalHits: ENDLESS - remaining, resetTime: new Date(nowMs + resetAfterMs) }
}

import type { Verdict } from './core/decision.js'
import { hasBurst, type Limit, maxCostOf } from './core/limit.js'

/**
 * How long a cost is refused after this verdict, without further traffic, ms; 0 if it is allowed; Infinity if it never
 * fits; undefined if the verdict does not determine it to the millisecond.
 */
export function refusedAfter(verdict: Verdict, cost: number): number | undefined {
  const { limit, remaining, resetAfterMs } = verdict
  const maxCost = maxCostOf(limit)
  if (cost > maxCost) return Number.POSITIVE_INFINITY
  if (remaining >= cost) return 0
  // The full quota fits only when nothing is spent; a cost that fits no sooner than that fits at the same time as any
  // larger cost.
  if (cost === maxCost || verdict.retryAfterMs === resetAfterMs) return resetAfterMs
  if (limit.algorithm === 'fixed-window') return resetAfterMs
  return hasBurst(limit.algorithm) ? fitsInBucketAfter(limit, resetAfterMs, cost) : undefined
}

/**
 * A bucket that is empty in resetAfterMs has room for `cost` when the rest of the burst has yet to drain. The level is
 * known only in whole ms of draining, so that rest must be a whole number of them too.
 */
function fitsInBucketAfter(limit: Limit, resetAfterMs: number, cost: number): number | undefined {
  const restMs = ((maxCostOf(limit) - cost) * limit.windowMs) / limit.quota
  return Number.isInteger(restMs) ? resetAfterMs - restMs : undefined
}

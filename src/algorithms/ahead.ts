import type { Limit } from '../core/limit.js'
import { floorDiv } from './division.js'
import { algorithmOf, type State } from './registry.js'

/**
 * When `cost` units fit behind `ahead` units that are spent before them, in ms: 0 now, Infinity never. Units above what fits at once take
 * whole windows; a bucket goes on filling meanwhile. Never too long; too short only where costs differ and leave gaps.
 *
 * `waits`: for a request that waits in line. Behind others a leaky bucket grants it when it can leave at once, and a newcomer when nobody
 * waits any more.
 */
export function fitsAfterMs(
  limit: Limit,
  state: State | undefined,
  nowMs: number,
  ahead: number,
  cost: number,
  waits: boolean,
): number {
  const { quota, windowMs, algorithm } = limit
  const { measure, spend } = algorithmOf(algorithm)
  const after = (units: number) => measure(limit, state, nowMs, units).verdict.retryAfterMs
  const units = ahead + cost
  if (algorithm === 'fixed-window') {
    if (cost > quota) return Number.POSITIVE_INFINITY
    const { remaining, resetAfterMs } = measure(limit, state, nowMs, 0).verdict
    if (units <= remaining) return 0
    return (resetAfterMs || windowMs) + floorDiv(units - remaining - 1, quota) * windowMs
  }
  if (algorithm === 'sliding-window' || algorithm === 'sliding-counter') {
    if (cost > quota) return Number.POSITIVE_INFINITY
    const windows = floorDiv(units - 1, quota)
    return after(units - windows * quota) + windows * windowMs
  }
  if (quota === 0 || cost > limit.burst) return Number.POSITIVE_INFINITY
  const emptyAfterMs = (spent: number) => {
    const next = spent > 0 ? spend(limit, state, nowMs, spent) : state
    return measure(limit, next, nowMs, 0).verdict.resetAfterMs
  }
  if (algorithm === 'leaky-bucket' && waits) return emptyAfterMs(ahead)
  const behind = ahead > 0 ? spend(limit, state, nowMs, ahead) : state
  const { retryAfterMs } = measure(limit, behind, nowMs, cost).verdict
  return algorithm === 'leaky-bucket' && ahead > 0 ? Math.max(retryAfterMs, emptyAfterMs(ahead - 1)) : retryAfterMs
}

import { ceilDiv, floorDiv } from './algorithms/algorithm.js'
import { type Bucket, levelAt, levelBehind } from './algorithms/buckets.js'
import { calendarOf, lengthFrom } from './algorithms/fixed-window.js'
import { algorithmOf, type State } from './algorithms/registry.js'
import { hasBurst, type Limit } from './core/limit.js'

/**
 * When `cost` units fit behind `ahead` units that are spent before them, in ms: 0 now, Infinity never. May spend from
 * the given state. Units above what fits at once take whole windows; a bucket goes on filling meanwhile. Never too
 * long; too short only where requests of different costs leave gaps.
 *
 * `waits`: the request waits in line. Behind others, a leaky bucket grants a waiter when it can leave at once, and a
 * newcomer only when the line is empty. As in lua/limiter/ahead.lua.
 */
export function fitsAfterMs(
  limit: Limit,
  state: State,
  nowMs: number,
  ahead: number,
  cost: number,
  waits: boolean,
): number {
  const { algorithm, quota, windowMs } = limit
  if (hasBurst(algorithm)) return fitsInBucketMs(limit, state as Bucket, nowMs, ahead, cost, waits)
  if (cost > quota) return Number.POSITIVE_INFINITY
  const { consume } = algorithmOf(algorithm)
  if (algorithm === 'fixed-window') {
    const { remaining, resetAfterMs } = consume(limit, state, nowMs, 0)
    const over = ahead + cost - remaining
    if (over <= 0) return 0
    const further = floorDiv(over - 1, quota)
    return (resetAfterMs || lengthFrom(limit, nowMs)) + further * (calendarOf(limit)?.shortestMs ?? windowMs)
  }
  const units = ahead + cost
  const windows = floorDiv(units - 1, quota)
  return consume(limit, state, nowMs, units - windows * quota).retryAfterMs + windows * windowMs
}

function fitsInBucketMs(
  limit: Limit,
  bucket: Bucket,
  nowMs: number,
  ahead: number,
  cost: number,
  waits: boolean,
): number {
  const { quota, windowMs, burst } = limit
  if (quota === 0 || cost > burst) return Number.POSITIVE_INFINITY
  const { shapes } = algorithmOf(limit.algorithm)
  const level = levelAt(limit, bucket, nowMs)
  const emptyAfterMs = (units: number) => ceilDiv(levelBehind(limit, level, units), quota)
  if (shapes && waits) return emptyAfterMs(ahead)
  const over = levelBehind(limit, level, ahead) - (burst - cost) * windowMs
  const fitsMs = over > 0 ? ceilDiv(over, quota) : 0
  return shapes && ahead > 0 ? Math.max(fitsMs, emptyAfterMs(ahead - 1)) : fitsMs
}

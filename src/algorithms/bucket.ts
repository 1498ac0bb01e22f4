import type { Verdict } from '../decision.js'
import { type Limit, mostOf } from '../limit.js'
import type { RowAlgorithm } from './algorithm.js'
import { ceilDiv, floorDiv } from './division.js'

/**
 * What token-bucket and leaky-bucket share: a level that rises by cost × window with every unit spent and falls by `quota`
 * every millisecond. Counted in unit × ms it stays a whole number for every rate, so 7 per second is as exact as 10.
 */
export interface Bucket {
  /** When `level` was true, ms. */
  readonly at: number
  /** Units spent and not yet regained, × windowMs. */
  readonly level: number
}

/** Builds a bucket algorithm; `delayOf` says how long an admitted request waits, given the level that it found. */
export function bucket(delayOf: (limit: Limit, level: number) => number): RowAlgorithm<Bucket> {
  const spend = (limit: Limit, state: Bucket | undefined, nowMs: number, cost: number): Bucket => {
    const level = levelAt(limit, state, nowMs)
    // A debt without end would leave the exact integers; nobody lives to see 2⁵³ regained.
    return { at: nowMs, level: Math.min(level + cost * limit.windowMs, Number.MAX_SAFE_INTEGER) }
  }
  return {
    width: 2,
    read: (cells, at) => ({ at: cells[at], level: cells[at + 1] }),
    write(cells, at, state) {
      cells[at] = state.at
      cells[at + 1] = state.level
    },

    measure(limit, state, nowMs, cost) {
      // Nothing drains at quota 0 and nothing is admitted: what was spent before does not matter, until the quota changes.
      const level = limit.quota === 0 ? 0 : levelAt(limit, state, nowMs)
      const most = mostOf(limit)
      // What is compared never exceeds burst × windowMs, which the policy keeps below 2⁵³; a sum of both sides would.
      const over = level - (most - cost) * limit.windowMs
      if (cost === 0 || (cost <= most && over <= 0)) {
        if (cost === 0) return { verdict: verdict(limit, level, 0, 0), next: mended(state, nowMs) }
        const next = { at: nowMs, level: level + cost * limit.windowMs }
        return { verdict: verdict(limit, next.level, 0, delayOf(limit, level)), next }
      }
      const retryAfterMs = cost > most ? Number.POSITIVE_INFINITY : ceilDiv(over, limit.quota)
      return { verdict: verdict(limit, level, retryAfterMs, 0), next: mended(state, nowMs) }
    },

    spend: (limit, state, nowMs, cost) => (cost === 0 ? mended(state, nowMs) : spend(limit, state, nowMs, cost)),
    // By owing: the level rises now, and those who come later find it so.
    book: spend,

    refund(limit, state, nowMs, cost) {
      if (state === undefined) return undefined
      return { at: nowMs, level: Math.max(0, levelAt(limit, state, nowMs) - cost * limit.windowMs) }
    },
  }
}

function levelAt(limit: Limit, state: Bucket | undefined, nowMs: number): number {
  if (state === undefined) return 0
  const elapsedMs = nowMs - state.at
  if (elapsedMs <= 0) return state.level
  const level = state.level - limit.quota * elapsedMs
  return Math.max(level, 0)
}

function mended(state: Bucket | undefined, nowMs: number): Bucket | undefined {
  return state !== undefined && state.at > nowMs ? { at: nowMs, level: state.level } : state
}

function verdict(limit: Limit, level: number, retryAfterMs: number, delayMs: number): Verdict {
  const left = mostOf(limit) * limit.windowMs - level
  return {
    limit,
    allowed: retryAfterMs === 0,
    remaining: left > 0 ? floorDiv(left, limit.windowMs) : 0,
    retryAfterMs,
    resetAfterMs: limit.quota === 0 ? 0 : ceilDiv(level, limit.quota),
    delayMs,
  }
}

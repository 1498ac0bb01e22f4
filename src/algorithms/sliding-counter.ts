import type { Verdict } from '../decision.js'
import type { Limit } from '../limit.js'
import type { RowAlgorithm } from './algorithm.js'
import { ceilDiv, floorDiv } from './division.js'

/** Units of the cell that began at `startedAt` (a multiple of the window) and of the one before it. */
export interface CellPair {
  readonly startedAt: number
  readonly current: number
  readonly previous: number
}

/**
 * Two counters: the previous cell's count weighs as much as the sliding window still overlaps it. Constant state, and an
 * estimate: it assumes that the previous cell's units came evenly.
 */
export const slidingCounter: RowAlgorithm<CellPair> = {
  width: 3,
  read: (cells, at) => ({ startedAt: cells[at], current: cells[at + 1], previous: cells[at + 2] }),
  write(cells, at, { startedAt, current, previous }) {
    cells[at] = startedAt
    cells[at + 1] = current
    cells[at + 2] = previous
  },

  measure(limit, state, nowMs, cost) {
    const pair = pairAt(limit, state, nowMs)
    const overlapMs = pair.startedAt - nowMs + limit.windowMs
    const room = limit.quota - cost - pair.current
    if (cost === 0) return { verdict: verdict(limit, pair, overlapMs, 0), next: mended(state, pair) }
    if (cost <= limit.quota && room >= 0 && pair.previous * overlapMs <= room * limit.windowMs) {
      const next = { ...pair, current: pair.current + cost }
      return { verdict: verdict(limit, next, overlapMs, 0), next }
    }
    const retryAfterMs = retryAfter(limit, pair, overlapMs, cost)
    return { verdict: verdict(limit, pair, overlapMs, retryAfterMs), next: mended(state, pair) }
  },

  spend(limit, state, nowMs, cost) {
    const pair = pairAt(limit, state, nowMs)
    return cost === 0 ? mended(state, pair) : { ...pair, current: pair.current + cost }
  },

  refund(limit, state, nowMs, cost) {
    if (state === undefined) return undefined
    const pair = pairAt(limit, state, nowMs)
    const fromCurrent = Math.min(cost, pair.current)
    return {
      startedAt: pair.startedAt,
      current: pair.current - fromCurrent,
      previous: Math.max(0, pair.previous - (cost - fromCurrent)),
    }
  },
}

function pairAt(limit: Limit, state: CellPair | undefined, nowMs: number): CellPair {
  const startedAt = nowMs - (nowMs % limit.windowMs)
  if (state === undefined) return { startedAt, current: 0, previous: 0 }
  if (state.startedAt === startedAt) return { startedAt, current: state.current, previous: state.previous }
  // A cell in the future means that the clock ran back: what it and the one before it counted is counted now, in full. More
  // than the quota would say no more, and could grow without end.
  if (state.startedAt > startedAt) {
    const most = Math.max(limit.quota, state.current)
    return { startedAt, current: Math.min(state.current + state.previous, most), previous: 0 }
  }
  if (state.startedAt === startedAt - limit.windowMs) return { startedAt, current: 0, previous: state.current }
  return { startedAt, current: 0, previous: 0 }
}

function mended(state: CellPair | undefined, pair: CellPair): CellPair | undefined {
  return state !== undefined && state.startedAt > pair.startedAt ? pair : state
}

/**
 * The first ms at which the estimate leaves room for `cost`. The estimate never rises without traffic: first the previous
 * cell's weight falls, then this cell becomes the previous one and its own weight falls.
 */
function retryAfter(limit: Limit, pair: CellPair, overlapMs: number, cost: number): number {
  const { quota, windowMs } = limit
  if (cost > quota) return Number.POSITIVE_INFINITY
  const room = quota - cost - pair.current
  if (room >= 0) return overlapMs - floorDiv(room * windowMs, pair.previous)
  return overlapMs + windowMs - floorDiv((quota - cost) * windowMs, pair.current)
}

function verdict(limit: Limit, pair: CellPair, overlapMs: number, retryAfterMs: number): Verdict {
  const left = limit.quota - pair.current - ceilDiv(pair.previous * overlapMs, limit.windowMs)
  const lastsMs = pair.current > 0 ? overlapMs + limit.windowMs : overlapMs
  return {
    limit,
    allowed: retryAfterMs === 0,
    remaining: Math.max(left, 0),
    retryAfterMs,
    resetAfterMs: pair.current > 0 || pair.previous > 0 ? lastsMs : 0,
    delayMs: 0,
  }
}

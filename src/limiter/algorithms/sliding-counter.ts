import { type Verdict, verdictOf } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import { type Algorithm, ceilDiv, floorDiv, toSmallInteger } from './algorithm.js'

/** Units of the cell that began at `startedAt` (a multiple of the window) and of the one before it. */
export interface CellPair {
  startedAt: number
  current: number
  previous: number
}

/**
 * Two counters: the previous cell counts in proportion to its overlap with the sliding window. Constant state, but an
 * estimate: it assumes that the previous cell's units came evenly.
 */
export const slidingCounter: Algorithm<CellPair> = {
  row: {
    width: 3,
    read: (cells, at) => ({ startedAt: cells[at], current: cells[at + 1], previous: cells[at + 2] }),
    write(cells, at, { startedAt, current, previous }) {
      cells[at] = startedAt
      cells[at + 1] = current
      cells[at + 2] = previous
    },
  },

  keySuffix: 'sc',
  shapes: false,

  fresh: () => ({ startedAt: Number.NEGATIVE_INFINITY, current: 0, previous: 0 }),
  copy: ({ startedAt, current, previous }) => ({ startedAt, current, previous }),

  consume(limit, state, nowMs, cost) {
    const pair = pairAt(limit, state, nowMs)
    const overlapMs = pair.startedAt - nowMs + limit.windowMs
    const room = limit.quota - cost - pair.current
    if (cost > 0 && cost <= limit.quota && room >= 0 && pair.previous * overlapMs <= room * limit.windowMs) {
      become(state, pair, pair.current + cost, pair.previous)
      return verdict(limit, state, overlapMs, 0)
    }
    // Corrected where the clock ran back; else unchanged, because the clock may yet run back.
    if (state.startedAt > pair.startedAt) become(state, pair, pair.current, pair.previous)
    return verdict(limit, pair, overlapMs, cost === 0 ? 0 : retryAfter(limit, pair, overlapMs, cost))
  },
}

/** The start of the cell of a moment. */
export function cellOf({ windowMs }: Limit, atMs: number): number {
  return atMs - (atMs % windowMs)
}

export function become(state: CellPair, { startedAt }: CellPair, current: number, previous: number): void {
  state.startedAt = startedAt
  state.current = current
  state.previous = previous
}

/** The cells as they are at a time. */
export function pairAt(limit: Limit, state: Readonly<CellPair>, nowMs: number): CellPair {
  const startedAt = cellOf(limit, nowMs)
  if (state.startedAt === startedAt) return { startedAt, current: state.current, previous: state.previous }
  // A cell in the future means that the clock ran back: its count and the previous one's count now, in full. A count
  // above the quota would make no difference, and could grow without end.
  if (state.startedAt > startedAt) {
    const most = Math.max(limit.quota, state.current)
    return { startedAt, current: Math.min(state.current + state.previous, most), previous: 0 }
  }
  if (state.startedAt === startedAt - limit.windowMs) return { startedAt, current: 0, previous: state.current }
  return { startedAt, current: 0, previous: 0 }
}

/**
 * The first ms at which the estimate leaves room for `cost`. The estimate never rises without traffic: first the
 * previous cell's weight falls, then this cell becomes the previous one and its own weight falls.
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
  const resetAfterMs = pair.current > 0 || pair.previous > 0 ? toSmallInteger(lastsMs) : 0
  return verdictOf(limit, toSmallInteger(Math.max(left, 0)), toSmallInteger(retryAfterMs), resetAfterMs)
}

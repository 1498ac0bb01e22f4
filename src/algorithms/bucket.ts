import type { Verdict } from '../core/decision.js'
import { type Limit, mostOf } from '../core/limit.js'
import { type Arithmetic, noteRefund, type RowAlgorithm, rowAlgorithm, type SettlementNote } from './algorithm.js'
import { ceilDiv, floorDiv } from './division.js'

/**
 * What token-bucket and leaky-bucket share: a level that rises by cost × window with every unit spent and falls by `quota`
 * every millisecond. Counted in unit × ms it stays a whole number for every rate, so 7 per second is as exact as 10.
 */
export interface Bucket {
  /** When `level` was true, ms. */
  at: number
  /** Units spent and not yet regained, × windowMs. */
  level: number
}

/** Builds a bucket algorithm; `delayOf` says how long an admitted request waits, given the level that it found. */
export function bucket(
  delayOf: (limit: Limit, level: number) => number,
  giveBack: Arithmetic<Bucket>['giveBack'],
): RowAlgorithm<Bucket> {
  const spend = (limit: Limit, bucket: Bucket, nowMs: number, cost: number): void => {
    // A debt without end would leave the exact integers; nobody lives to see 2⁵³ regained.
    bucket.level = Math.min(levelAt(limit, bucket, nowMs) + cost * limit.windowMs, Number.MAX_SAFE_INTEGER)
    bucket.at = nowMs
  }
  return rowAlgorithm<Bucket>(
    {
      width: 2,
      read(cells, at, bucket) {
        bucket.at = cells[at]
        bucket.level = cells[at + 1]
      },
      write(cells, at, bucket) {
        cells[at] = bucket.at
        cells[at + 1] = bucket.level
      },
    },
    {
      fresh: () => ({ at: 0, level: 0 }),
      copy: ({ at, level }) => ({ at, level }),

      consume(limit, bucket, nowMs, cost) {
        // Nothing drains at quota 0 and nothing is admitted: what was spent before does not matter, until the quota changes.
        const level = limit.quota === 0 ? 0 : levelAt(limit, bucket, nowMs)
        const most = mostOf(limit)
        // What is compared never exceeds burst × windowMs, which the policy keeps below 2⁵³; a sum of both sides would.
        const over = level - (most - cost) * limit.windowMs
        if (cost > 0 && cost <= most && over <= 0) {
          bucket.at = nowMs
          bucket.level = level + cost * limit.windowMs
          return verdict(limit, bucket.level, 0, delayOf(limit, level))
        }
        if (bucket.at > nowMs) bucket.at = nowMs
        if (cost === 0) return verdict(limit, level, 0, 0)
        return verdict(limit, level, cost > most ? Number.POSITIVE_INFINITY : ceilDiv(over, limit.quota), 0)
      },

      spend,
      // By owing: the level rises now, and those who come later find it so.
      book: spend,

      unbook(limit, bucket, nowMs, cost) {
        bucket.level = Math.max(0, levelAt(limit, bucket, nowMs) - cost * limit.windowMs)
        bucket.at = nowMs
      },

      // The units that were spent last. What is left of those before them goes on draining.
      refund(limit, bucket, nowMs, cost, note) {
        const level = levelAt(limit, bucket, nowMs)
        bucket.level = Math.max(0, level - cost * limit.windowMs)
        bucket.at = nowMs
        if (level === 0) return
        const left = leftOfCut(limit, note, nowMs)
        note.left = Math.min(bucket.level, left)
        noteRefund(note, nowMs, cost, left < Number.POSITIVE_INFINITY)
      },

      notesResets: true,
      giveBack,
    },
  )
}

/** How much of what was charged before the last refund or reset can still be given back, in units × ms. */
export function leftOfCut(limit: Limit, note: SettlementNote, nowMs: number): number {
  const { quota, burst, windowMs } = limit
  if (note.cutAt === Number.NEGATIVE_INFINITY) return Number.POSITIVE_INFINITY
  // A bucket that had time to fill has regained whatever was charged before.
  if (quota * (nowMs - note.cutAt) >= burst * windowMs) return Number.POSITIVE_INFINITY
  return Math.max(0, note.left - quota * Math.max(0, nowMs - note.cutAt))
}

export function levelAt(limit: Limit, bucket: Bucket, nowMs: number): number {
  const elapsedMs = nowMs - bucket.at
  if (elapsedMs <= 0) return bucket.level
  const level = bucket.level - limit.quota * elapsedMs
  return Math.max(level, 0)
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

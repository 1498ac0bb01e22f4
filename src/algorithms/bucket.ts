import type { Verdict } from '../core/decision.js'
import { type Limit, mostOf } from '../core/limit.js'
import { type Arithmetic, type RowAlgorithm, rowAlgorithm } from './algorithm.js'
import { ceilDiv, floorDiv } from './division.js'
import { noteRefund, type SettlementNote } from './settlement-note.js'
import { toSmallInteger } from './small-integer.js'

/**
 * The common part of token-bucket and leaky-bucket: a level that rises by cost × window with every spent unit and falls by `quota`
 * every millisecond. In units × ms the level is a whole number for every rate, so 7 per second is as exact as 10.
 *
 * A limit that is changed under its name keeps the share that is left: under another capacity a level is scaled where it is read. What came back
 * between two requests is computed at the rate of the later one's limit. At quota 0 there is no capacity to scale to: levels stay
 * as they are until the quota is raised, and that time counts as any other.
 */
export interface Bucket {
  /** The time of `level`, ms. */
  at: number
  /** Units spent and not yet regained, × windowMs. */
  level: number
  /** burst × windowMs of the limit under which `level` is counted; 0: only limits of quota 0 have written it. */
  capacity: number
}

/** Builds a bucket algorithm. If it shapes, an allowed request waits until the level that it found has drained. */
export function bucket({
  keySuffix,
  shapes,
  giveBack,
}: Pick<Arithmetic<Bucket>, 'keySuffix' | 'shapes' | 'giveBack'>): RowAlgorithm<Bucket> {
  return rowAlgorithm<Bucket>(
    {
      width: 3,
      read: (cells, at) => ({ at: cells[at], level: cells[at + 1], capacity: cells[at + 2] }),
      write(cells, at, bucket) {
        cells[at] = bucket.at
        cells[at + 1] = bucket.level
        cells[at + 2] = bucket.capacity
      },
    },
    {
      keySuffix,
      redisWork: 1,
      shapes,
      notesResets: true,
      needsRetries: false,

      fresh: () => ({ at: 0, level: 0, capacity: 0 }),
      copy: ({ at, level, capacity }) => ({ at, level, capacity }),

      consume(limit, bucket, nowMs, cost) {
        const level = levelAt(limit, bucket, nowMs)
        const most = mostOf(limit)
        // The compared values never exceed burst × windowMs, which the policy keeps below 2⁵³; a sum of both sides could.
        const over = level - (most - cost) * limit.windowMs
        if (cost > 0 && cost <= most && over <= 0) {
          setLevel(limit, bucket, nowMs, level + cost * limit.windowMs)
          return verdict(limit, bucket.level, 0, shapes ? ceilDiv(level, limit.quota) : 0)
        }
        // The level stays as it is counted, so that refusals under limits that take turns do not round it up again and again.
        if (bucket.at > nowMs) bucket.at = nowMs
        if (cost === 0) return verdict(limit, level, 0, 0)
        return verdict(limit, level, cost > most ? Number.POSITIVE_INFINITY : ceilDiv(over, limit.quota), 0)
      },

      spend(limit, bucket, nowMs, cost) {
        setLevel(limit, bucket, nowMs, levelBehind(limit, levelAt(limit, bucket, nowMs), cost))
      },

      // The newest units. What remains of the older ones goes on draining.
      refund(limit, bucket, nowMs, cost, note) {
        const level = levelAt(limit, bucket, nowMs)
        setLevel(limit, bucket, nowMs, Math.max(0, level - cost * limit.windowMs))
        if (level === 0) return
        scaleNote(limit, note)
        const left = leftOfCut(limit, note, nowMs)
        note.left = Math.min(bucket.level, left)
        noteRefund(note, nowMs, cost, left < Number.POSITIVE_INFINITY)
      },

      giveBack,

      fitsAfterMs(limit, bucket, nowMs, ahead, cost, waits) {
        const { quota, windowMs, burst } = limit
        if (quota === 0 || cost > burst) return Number.POSITIVE_INFINITY
        const level = levelAt(limit, bucket, nowMs)
        const emptyAfterMs = (units: number) => ceilDiv(levelBehind(limit, level, units), quota)
        if (shapes && waits) return emptyAfterMs(ahead)
        const over = levelBehind(limit, level, ahead) - (burst - cost) * windowMs
        const fitsMs = over > 0 ? ceilDiv(over, quota) : 0
        return shapes && ahead > 0 ? Math.max(fitsMs, emptyAfterMs(ahead - 1)) : fitsMs
      },

      // A bucket that is empty in resetAfterMs has room for `cost` when the rest of the burst has yet to drain. The level is known only in
      // whole ms of draining, so that rest must be a whole number of them too.
      refusedAfterMs({ limit, resetAfterMs }, cost) {
        const restMs = ((mostOf(limit) - cost) * limit.windowMs) / limit.quota
        return Number.isInteger(restMs) ? resetAfterMs - restMs : undefined
      },

      // A bucket regains its oldest units first.
      stillCounted: ({ quota, windowMs }, cost, leftMs) => Math.min(cost, Math.floor((leftMs * quota) / windowMs)),

      // The moment when the bucket is empty, or when a cost fits, determines the level to less than a ms of draining.
      stateFrom({ limit, resetAfterMs }, retries, nowMs) {
        const most = mostOf(limit)
        const levels = retries
          .filter(({ cost, afterMs }) => afterMs > 0 && cost <= most)
          .map(({ cost, afterMs }) => afterMs * limit.quota + (most - cost) * limit.windowMs)
        return { at: nowMs, level: Math.min(resetAfterMs * limit.quota, ...levels), capacity: capacityOf(limit) }
      },
    },
  )
}

/** How much of the units charged before the last refund or reset can still be given back, in units × ms. */
export function leftOfCut(limit: Limit, note: SettlementNote, nowMs: number): number {
  const { quota, burst, windowMs } = limit
  if (note.cutAt === Number.NEGATIVE_INFINITY) return Number.POSITIVE_INFINITY
  // A bucket that had time to fill has regained all earlier charges.
  if (quota > 0 && quota * (nowMs - note.cutAt) >= burst * windowMs) return Number.POSITIVE_INFINITY
  return Math.max(0, note.left - quota * Math.max(0, nowMs - note.cutAt))
}

/** The level after so many more units. Capped, because an endless debt would leave the exact integers; 2⁵³ are never regained in practice. */
function levelBehind({ windowMs }: Limit, level: number, units: number): number {
  return Math.min(level + units * windowMs, Number.MAX_SAFE_INTEGER)
}

/** The level at the bucket's own time, as the limit counts it. */
export function levelUnder(limit: Limit, { level, capacity }: Bucket): number {
  const own = capacityOf(limit)
  return own === capacity ? level : scaled(level, capacity, own)
}

export function levelAt(limit: Limit, bucket: Bucket, nowMs: number): number {
  const found = levelUnder(limit, bucket)
  const elapsedMs = nowMs - bucket.at
  if (elapsedMs <= 0) return found
  const level = found - limit.quota * elapsedMs
  return Math.max(level, 0)
}

/** Writes a level as the limit counts it. */
export function setLevel(limit: Limit, bucket: Bucket, at: number, level: number): void {
  bucket.at = at
  bucket.level = level
  if (limit.quota > 0) bucket.capacity = capacityOf(limit)
}

/** Counts what the note says of levels as the limit does. What may still be given back is rounded down, what was given back is rounded up. */
export function scaleNote(limit: Limit, note: SettlementNote): void {
  const [from, to] = [note.capacity, capacityOf(limit)]
  if (from === to || to === 0) return
  note.left = Math.max(0, -scaled(-note.left, from, to))
  const gaps = note.gaps.map(gap => ({ ...gap, size: scaled(gap.size, from, to) }))
  note.gaps.splice(0, gaps.length, ...gaps)
  note.capacity = to
}

/** units × ms in a full bucket; 0 at quota 0. */
function capacityOf(limit: Limit): number {
  return mostOf(limit) * limit.windowMs
}

/** The same share of another capacity, rounded up. Exact, unless the product of both capacities over their greatest divisor leaves the exact integers. */
function scaled(level: number, from: number, to: number): number {
  if (from === 0 || to === 0) return level
  let divisor = from
  for (let rest = to; rest > 0; ) [divisor, rest] = [rest, divisor % rest]
  const [whole, part] = [from / divisor, to / divisor]
  const rest = level % whole
  return Math.min(((level - rest) / whole) * part + Math.ceil((rest * part) / whole), Number.MAX_SAFE_INTEGER)
}

function verdict(limit: Limit, level: number, retryAfterMs: number, delayMs: number): Verdict {
  const left = mostOf(limit) * limit.windowMs - level
  return {
    limit,
    allowed: retryAfterMs === 0,
    remaining: left > 0 ? toSmallInteger(floorDiv(left, limit.windowMs)) : 0,
    retryAfterMs: toSmallInteger(retryAfterMs),
    resetAfterMs: limit.quota === 0 ? 0 : toSmallInteger(ceilDiv(level, limit.quota)),
    delayMs: toSmallInteger(delayMs),
  }
}

import { type Verdict, verdictOf } from '../core/decision.js'
import { type Limit, maxCostOf } from '../core/limit.js'
import { type Algorithm, ceilDiv, floorDiv, toSmallInteger } from './algorithm.js'

/**
 * The common part of token-bucket and leaky-bucket: a level that rises by cost × window with every spent unit and falls
 * by `quota` every millisecond. In units × ms the level is a whole number for every rate, so 7 per second is as exact
 * as 10.
 *
 * A limit that is changed under its name keeps the share that is left: under another capacity a level is scaled where
 * it is read. What came back between two requests is computed at the rate of the later one's limit. At quota 0 there is
 * no capacity to scale to: levels stay as they are until the quota is raised, and that time counts as any other.
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
function bucket(keySuffix: string, shapes: boolean): Algorithm<Bucket> {
  return {
    row: {
      width: 3,
      read: (cells, at) => ({ at: cells[at], level: cells[at + 1], capacity: cells[at + 2] }),
      write(cells, at, bucket) {
        cells[at] = bucket.at
        cells[at + 1] = bucket.level
        cells[at + 2] = bucket.capacity
      },
    },

    keySuffix,
    shapes,

    fresh: () => ({ at: 0, level: 0, capacity: 0 }),
    copy: ({ at, level, capacity }) => ({ at, level, capacity }),

    consume(limit, bucket, nowMs, cost) {
      const level = levelAt(limit, bucket, nowMs)
      const maxCost = maxCostOf(limit)
      // The compared values never exceed burst × windowMs, which the policy keeps below 2⁵³; a sum of both sides could.
      const over = level - (maxCost - cost) * limit.windowMs
      if (cost > 0 && cost <= maxCost && over <= 0) {
        setLevel(limit, bucket, nowMs, level + cost * limit.windowMs)
        return verdict(limit, bucket.level, 0, shapes ? ceilDiv(level, limit.quota) : 0)
      }
      // The level stays as it is counted, so that refusals under limits that take turns do not round it up again and
      // again.
      if (bucket.at > nowMs) bucket.at = nowMs
      if (cost === 0) return verdict(limit, level, 0, 0)
      return verdict(limit, level, cost > maxCost ? Number.POSITIVE_INFINITY : ceilDiv(over, limit.quota), 0)
    },
  }
}

/**
 * The level after so many more units. Capped, because an endless debt would leave the exact integers; 2⁵³ are never
 * regained in practice.
 */
export function levelBehind({ windowMs }: Limit, level: number, units: number): number {
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

/** units × ms in a full bucket; 0 at quota 0. */
export function capacityOf(limit: Limit): number {
  return maxCostOf(limit) * limit.windowMs
}

/**
 * The same share of another capacity, rounded up. Exact, unless the product of both capacities over their greatest
 * divisor leaves the exact integers.
 */
export function scaled(level: number, from: number, to: number): number {
  if (from === 0 || to === 0) return level
  let divisor = from
  for (let rest = to; rest > 0; ) [divisor, rest] = [rest, divisor % rest]
  const [whole, part] = [from / divisor, to / divisor]
  const rest = level % whole
  return Math.min(((level - rest) / whole) * part + Math.ceil((rest * part) / whole), Number.MAX_SAFE_INTEGER)
}

function verdict(limit: Limit, level: number, retryAfterMs: number, delayMs: number): Verdict {
  const left = maxCostOf(limit) * limit.windowMs - level
  const remaining = left > 0 ? toSmallInteger(floorDiv(left, limit.windowMs)) : 0
  const resetAfterMs = limit.quota === 0 ? 0 : toSmallInteger(ceilDiv(level, limit.quota))
  return verdictOf(limit, remaining, toSmallInteger(retryAfterMs), resetAfterMs, toSmallInteger(delayMs))
}

/**
 * Refills `quota` per window evenly and holds up to `burst`: saved units can be spent at one instant. There is no
 * window boundary at which units could count twice. The arithmetic is the generic cell rate algorithm (GCRA, ITU-T
 * I.371), in whole units × ms.
 */
export const tokenBucket = bucket('tb', false)

/**
 * Delays instead of refusing: an allowed request waits `delayMs`, until all requests allowed before it have left
 * window/quota apart. `burst` places in all, including the request that leaves at once; when they are taken it refuses.
 */
export const leakyBucket = bucket('lb', true)

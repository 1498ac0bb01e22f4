import { type Verdict, verdictOf } from '../core/decision.js'
import { type Limit, maxCostOf } from '../core/limit.js'
import { type Algorithm, ceilDiv, floorDiv, type LeaseArithmetic, toSmallInteger } from './algorithm.js'
import { type Gap, noteRefund, ownLeft, type Receipt, type RefundNote } from './refund-note.js'

/**
 * The common part of token-bucket and leaky-bucket: a level that rises by cost × window with every spent unit and falls
 * by `quota` every millisecond. In units × ms the level is a whole number for every rate, so 7 per second is as exact
 * as 10.
 *
 * A limit that is changed under its name keeps the share that is left: under another capacity a level is scaled where
 * it is read. What came back between two requests is computed at the rate of the later one's limit. At quota 0 there is
 * no capacity to scale to: levels stay as they are until the quota is raised, and that time counts as any other.
 */
interface Bucket {
  /** The time of `level`, ms. */
  at: number
  /** Units spent and not yet regained, × windowMs. */
  level: number
  /** burst × windowMs of the limit under which `level` is counted; 0: only limits of quota 0 have written it. */
  capacity: number
}

/** Builds a bucket algorithm. If it shapes, an allowed request waits until the level that it found has drained. */
function bucket({
  keySuffix,
  shapes,
  giveBack,
  lease,
}: Pick<Algorithm<Bucket>, 'keySuffix' | 'shapes' | 'giveBack' | 'lease'>): Algorithm<Bucket> {
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
    redisWork: 1,
    shapes,
    notesResets: true,

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
    ...(lease && { lease }),

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

    // A bucket that is empty in resetAfterMs has room for `cost` when the rest of the burst has yet to drain. The level
    // is known only in whole ms of draining, so that rest must be a whole number of them too.
    refusedAfterMs({ limit, resetAfterMs }, cost) {
      const restMs = ((maxCostOf(limit) - cost) * limit.windowMs) / limit.quota
      return Number.isInteger(restMs) ? resetAfterMs - restMs : undefined
    },
  }
}

/** How much of the units charged before the last refund or reset can still be given back, in units × ms. */
function leftOfCut(limit: Limit, note: RefundNote, nowMs: number): number {
  const { quota, burst, windowMs } = limit
  if (note.cutAt === Number.NEGATIVE_INFINITY) return Number.POSITIVE_INFINITY
  // A bucket that had time to fill has regained all earlier charges.
  if (quota > 0 && quota * (nowMs - note.cutAt) >= burst * windowMs) return Number.POSITIVE_INFINITY
  return Math.max(0, note.left - quota * Math.max(0, nowMs - note.cutAt))
}

/**
 * The level after so many more units. Capped, because an endless debt would leave the exact integers; 2⁵³ are never
 * regained in practice.
 */
function levelBehind({ windowMs }: Limit, level: number, units: number): number {
  return Math.min(level + units * windowMs, Number.MAX_SAFE_INTEGER)
}

/** The level at the bucket's own time, as the limit counts it. */
function levelUnder(limit: Limit, { level, capacity }: Bucket): number {
  const own = capacityOf(limit)
  return own === capacity ? level : scaled(level, capacity, own)
}

function levelAt(limit: Limit, bucket: Bucket, nowMs: number): number {
  const found = levelUnder(limit, bucket)
  const elapsedMs = nowMs - bucket.at
  if (elapsedMs <= 0) return found
  const level = found - limit.quota * elapsedMs
  return Math.max(level, 0)
}

/** Writes a level as the limit counts it. */
function setLevel(limit: Limit, bucket: Bucket, at: number, level: number): void {
  bucket.at = at
  bucket.level = level
  if (limit.quota > 0) bucket.capacity = capacityOf(limit)
}

/**
 * Counts what the note says of levels as the limit does. What may still be given back is rounded down, what was given
 * back is rounded up.
 */
function scaleNote(limit: Limit, note: RefundNote): void {
  const [from, to] = [note.capacity, capacityOf(limit)]
  if (from === to || to === 0) return
  note.left = Math.max(0, -scaled(-note.left, from, to))
  const gaps = note.gaps.map(gap => ({ ...gap, size: scaled(gap.size, from, to) }))
  note.gaps.splice(0, gaps.length, ...gaps)
  note.capacity = to
}

/** units × ms in a full bucket; 0 at quota 0. */
function capacityOf(limit: Limit): number {
  return maxCostOf(limit) * limit.windowMs
}

/**
 * The same share of another capacity, rounded up. Exact, unless the product of both capacities over their greatest
 * divisor leaves the exact integers.
 */
function scaled(level: number, from: number, to: number): number {
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

const LEASED_BUCKET: LeaseArithmetic = {
  chargedAt: soldAt => soldAt,

  // The bucket may have sold the units again that it has regained since the sale.
  returned({ quota, windowMs }, units, ageMs) {
    const left = units * windowMs - quota * ageMs
    return left > 0 ? Math.min(units, floorDiv(left, windowMs)) : 0
  },
}

/** More gaps than this are joined, so that they count for more decisions than necessary. */
const MAX_GAPS = 32

/**
 * Refills `quota` per window evenly and holds up to `burst`: saved units can be spent at one instant. There is no
 * window boundary at which units could count twice. The arithmetic is the generic cell rate algorithm (GCRA, ITU-T
 * I.371), in whole units × ms.
 *
 * A settlement gives back the units that the bucket has not yet regained: units are regained in the order in which they
 * were charged. If the decision's charge was the last one: all that is left. Else the level directly after the
 * decision, less what was regained since, less what was given back from earlier charges, because the decision's own
 * units came back earlier by that much. The limit is the decision's, also if it was changed since: then what was
 * regained is computed at the decision's rate.
 */
export const tokenBucket = bucket({
  keySuffix: 'tb',
  shapes: false,
  lease: LEASED_BUCKET,
  giveBack(limit, state, nowMs, units, receipt, note) {
    const { chargedAt } = receipt
    const isNewest = chargedAt === state.at
    // The clock stepped back to before the decision.
    if (chargedAt > nowMs && !isNewest) return
    let back = Math.min(Math.min(units, ownLeft(receipt, note)) * limit.windowMs, levelAt(limit, state, nowMs))
    scaleNote(limit, note)
    if (!isNewest) {
      let left = levelThen(limit, receipt) - limit.quota * (nowMs - chargedAt)
      for (const { from, to, size } of note.gaps) if (from <= chargedAt && chargedAt <= to) left -= size
      if (chargedAt <= note.cutAt) left = Math.min(left, leftOfCut(limit, note, nowMs))
      back = Math.min(back, left)
    }
    if (back <= 0) return
    setLevel(limit, state, state.at, levelUnder(limit, state) - back)
    if (chargedAt <= note.cutAt) note.left -= back
    addGap(limit, note, { from: chargedAt, to: Math.max(chargedAt, state.at), size: back }, nowMs)
  },
})

/**
 * The level directly after the decision: the lowest that fits its verdict, which is rounded to whole units and whole
 * ms.
 */
function levelThen(limit: Limit, { remaining, resetAfterMs }: Receipt): number {
  return Math.max((resetAfterMs - 1) * limit.quota, (maxCostOf(limit) - remaining - 1) * limit.windowMs) + 1
}

function addGap(limit: Limit, { gaps }: RefundNote, gap: Gap, nowMs: number): void {
  // Such an old decision has nothing left to give back, and earlier returns do not affect it.
  const fillMs = (maxCostOf(limit) * limit.windowMs) / limit.quota
  const kept = gaps.filter(({ to }) => nowMs - to < fillMs)
  kept.push(gap)
  if (kept.length > MAX_GAPS) {
    const [first, second] = kept.splice(0, 2)
    const from = Math.min(first.from, second.from)
    const to = Math.max(first.to, second.to)
    kept.unshift({ from, to, size: Math.min(first.size + second.size, Number.MAX_SAFE_INTEGER) })
  }
  gaps.splice(0, gaps.length, ...kept)
}

/**
 * Delays instead of refusing: an allowed request waits `delayMs`, until all requests allowed before it have left
 * window/quota apart. `burst` places in all, including the request that leaves at once; when they are taken it refuses.
 *
 * A settlement gives a place back only if it is the last one. A freed place in the middle would let the next request
 * leave at the same time as the last one.
 */
export const leakyBucket = bucket({
  keySuffix: 'lb',
  shapes: true,
  giveBack(limit, state, nowMs, units, receipt, note) {
    const { chargedAt, remaining } = receipt
    const level = levelAt(limit, state, nowMs)
    if (level === 0 || chargedAt > nowMs || chargedAt < note.cutAt) return
    // Each unit raises the level by a whole window, so the whole units of the verdict tell whether later requests were
    // charged.
    const levelThen = (maxCostOf(limit) - remaining) * limit.windowMs
    if (level + limit.quota * (nowMs - chargedAt) > levelThen) return
    const back = Math.min(Math.min(units, ownLeft(receipt, note)) * limit.windowMs, level)
    setLevel(limit, state, state.at, levelUnder(limit, state) - back)
  },
})

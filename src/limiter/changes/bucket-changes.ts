import { type Bucket, capacityOf, levelAt, levelBehind, levelUnder, scaled, setLevel } from '../algorithms/buckets.js'
import { type Limit, maxCostOf } from '../core/limit.js'
import type { ChangeArithmetic } from './change-arithmetic.js'
import { type Gap, noteRefund, ownLeft, type Receipt, type RefundNote } from './refund-note.js'

const both: Omit<ChangeArithmetic<Bucket>, 'giveBack'> = {
  notesResets: true,

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
}

/**
 * A settlement gives back the units that the bucket has not yet regained: units are regained in the order in which they
 * were charged. If the decision's charge was the last one: all that is left. Else the level directly after the
 * decision, less what was regained since, less what was given back from earlier charges, because the decision's own
 * units came back earlier by that much. The limit is the decision's, also if it was changed since: then what was
 * regained is computed at the decision's rate.
 */
export const tokenChanges: ChangeArithmetic<Bucket> = {
  ...both,

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
}

/**
 * A settlement gives a place back only if it is the last one. A freed place in the middle would let the next request
 * leave at the same time as the last one.
 */
export const leakyChanges: ChangeArithmetic<Bucket> = {
  ...both,

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
}

/** More gaps than this are joined, so that they count for more decisions than necessary. */
const MAX_GAPS = 32

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

/** How much of the units charged before the last refund or reset can still be given back, in units × ms. */
function leftOfCut(limit: Limit, note: RefundNote, nowMs: number): number {
  const { quota, burst, windowMs } = limit
  if (note.cutAt === Number.NEGATIVE_INFINITY) return Number.POSITIVE_INFINITY
  // A bucket that had time to fill has regained all earlier charges.
  if (quota > 0 && quota * (nowMs - note.cutAt) >= burst * windowMs) return Number.POSITIVE_INFINITY
  return Math.max(0, note.left - quota * Math.max(0, nowMs - note.cutAt))
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

import { type Limit, mostOf } from '../core/limit.js'
import { bucket, leftOfCut, levelAt, levelUnder, scaleNote, setLevel } from './bucket.js'
import { type Gap, ownLeft, type Receipt, type SettlementNote } from './settlement-note.js'

/** More gaps than this are joined, so that they count for more decisions than necessary. */
const MOST_GAPS = 32

/**
 * Refills `quota` per window evenly and holds up to `burst`: saved units can be spent at one instant. There is no window boundary
 * at which units could count twice. The arithmetic is the generic cell rate algorithm (GCRA, ITU-T I.371),
 * in whole units × ms.
 *
 * A settlement gives back the units that the bucket has not yet regained: units are regained in the order in which they were
 * charged. If the decision's charge was the last one: all that is left. Else the level directly after the decision, less what was
 * regained since, less what was given back from earlier charges, because the decision's own units came back earlier by that much.
 * The limit is the decision's, also if it was changed since: then what was regained is computed at the decision's rate.
 */
export const tokenBucket = bucket({
  keySuffix: 'tb',
  shapes: false,
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

/** The level directly after the decision: the lowest that fits its verdict, which is rounded to whole units and whole ms. */
function levelThen(limit: Limit, { remaining, resetAfterMs }: Receipt): number {
  return Math.max((resetAfterMs - 1) * limit.quota, (mostOf(limit) - remaining - 1) * limit.windowMs) + 1
}

function addGap(limit: Limit, { gaps }: SettlementNote, gap: Gap, nowMs: number): void {
  // Such an old decision has nothing left to give back, and earlier returns do not affect it.
  const fillMs = (mostOf(limit) * limit.windowMs) / limit.quota
  const kept = gaps.filter(({ to }) => nowMs - to < fillMs)
  kept.push(gap)
  if (kept.length > MOST_GAPS) {
    const [first, second] = kept.splice(0, 2)
    const from = Math.min(first.from, second.from)
    const to = Math.max(first.to, second.to)
    kept.unshift({ from, to, size: Math.min(first.size + second.size, Number.MAX_SAFE_INTEGER) })
  }
  gaps.splice(0, gaps.length, ...kept)
}

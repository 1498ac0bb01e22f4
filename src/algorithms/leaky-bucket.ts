import { mostOf } from '../core/limit.js'
import { bucket, levelAt } from './bucket.js'
import { ownLeft } from './settlement-note.js'

/**
 * Shapes instead of refusing: an admitted request waits `delayMs`, until all that were admitted before it have left
 * window/quota apart. `burst` places in all, the one that leaves at once included; when they are taken it refuses.
 *
 * A settlement gives a place back only if it is the last one. One in the middle cannot be taken by who comes next, who would
 * leave together with the last.
 */
export const leakyBucket = bucket({
  keySuffix: 'lb',
  shapes: true,
  giveBack(limit, state, nowMs, units, receipt, note) {
    const { chargedAt, remaining } = receipt
    const level = levelAt(limit, state, nowMs)
    if (level === 0 || chargedAt > nowMs || chargedAt < note.cutAt) return
    // Each unit raises the level by a whole window, so that the whole units of the verdict tell whether anybody came after.
    const levelThen = (mostOf(limit) - remaining) * limit.windowMs
    if (level + limit.quota * (nowMs - chargedAt) > levelThen) return
    state.level -= Math.min(Math.min(units, ownLeft(receipt, note)) * limit.windowMs, level)
  },
})

import { mostOf } from '../core/limit.js'
import { bucket, levelAt, levelUnder, setLevel } from './bucket.js'
import { ownLeft } from './settlement-note.js'

/**
 * Delays instead of refusing: an allowed request waits `delayMs`, until all requests allowed before it have left
 * window/quota apart. `burst` places in all, including the request that leaves at once; when they are taken it refuses.
 *
 * A settlement gives a place back only if it is the last one. A freed place in the middle would let the next request leave
 * at the same time as the last one.
 */
export const leakyBucket = bucket({
  keySuffix: 'lb',
  shapes: true,
  giveBack(limit, state, nowMs, units, receipt, note) {
    const { chargedAt, remaining } = receipt
    const level = levelAt(limit, state, nowMs)
    if (level === 0 || chargedAt > nowMs || chargedAt < note.cutAt) return
    // Each unit raises the level by a whole window, so the whole units of the verdict tell whether later requests were charged.
    const levelThen = (mostOf(limit) - remaining) * limit.windowMs
    if (level + limit.quota * (nowMs - chargedAt) > levelThen) return
    const back = Math.min(Math.min(units, ownLeft(receipt, note)) * limit.windowMs, level)
    setLevel(limit, state, state.at, levelUnder(limit, state) - back)
  },
})

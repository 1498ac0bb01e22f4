import { bucket } from './bucket.js'
import { ceilDiv } from './division.js'

/**
 * Shapes instead of refusing: an admitted request waits `delayMs`, until all that were admitted before it have left
 * window/quota apart. `burst` places in all, the one that leaves at once included; when they are taken it refuses.
 */
export const leakyBucket = bucket((limit, level) => ceilDiv(level, limit.quota))

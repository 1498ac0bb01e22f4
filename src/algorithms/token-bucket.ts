import { bucket } from './bucket.js'

/**
 * Refills `quota` per window evenly and holds `burst`: what was saved can be spent at one instant. Nothing is counted twice
 * at a boundary, because there is none. The arithmetic is that of the generic cell rate algorithm (GCRA, ITU-T I.371), kept
 * in whole unit × ms.
 */
export const tokenBucket = bucket(() => 0)

import type { PermitAlgorithm, Sample } from './permit-algorithm.js'

/** After about so many samples for each permit, the time without load is measured anew. */
const PROBE = 30

/**
 * Vegas of Netflix's concurrency-limits, after TCP Vegas: estimates how many requests queue, limit × (1 − least time ÷ time), and
 * keeps that number between 3 and 6 times log10 of the limit.
 *
 * Unlike the source, the least time is not measured anew while the limit is used up: that would take our own line for the service.
 */
export class Vegas implements PermitAlgorithm {
  #leastMs = 0
  #samples = 0
  #jitter = 0.75

  next(limit: number, { rttMs, inFlight, usedUp }: Sample): number {
    this.#samples++
    const probes = !usedUp && this.#samples >= this.#jitter * PROBE * limit
    if (probes) {
      this.#samples = 0
      this.#jitter = 0.5 + Math.random() / 2
    }
    if (this.#leastMs === 0 || rttMs < this.#leastMs || probes) {
      this.#leastMs = rttMs
      return limit
    }
    if (inFlight * 2 < limit) return limit
    const queue = Math.ceil(limit * (1 - this.#leastMs / rttMs))
    const step = Math.max(1, Math.log10(limit))
    if (queue <= step) return limit + 6 * step
    if (queue < 3 * step) return limit + step
    if (queue > 6 * step) return limit - step
    return limit
  }
}

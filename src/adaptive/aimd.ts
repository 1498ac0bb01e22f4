import type { PermitAlgorithm, Sample } from './permit-algorithm.js'

const BACKOFF = 0.9
/** Slower requests count as lost. */
const TIMEOUT_MS = 5000

/**
 * AIMD of Netflix's concurrency-limits: one permit more for each sample while at least half of them are used, a tenth less when requests
 * take longer than five seconds.
 */
export class Aimd implements PermitAlgorithm {
  next(limit: number, { rttMs, inFlight }: Sample): number {
    if (rttMs > TIMEOUT_MS) return limit * BACKOFF
    return inFlight * 2 >= limit ? limit + 1 : limit
  }
}

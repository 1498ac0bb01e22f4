/** What one sampling window has measured. */
export interface Sample {
  /** How long requests took, on the mean, ms. */
  readonly rttMs: number
  /** The most that were inside at once. */
  readonly inFlight: number
  /** At some moment as many were inside as the limit allows: then they may have waited for each other. */
  readonly usedUp: boolean
}

/**
 * Finds how many requests should be inside at once from how long they take. After Netflix's concurrency-limits
 * (https://github.com/Netflix/concurrency-limits, Apache-2.0), with its constants. Not bounded: see `AdaptivePermits`.
 */
export interface PermitAlgorithm {
  /** The next limit, after the present one and a sample; may have a fraction. */
  next(limit: number, sample: Sample): number
}

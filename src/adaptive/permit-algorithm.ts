/** The measurements of one sampling window. */
export interface Sample {
  /** The mean duration of requests, ms. */
  readonly rttMs: number
  /** The most that were inside at once. */
  readonly inFlight: number
  /** The limit was reached at some moment: requests may have waited for each other. */
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

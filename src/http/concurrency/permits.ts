/** A number of permits that adapts to the duration of requests: for the option `permits` of `concurrencyLimit`. */
export interface AdaptivePermits {
  /** The current number of permits; an integer from `min` to `max`. */
  readonly limit: number
  /** The number of requests inside. */
  readonly inUse: number
}

/** Adaptive permits as `concurrencyLimit` uses them. */
export interface PermitsByDuration extends AdaptivePermits {
  /**
   * A request has entered. Call what this returns when it leaves: true if it took as long as the service needs, false
   * if that means nothing (the client had gone, or the response is a stream).
   */
  enter(): (counts: boolean) => void
}

/** Whether these permits adapt: whoever gives them says so by what they can. */
export function adapt(permits: unknown): permits is PermitsByDuration {
  const given = permits as Partial<PermitsByDuration> | null
  return typeof given === 'object' && typeof given?.limit === 'number' && typeof given.enter === 'function'
}

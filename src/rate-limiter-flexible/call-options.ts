/** Options of one call. */
export interface CallOptions {
  /** In seconds: the duration of a new key, instead of the limiter's. */
  readonly customDuration?: unknown
  readonly [option: string]: unknown
}

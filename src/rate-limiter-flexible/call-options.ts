/** Options of one call. */
export interface CallOptions {
  /** In seconds: the duration that a new key gets, in place of the limiter's. */
  readonly customDuration?: unknown
  readonly [option: string]: unknown
}

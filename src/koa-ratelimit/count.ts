/** The result of counting a request. */
export interface Count {
  readonly allowed: boolean
  /** Requests left, ≥ 0. */
  readonly remaining: number
  /** The ms until a request fits again, > 0. */
  readonly resetAfterMs: number
  /** That moment, ms since 1970, by the counting clock. */
  readonly resetAt: number
  readonly total: number
}

/** Counts requests by the sender's id. */
export interface Counter {
  count(id: string): Count | Promise<Count>
}

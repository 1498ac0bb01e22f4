/** What counting a request gave. */
export interface Count {
  readonly allowed: boolean
  /** Requests left, ≥ 0. */
  readonly remaining: number
  /** In how many ms there will be room again, > 0. */
  readonly resetAfterMs: number
  /** That moment, ms since 1970, by the clock that counts. */
  readonly resetAt: number
  readonly total: number
}

/** Counts requests by the id of who sends them. */
export interface Counter {
  count(id: string): Count | Promise<Count>
}

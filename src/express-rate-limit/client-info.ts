/** The count of a key and the end of its window. */
export type ClientRateLimitInfo = {
  /** Requests counted in the current window. */
  totalHits: number
  /** When the window ends; undefined if the store does not know. */
  resetTime: Date | undefined
}

/** The result of a store's `increment`. */
export type IncrementResponse = ClientRateLimitInfo

/** As `ClientRateLimitInfo`, from a store that always knows when the window ends. */
export type Client = {
  /** Requests counted in the current window. */
  totalHits: number
  /** When the window ends. */
  resetTime: Date
}

/** The callback of a `LegacyStore`: an error, or the count and the end of the window. */
export type IncrementCallback = (error: Error | undefined, totalHits: number, resetTime: Date | undefined) => void

/** A store of express-rate-limit before version 6. */
export type LegacyStore = {
  /** Counts a request, and calls back. */
  incr: (key: string, callback: IncrementCallback) => void
  /** Gives one request back. */
  decrement: (key: string) => void
  /** Deletes the count of a key. */
  resetKey: (key: string) => void
  /** Deletes the counts of all keys. */
  resetAll?: () => void
}

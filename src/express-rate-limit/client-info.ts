/** What a store knows of a key. */
export type ClientRateLimitInfo = {
  /** Requests counted in the window that runs. */
  totalHits: number
  /** When the window ends; undefined if the store does not know. */
  resetTime: Date | undefined
}

/** What `increment` of a store resolves to. */
export type IncrementResponse = ClientRateLimitInfo

/** As `ClientRateLimitInfo`, of a store that always knows when the window ends. */
export type Client = {
  /** Requests counted in the window that runs. */
  totalHits: number
  /** When the window ends. */
  resetTime: Date
}

/** What a `LegacyStore` calls: an error, or the count and the end of the window. */
export type IncrementCallback = (error: Error | undefined, totalHits: number, resetTime: Date | undefined) => void

/** A store of express-rate-limit before version 6. */
export type LegacyStore = {
  /** Counts a request, and calls back. */
  incr: (key: string, callback: IncrementCallback) => void
  /** Gives one request back. */
  decrement: (key: string) => void
  /** Forgets what a key has spent. */
  resetKey: (key: string) => void
  /** Forgets all keys. */
  resetAll?: () => void
}

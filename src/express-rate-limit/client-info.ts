/** What a store knows of a key. */
export type ClientRateLimitInfo = {
  /** Requests counted in the window that runs. */
  totalHits: number
  resetTime: Date | undefined
}

export type IncrementResponse = ClientRateLimitInfo

/** As `ClientRateLimitInfo`, of a store that always knows when the window ends. */
export type Client = {
  totalHits: number
  resetTime: Date
}

export type IncrementCallback = (error: Error | undefined, totalHits: number, resetTime: Date | undefined) => void

/** A store of express-rate-limit before version 6. */
export type LegacyStore = {
  incr: (key: string, callback: IncrementCallback) => void
  decrement: (key: string) => void
  resetKey: (key: string) => void
  resetAll?: () => void
}

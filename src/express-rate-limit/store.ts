import type { Options } from './options.js'

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

/** A store of express-rate-limit. */
export type Store = {
  /** Told once of the limiter's options. Not waited for; what it throws is logged. */
  init?: (options: Options) => void | Promise<void>
  get?: (key: string) => Promise<ClientRateLimitInfo | undefined> | ClientRateLimitInfo | undefined
  increment: (key: string) => Promise<IncrementResponse> | IncrementResponse
  decrement: (key: string) => Promise<void> | void
  resetKey: (key: string) => Promise<void> | void
  resetAll?: () => Promise<void> | void
  shutdown?: () => Promise<void> | void
  /** true: no other instance can count the same keys. */
  localKeys?: boolean
  /** What the store puts before each key. */
  prefix?: string
}

export type IncrementCallback = (error: Error | undefined, totalHits: number, resetTime: Date | undefined) => void

/** A store of express-rate-limit before version 6. */
export type LegacyStore = {
  incr: (key: string, callback: IncrementCallback) => void
  decrement: (key: string) => void
  resetKey: (key: string) => void
  resetAll?: () => void
}

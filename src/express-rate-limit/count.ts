import type { Request, Response } from 'express'
import type { SyncOrAsync } from '../http/call-option.js'
import type { ClientRateLimitInfo } from './options.js'

/** The result of counting a request: the count of its key, and its limit. */
export interface Count {
  readonly totalHits: number
  readonly resetTime: Date | undefined
  /** The limit that the way of counting applied; undefined: the option `limit` applies. */
  readonly limit?: number
  readonly windowMs: number
  /** The delay before the request may be passed on, ms. */
  readonly delayMs?: number
  giveBack(): Promise<void> | void
}

/** A way of counting requests. */
export interface Counting {
  count(key: string, request: Request, response: Response): SyncOrAsync<Count>
  resetKey(key: string): Promise<void> | void
  /** Undefined if the store cannot look a key up. */
  getKey?(key: string): Promise<ClientRateLimitInfo | undefined> | ClientRateLimitInfo | undefined
}

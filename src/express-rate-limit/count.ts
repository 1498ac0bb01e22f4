import type { Request, Response } from 'express'
import type { SyncOrAsync } from '../http/sync-or-async.js'
import type { ClientRateLimitInfo } from './client-info.js'

/** A request that has been counted: where its key stands, and under which limit. */
export interface Count {
  readonly totalHits: number
  readonly resetTime: Date | undefined
  /** As the way of counting has found it; absent: the option `limit` says. */
  readonly limit?: number
  readonly windowMs: number
  /** Before it may be passed on, ms. */
  readonly delayMs?: number
  giveBack(): Promise<void> | void
}

/** A way of counting requests. */
export interface Counting {
  count(key: string, request: Request, response: Response): SyncOrAsync<Count>
  resetKey(key: string): Promise<void> | void
  /** Absent where the store cannot tell. */
  getKey?(key: string): Promise<ClientRateLimitInfo | undefined> | ClientRateLimitInfo | undefined
}

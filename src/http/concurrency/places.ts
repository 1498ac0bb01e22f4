import type { SyncOrAsync } from '../sync-or-async.js'

/** The right of one request to be inside. */
export interface Place {
  /** Passes the place to the next request. Call it once. False: the place was lost before, because Redis forgot it or its lease ended. */
  leave(): boolean
}

/** How many requests of a key may be inside at once: in this process, or over all processes. */
export interface Places {
  /** A place now; null if none is free or others wait. */
  enter(key: string): SyncOrAsync<Place | null>
  /** A place within `ms`, first come, first served; else null. Rejects with the reason of the signal. */
  wait(key: string, ms: number, signal: AbortSignal): Promise<Place | null>
  /** Rejects all waiting requests. */
  close(): Promise<void>
}

import type { SyncOrAsync } from '../sync-or-async.js'

/** One of the requests that may be inside at once. */
export interface Place {
  /** Gives it to whoever is next. Once. False: it had been lost to somebody else, because Redis forgot it or its lease ended. */
  leave(): boolean
}

/** How many requests of a key may be inside at once: in this process, or over all of them. */
export interface Places {
  /** A place now, null if there is none or somebody waits for it. */
  enter(key: string): SyncOrAsync<Place | null>
  /** A place within so many ms, first come, first served; else null. Rejects with the reason of the signal. */
  wait(key: string, ms: number, signal: AbortSignal): Promise<Place | null>
  /** Rejects all waiting requests. */
  close(): Promise<void>
}

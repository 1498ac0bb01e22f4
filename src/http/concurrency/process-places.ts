import { SpillwayError } from '../../limiter/core/errors.js'
import { Wait } from '../../limiter/core/wait.js'
import type { SyncOrAsync } from '../sync-or-async.js'
import type { AdaptivePermits } from './permits.js'

/** The right of one request to be inside. */
export interface Place {
  /** The lease behind a place that is counted over all processes. */
  readonly lease?: { readonly id: string; readonly token: bigint }
  /**
   * Passes the place to the next request. Call it once. False: the place was lost before, because Redis forgot it or
   * its lease ended.
   */
  leave(): boolean
}

/** How many requests of a key may be inside at once: in this process, or over all processes. */
export interface Places {
  /** A place now; null if none is free or others wait. */
  enter(key: string): SyncOrAsync<Place | null>
  /** A place within `ms`, first come, first served; else null. Rejects with the reason of the signal. */
  wait(key: string, ms: number, signal: AbortSignal): Promise<Place | null>
  /** Whether a place of the other is one of these, too. */
  isSame(other: Places): boolean
  /** Rejects all waiting requests. */
  close(): Promise<void>
}

/** Of requests that wait when the limit is closed. */
export function closedError(): SpillwayError {
  return new SpillwayError('concurrencyLimit was closed')
}

interface Room {
  inside: number
  /** In order of arrival. */
  readonly waiting: Set<Wait<Place | null>>
}

/** Places in this process. A key without requests inside needs no memory. */
export class ProcessPlaces implements Places {
  readonly #rooms = new Map<string, Room>()
  readonly #permits: AdaptivePermits

  /** `permits`: a number, or an object that returns the current number. */
  constructor(permits: number | AdaptivePermits) {
    this.#permits = typeof permits === 'number' ? { limit: permits, inUse: 0 } : permits
  }

  /** The number of keys with at least one request inside. */
  get size(): number {
    return this.#rooms.size
  }

  enter(key: string): Place | null {
    const inside = this.#rooms.get(key)?.inside ?? 0
    // While others wait no place is free: a leaving request passes its place on.
    return inside < this.#permits.limit ? this.occupy(key) : null
  }

  /** A place for a request that was admitted elsewhere, whether or not one is free here. */
  occupy(key: string): Place {
    let room = this.#rooms.get(key)
    if (room === undefined) {
      room = { inside: 0, waiting: new Set() }
      this.#rooms.set(key, room)
    }
    room.inside++
    return this.#placeIn(key, room)
  }

  wait(key: string, ms: number, signal: AbortSignal): Promise<Place | null> {
    const place = this.enter(key)
    const room = this.#rooms.get(key)
    const wait = new Wait<Place | null>(
      { timeoutMs: ms, signal },
      () => {
        room?.waiting.delete(wait)
        wait.resolve(null)
      },
      () => queueMicrotask(() => room?.waiting.delete(wait)),
    )
    if (wait.ended) place?.leave()
    else if (place !== null) wait.resolve(place)
    else room?.waiting.add(wait)
    return wait.promise
  }

  isSame(other: Places): boolean {
    return other === this
  }

  async close(): Promise<void> {
    const closed = closedError()
    for (const room of this.#rooms.values()) {
      for (const wait of room.waiting) wait.reject(closed)
      room.waiting.clear()
    }
  }

  #placeIn(key: string, room: Room): Place {
    let left = false
    return {
      leave: () => {
        if (left) return true
        left = true
        room.inside--
        // More requests may be inside than there are permits, if they were admitted elsewhere; and the number of
        // permits may have grown.
        while (room.inside < this.#permits.limit && this.#handOn(key, room)) {}
        if (room.inside === 0) this.#rooms.delete(key)
        return true
      },
    }
  }

  /** False if nobody waits. */
  #handOn(key: string, room: Room): boolean {
    for (const next of room.waiting) {
      room.waiting.delete(next)
      if (next.ended) continue
      room.inside++
      next.resolve(this.#placeIn(key, room))
      return true
    }
    return false
  }
}

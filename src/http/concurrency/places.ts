import { emitWarning } from '../../core/warning.js'
import type { SyncOrAsync } from '../sync-or-async.js'

/** The right of one request to be inside. */
export interface Place {
  /** The lease behind a place that is counted over all processes. */
  readonly lease?: { readonly id: string; readonly token: bigint }
  /** Passes the place to the next request. Call it once. False: the place was lost before, because Redis forgot it or its lease ended. */
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

/** The places that a request has taken: usually one. */
const HELD = new WeakMap<object, Array<{ readonly places: Places; readonly key: string }>>()

/** Whether a concurrency limit has let the request in, and told its policy on the response. */
export function holdsPlace(request: object): boolean {
  return HELD.has(request)
}

/** Lets a request that passes one limit twice hold one place, so that it does not wait for itself; warns once. */
export class HeldPlaces {
  #warned = false

  constructor(
    readonly places: Places,
    readonly name: string,
  ) {}

  /** The request has taken a place. */
  add(request: object, key: string): void {
    const held = HELD.get(request)
    if (held === undefined) HELD.set(request, [{ places: this.places, key }])
    else held.push({ places: this.places, key })
  }

  /** Whether the request has a place of this key. */
  has(request: object, key: string): boolean {
    const held = HELD.get(request)
    if (held === undefined || !held.some(one => one.key === key && one.places.isSame(this.places))) return false
    if (this.#warned) return true
    this.#warned = true
    emitWarning(
      'SPILLWAY_DOUBLE',
      `concurrencyLimit: a request came twice for a place of "${this.name}", and holds one: the same middleware is passed twice, or two limits count the ` +
        'same key under one name. Mount it once, or give one of them a name of its own, like concurrencyLimit({ name: "uploads" })',
    )
    return true
  }
}

/** The count of a key. */
export interface Hits {
  /** Requests counted in the current window, refused ones included. */
  totalHits: number
  /** When counting starts anew; undefined if the store does not know. */
  resetTime: Date | undefined
}

/**
 * A store in the format of express-rate-limit (for Mongo, Memcached, Postgres, DynamoDB …): it counts hits, each in the one window
 * that `init` gave it, and knows no limit.
 */
export interface HitStore {
  /** Called once, before anything else, with `windowMs` and the limiter's other options. */
  init?(options: never): void | Promise<void>
  increment(key: string): Promise<Hits> | Hits
  decrement(key: string): Promise<void> | void
  resetKey(key: string): Promise<void> | void
  resetAll?(): Promise<void> | void
  get?(key: string): Promise<Hits | undefined> | Hits | undefined
}

/** The store format of express-rate-limit before version 6, with callbacks. */
export interface CallbackHitStore {
  incr(key: string, callback: (error: Error | undefined, totalHits: number, resetTime: Date | undefined) => void): void
  decrement(key: string): void
  resetKey(key: string): void
  resetAll?(): void
}

/** True for a store of express-rate-limit, old or new, by its shape. */
export function countsHits(store: unknown): store is HitStore | CallbackHitStore {
  const { increment, incr, decrement, resetKey, consume } = (store ?? {}) as Record<string, unknown>
  return consume === undefined && isFunction(increment ?? incr) && isFunction(decrement) && isFunction(resetKey)
}

export function callsBack(store: HitStore | CallbackHitStore): store is CallbackHitStore {
  return isFunction((store as Partial<CallbackHitStore>).incr) && !isFunction((store as Partial<HitStore>).increment)
}

/** Adapts a callback store to the format with promises. Callback stores have no `get`. */
export class PromisedHitStore implements HitStore {
  constructor(readonly store: CallbackHitStore) {}

  increment(key: string): Promise<Hits> {
    return new Promise((resolve, reject) => {
      this.store.incr(key, (error, totalHits, resetTime) => {
        if (error) reject(error)
        else resolve({ totalHits, resetTime })
      })
    })
  }

  async decrement(key: string): Promise<void> {
    return this.store.decrement(key)
  }

  async resetKey(key: string): Promise<void> {
    return this.store.resetKey(key)
  }

  async resetAll(): Promise<void> {
    return this.store.resetAll?.()
  }
}

function isFunction(value: unknown): boolean {
  return typeof value === 'function'
}

import { after, type SyncOrAsync } from '../http/call-option.js'
import type { Configuration } from './configuration.js'
import type { Count, Counting } from './count.js'
import { MemoryStore } from './memory-store.js'
import type { IncrementResponse, Store } from './options.js'

/** Counts as express-rate-limit does: every request, refused or not, in the fixed window of a store of its kind. */
export class HitCounting implements Counting {
  readonly #store: Store
  readonly #windowMs: number
  readonly getKey: Counting['getKey']

  constructor({ store, windowMs }: Configuration) {
    this.#store = store as Store
    this.#windowMs = windowMs
    this.getKey = this.#store.get?.bind(this.#store)
  }

  count(key: string): SyncOrAsync<Count> {
    return after<IncrementResponse, Count>(
      MemoryStore.countNow(this.#store, key) ?? this.#store.increment(key),
      hits => new HitCount(hits.totalHits, hits.resetTime, this.#windowMs, this.#store, key),
    )
  }

  resetKey(key: string): Promise<void> | void {
    return this.#store.resetKey(key)
  }
}

class HitCount implements Count {
  constructor(
    readonly totalHits: number,
    readonly resetTime: Date | undefined,
    readonly windowMs: number,
    readonly store: Store,
    readonly key: string,
  ) {}

  giveBack(): Promise<void> | void {
    return this.store.decrement(this.key)
  }
}

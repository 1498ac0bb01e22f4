import { MemoryStore as CoreMemoryStore } from '../../limiter/memory/memory-store.js'
import { HitsStore } from './hits.js'

/** Options of the drop-in's `MemoryStore`. */
export interface MemoryStoreOptions {
  /**
   * Most stored keys; integer ≥ 1. Default: no limit, as in express-rate-limit. When full, it compares a few keys and
   * removes the one whose window ends first.
   */
  maxKeys?: number
}

/** Counts hits in this process. Also a store for express-rate-limit itself. */
export class MemoryStore extends HitsStore {
  readonly localKeys = true
  readonly #counts: CoreMemoryStore

  constructor(options?: MemoryStoreOptions) {
    const counts = new CoreMemoryStore({ maxKeys: options?.maxKeys ?? Number.MAX_SAFE_INTEGER })
    super(counts, 1000)
    this.#counts = counts
  }

  /** Deletes the counts of all keys. */
  async resetAll(): Promise<void> {
    this.#counts.close()
  }

  /** Deletes all counts and stops its timer. */
  shutdown(): void {
    this.#counts.close()
  }
}

import type { MemoryCounts } from '../../limiter/memory/memory-counts.js'
import { MemoryStore as CoreMemoryStore } from '../../limiter/memory/memory-store.js'
import { knownCounts } from '../../limiter/port.js'
import type { Charge } from '../../limiter/store.js'
import { DEFAULT_WINDOW_MS, hitsCharge, hitsOf, hitsWindow, windowLength } from './hits.js'
import type { Client, ClientRateLimitInfo, Options, Store } from './options.js'

/** Options of the drop-in's `MemoryStore`. */
export interface MemoryStoreOptions {
  /**
   * Most stored keys; integer ≥ 1. Default: no limit, as in express-rate-limit. When full, it compares a few keys and
   * removes the one whose window ends first.
   */
  maxKeys?: number
}

/** Counts hits in this process. Also a store for express-rate-limit itself. */
export class MemoryStore implements Store {
  /** Other instances never count the same keys. */
  readonly localKeys = true
  /** The window of the limiter that uses it; 60 000 ms before `init`. */
  windowMs = DEFAULT_WINDOW_MS
  readonly #core: CoreMemoryStore
  readonly #counts: MemoryCounts
  #limit = hitsWindow(this.windowMs)

  constructor(options?: MemoryStoreOptions) {
    this.#core = new CoreMemoryStore({ maxKeys: options?.maxKeys ?? Number.MAX_SAFE_INTEGER })
    this.#counts = knownCounts(this.#core) as MemoryCounts
  }

  /** Takes the length of the window from the limiter's options. */
  init(options: Pick<Options, 'windowMs'>): void {
    this.windowMs = options.windowMs
    this.#limit = hitsWindow(windowLength(options.windowMs))
  }

  /** Counts a request of a key. */
  async increment(key: string): Promise<ClientRateLimitInfo> {
    return this.#increment(key)
  }

  /** Gives one hit back: never below 0; an uncounted key stays uncounted. */
  async decrement(key: string): Promise<void> {
    this.#core.refund([this.#charge(key)], 1)
  }

  /** The count of a key; undefined if nothing is counted. */
  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const [verdict] = this.#core.peek([this.#charge(key)], 0)
    return verdict.resetAfterMs > 0 ? hitsOf(verdict, this.#counts.decidedAt) : undefined
  }

  /** Deletes the count of a key. */
  async resetKey(key: string): Promise<void> {
    this.#core.reset([this.#charge(key)])
  }

  /** Deletes the counts of all keys. */
  async resetAll(): Promise<void> {
    this.#core.close()
  }

  /** Deletes all counts and stops its timer. */
  shutdown(): void {
    this.#core.close()
  }

  #increment(key: string): Client {
    const [verdict] = this.#core.consume([this.#charge(key)], 1)
    return hitsOf(verdict, this.#counts.decidedAt)
  }

  #charge(key: string): Charge {
    return hitsCharge(key, this.#limit)
  }

  /**
   * The result of `increment`, synchronously; undefined for a store that overrides `increment`.
   *
   * @internal
   */
  static countNow(store: Store, key: string): Client | undefined {
    return store.increment === OWN_INCREMENT ? (store as MemoryStore).#increment(key) : undefined
  }

  /**
   * The underlying store, on which other algorithms count.
   *
   * @internal
   */
  static coreOf(store: object): CoreMemoryStore | undefined {
    return #core in store ? (store as MemoryStore).#core : undefined
  }
}

const OWN_INCREMENT = MemoryStore.prototype.increment

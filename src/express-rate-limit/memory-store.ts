import { MemoryStore as CoreMemoryStore } from '../stores/memory/memory-store.js'
import type { Charge } from '../stores/store.js'
import type { Client, ClientRateLimitInfo } from './client-info.js'
import { hitsCharge, hitsOf, hitsWindow } from './hits.js'
import type { Options, Store } from './options.js'

/** Options of the drop-in's `MemoryStore`. */
export interface MemoryStoreOptions {
  /**
   * Most keys held; integer ≥ 1. Default: as many as come, as with express-rate-limit. When full, the key whose window ends
   * soonest of a few goes first.
   */
  maxKeys?: number
}

/** Counts hits in this process. Also a store for express-rate-limit itself. */
export class MemoryStore implements Store {
  /** No other instance can count the same keys. */
  readonly localKeys = true
  /** Of the limiter that uses it; 60 000 ms until it is told. */
  windowMs = 60_000
  readonly #core: CoreMemoryStore
  #limit = hitsWindow(this.windowMs)

  constructor(options?: MemoryStoreOptions) {
    this.#core = new CoreMemoryStore({ maxKeys: options?.maxKeys ?? Number.MAX_SAFE_INTEGER })
  }

  /** Takes the length of the window from the limiter's options. */
  init(options: Pick<Options, 'windowMs'>): void {
    this.windowMs = options.windowMs
    this.#limit = hitsWindow(options.windowMs)
  }

  /** Counts a request of a key. */
  async increment(key: string): Promise<ClientRateLimitInfo> {
    return this.#increment(key)
  }

  /** Gives one hit back: never below 0, and a key that is not counted stays so. */
  async decrement(key: string): Promise<void> {
    this.#core.refund([this.#charge(key)], 1)
  }

  /** The count of a key; undefined if nothing is counted. */
  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const [verdict] = this.#core.peek([this.#charge(key)], 0)
    return verdict.resetAfterMs > 0 ? hitsOf(verdict, this.#core.decidedAt) : undefined
  }

  /** Forgets what a key has spent. */
  async resetKey(key: string): Promise<void> {
    this.#core.reset([this.#charge(key)])
  }

  /** Forgets all keys. */
  async resetAll(): Promise<void> {
    this.#core.close()
  }

  /** Forgets everything and stops its timer. */
  shutdown(): void {
    this.#core.close()
  }

  #increment(key: string): Client {
    const [verdict] = this.#core.consume([this.#charge(key)], 1)
    return hitsOf(verdict, this.#core.decidedAt)
  }

  #charge(key: string): Charge {
    return hitsCharge(key, this.#limit)
  }

  /**
   * The result of `increment`, at once; undefined for a store whose `increment` is not this class's own.
   *
   * @internal
   */
  static countNow(store: Store, key: string): Client | undefined {
    return store.increment === OWN_INCREMENT ? (store as MemoryStore).#increment(key) : undefined
  }

  /**
   * The store behind it, on which other algorithms count.
   *
   * @internal
   */
  static coreOf(store: object): CoreMemoryStore | undefined {
    return #core in store ? (store as MemoryStore).#core : undefined
  }
}

const OWN_INCREMENT = MemoryStore.prototype.increment

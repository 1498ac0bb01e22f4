import { PolicyError, shown } from '../core/errors.js'
import { BlockedKeys } from './blocked-keys.js'
import type { IRateLimiterStoreOptions } from './options.js'
import { RateLimiterInsuredAbstract } from './rate-limiter-insured-abstract.js'

/** The range of consumed points in which a key is blocked. */
export interface BlockRange {
  /** The least number. */
  readonly low: number
  /** The greatest number. */
  readonly high: number
}

/** A limiter over a store, and the keys that it refuses without asking the store. */
export class RateLimiterStoreAbstract extends RateLimiterInsuredAbstract {
  #blockOnConsumed = 0
  #inMemoryBlockOnConsumed = 0
  #inMemoryBlockDuration = 0
  /** Keys that are refused without asking the store. */
  protected readonly blockedKeys = new BlockedKeys()

  /** Throws `PolicyError` as `RateLimiterInsuredAbstract` does, and for thresholds below `points`. */
  constructor(opts: IRateLimiterStoreOptions) {
    super(opts)
    this.blockOnConsumed = opts.blockOnConsumed ?? 0
    this.inMemoryBlockOnConsumed = opts.inMemoryBlockOnConsumed ?? 0
    this.inMemoryBlockDuration = opts.inMemoryBlockDuration ?? 0
  }

  /** A key is blocked for `blockDuration` when it has consumed so many points; 0: when it has consumed more than `points`. */
  get blockOnConsumed(): number {
    return this.#blockOnConsumed
  }

  /** Consumed points from which on a key is refused in memory. */
  set blockOnConsumed(value: number) {
    this.#blockOnConsumed = this.#threshold('blockOnConsumed', value)
  }

  /** A key that has consumed so many points is refused without asking the store; 0: never. */
  get inMemoryBlockOnConsumed(): number {
    return this.#inMemoryBlockOnConsumed
  }

  /** Consumed points from which on a key is refused in memory; 0: never. */
  set inMemoryBlockOnConsumed(value: number) {
    this.#inMemoryBlockOnConsumed = this.#threshold('inMemoryBlockOnConsumed', value)
  }

  /** In whole seconds: for how long. 0: until its duration ends. */
  get inMemoryBlockDuration(): number {
    return this.#inMemoryBlockDuration
  }

  /** For how many seconds it is refused in memory; 0: until its duration ends. */
  set inMemoryBlockDuration(value: number) {
    const seconds = value ? Math.trunc(value) : 0
    if (seconds > 0 && this.#inMemoryBlockOnConsumed === 0) {
      throw new PolicyError(
        `inMemoryBlockOnConsumed option must be set up: given inMemoryBlockDuration ${shown(value)} alone, expected both`,
      )
    }
    this.#inMemoryBlockDuration = seconds
  }

  /** `inMemoryBlockDuration` in ms. */
  get msInMemoryBlockDuration(): number {
    return this.#inMemoryBlockDuration * 1000
  }

  /** How many ms a key is still refused without asking the store; 0: it is not. Takes the key as `getKey` returns it. */
  getInMemoryBlockMsBeforeExpire(rlKey: string): number {
    return this.#inMemoryBlockOnConsumed > 0 ? this.blockedKeys.msLeft(rlKey) : 0
  }

  /** Deletes all keys that are refused without asking the store. */
  deleteInMemoryBlockedAll(): void {
    this.blockedKeys.clear()
  }

  /** The points that a blocked key gets. */
  protected get blockedPoints(): number {
    return this.#blocksLater ? this.#blockOnConsumed : this.points + 1
  }

  /** A call blocks its key if it brings the count into this range. */
  protected blockRange(pointsToConsume: number): BlockRange {
    const exceeded = Math.floor(this.points) + 1
    const low = this.#blocksLater ? this.#blockOnConsumed : exceeded
    const high = this.#blocksLater ? low + pointsToConsume - 1 : Math.floor(this.points + pointsToConsume)
    // Without `blockDuration`, the block in memory replaces that in the store.
    const inMemory = this.#inMemoryBlockOnConsumed > 0 && this.#inMemoryBlockDuration <= 0
    return { low, high: inMemory ? Math.min(high, this.#inMemoryBlockOnConsumed - 1) : high }
  }

  get #blocksLater(): boolean {
    return this.#blockOnConsumed > 0 && this.#blockOnConsumed > this.points
  }

  #threshold(name: string, value: number): number {
    const threshold = value ? Math.trunc(value) : 0
    if (threshold > 0 && this.points > threshold) {
      throw new PolicyError(
        `${name} option must be greater or equal "points" option: given ${shown(value)}, expected at least ${this.points}`,
      )
    }
    return threshold
  }
}

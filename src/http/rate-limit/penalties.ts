import { RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'

/** How blocks of one key grow; all durations in ms. */
export interface Growth {
  /** The first block. */
  readonly forMs: number
  /** The ratio of each block to the one before it; 1: all blocks are equal. */
  readonly factor: number
  readonly maxMs: number
  /** How long after the end of its last block a key starts again with the first. */
  readonly forgetMs: number
}

/** A quota that no key's number of blocks reaches. */
const MANY = 1_000_000_000

/**
 * Counts the blocks of each key in the limiter's store, so that all processes see the same count: a fixed window that begins anew with each block, so
 * that the age of the window is the age of the last block.
 */
export class Penalties {
  readonly #growth: Growth
  readonly #windowMs: number
  readonly #blocks: RateLimiter | undefined

  constructor(growth: Growth, options: Omit<RateLimiterOptions, 'policy'>) {
    this.#growth = growth
    this.#windowMs = growth.maxMs + growth.forgetMs
    if (growth.factor === 1) return
    const policy = { quota: MANY, window: this.#windowMs, algorithm: 'fixed-window', name: 'blocks' } as const
    this.#blocks = new RateLimiter({ ...options, policy, denyCache: false })
  }

  /** Counts one more block, and returns its duration. Rejects with `StoreError`. */
  async next(key: string): Promise<number> {
    if (this.#blocks === undefined) return this.#lengthOf(1)
    const last = await this.#blocks.peek(key, 0)
    const count = MANY - last.remaining
    const ageMs = this.#windowMs - last.resetAfterMs
    const lastMs = this.#lengthOf(count)
    // Another process has just blocked it.
    if (count > 0 && ageMs < lastMs) return lastMs - ageMs
    const next = count > 0 && ageMs <= lastMs + this.#growth.forgetMs ? count + 1 : 1
    await this.#blocks.reset(key)
    await this.#blocks.charge(key, next)
    return this.#lengthOf(next)
  }

  #lengthOf(count: number): number {
    const { forMs, factor, maxMs } = this.#growth
    return Math.min(maxMs, Math.round(forMs * factor ** Math.max(0, count - 1)))
  }
}

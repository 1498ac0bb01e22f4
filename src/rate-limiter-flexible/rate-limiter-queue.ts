import { getOrMake } from '../core/get-or-make.js'
import type { BurstyRateLimiter } from './bursty-rate-limiter.js'
import { KeyQueue } from './key-queue.js'
import type { RateLimiterAbstract } from './rate-limiter-abstract.js'
import type { RateLimiterLike } from './rate-limiter-compatible-abstract.js'

/** Options of `RateLimiterQueue`. */
export interface IRateLimiterQueueOpts {
  /** How many requests of a key wait at most. Default 4294967295. */
  maxQueueSize?: number
}

const DEFAULT_KEY = 'limiter'
const DEFAULT_MAX_SIZE = 4_294_967_295

/** Requests that wait their turn instead of being refused, first come, first served, in this process. */
export class RateLimiterQueue {
  readonly #limiter: RateLimiterAbstract | BurstyRateLimiter
  readonly #maxSize: number
  /** The queues with waiting requests. */
  readonly #queues = new Map<string, KeyQueue>()

  constructor(limiterFlexible: RateLimiterLike | BurstyRateLimiter, opts: IRateLimiterQueueOpts = {}) {
    // A wrapper does not expose its points; then no request is too large.
    this.#limiter = limiterFlexible as RateLimiterAbstract
    this.#maxSize = opts.maxQueueSize ?? DEFAULT_MAX_SIZE
  }

  /** Points left to a key; all of them if the store cannot be read. */
  async getTokensRemaining(key: string | number = DEFAULT_KEY): Promise<number> {
    try {
      const res = await this.#limiter.get(key)
      return res === null ? this.#limiter.points : res.remainingPoints
    } catch {
      return this.#limiter.points
    }
  }

  /**
   * Consumes tokens, waiting for them if need be, and gives what remains. `expiresUnixAt`, in seconds since 1970: a request that still waits at its
   * next turn after that is refused; 0: never. Rejects with `RateLimiterQueueError` for that, for more tokens than the limiter has points, and when too many wait.
   */
  removeTokens(tokens: number, key: string | number = DEFAULT_KEY, expiresUnixAt = 0): Promise<number> {
    const name = String(key)
    const queue = getOrMake(
      this.#queues,
      name,
      () => new KeyQueue(this.#limiter, key, this.#maxSize, () => this.#queues.delete(name)),
    )
    return queue.removeTokens(tokens, expiresUnixAt)
  }
}

import { PolicyError } from '../../limiter/core/errors.js'
import { checkOptions } from '../../limiter/core/options.js'
import { PolicyMemo } from '../../limiter/core/policy-memo.js'
import { MemoryStore } from '../../limiter/memory/memory-store.js'
import { RateLimiter } from '../../limiter/rate-limiter.js'
import type { Store } from '../../limiter/store.js'
import { NEWCOMERS } from '../newcomers.js'

/** The options of `ThrottlerStorage`. */
export interface ThrottlerStorageOptions {
  /** The store of the counts: a `RedisStore` for all processes together. Default: a `MemoryStore` of its own. */
  store?: Store
}

/** The answer to the guard of `@nestjs/throttler`. Times in whole seconds, rounded up. */
export interface ThrottlerStorageRecord {
  /** The counted requests. */
  totalHits: number
  /**
   * Seconds until the counted hits have expired. While a block lasts: those that led to it, as in `@nestjs/throttler`,
   * although the count is new when the block ends.
   */
  timeToExpire: number
  /** Whether the key is blocked. */
  isBlocked: boolean
  /** Seconds until the block ends. */
  timeToBlockExpire: number
}

/**
 * A storage for `@nestjs/throttler` 6: `ThrottlerModule.forRoot({ throttlers, storage: new ThrottlerStorage({ store })
 * })`. Each hit counts for exactly `ttl` from its own time; refused hits do not count.
 */
export class ThrottlerStorage {
  readonly #store: Store
  readonly #limiters = new PolicyMemo<RateLimiter>(
    policy => new RateLimiter({ policy, store: this.#store, name: 'throttler' }),
  )

  /** Checks the options: `PolicyError`. */
  constructor(options: ThrottlerStorageOptions = {}) {
    checkOptions('ThrottlerStorage', options, { store: true }, '{ store: new RedisStore(client) }', NEWCOMERS)
    this.#store = options.store ?? new MemoryStore()
    // Rejects an invalid store now.
    this.#limiterOf(60_000, 1, 'default')
  }

  /**
   * Counts a hit of `key`; `limit` hits are allowed in any `ttl` ms. A key with more is blocked for `blockDuration` ms
   * and then starts anew; 0: it is refused until a hit expires.
   */
  async increment(
    key: string,
    ttl: number,
    limit: number,
    blockDuration: number,
    throttlerName: string,
  ): Promise<ThrottlerStorageRecord> {
    if (limit === undefined) {
      throw new PolicyError(
        'ThrottlerStorage: called without a limit, as by @nestjs/throttler 5 or earlier: expected version 6 ' +
          '(npm install @nestjs/throttler@6)',
      )
    }
    const limiter = this.#limiterOf(ttl, limit, throttlerName)
    const decision = await limiter.consume(key)
    if (decision.allowed) {
      const { remaining, resetAfterMs } = decision
      return {
        totalHits: limit - remaining,
        timeToExpire: seconds(resetAfterMs),
        isBlocked: false,
        timeToBlockExpire: 0,
      }
    }
    const { blocked, degraded } = decision
    let { retryAfterMs, resetAfterMs } = decision
    if (blockDuration > 0 && !blocked && !degraded) {
      await limiter.block(key, blockDuration)
      // The counted hits would outlast the block.
      if (blockDuration < ttl) await limiter.reset(key)
      retryAfterMs = blockDuration
    }
    // What the reset above forgot: the hits that led to the block would have expired `ttl` after they were made.
    if (blockDuration > 0 && blockDuration < ttl && !degraded) {
      resetAfterMs = Math.max(resetAfterMs, ttl - Math.max(0, blockDuration - retryAfterMs))
    }
    const wait = seconds(Math.min(retryAfterMs, Math.max(ttl, blockDuration)))
    return { totalHits: limit + 1, timeToExpire: seconds(resetAfterMs), isBlocked: true, timeToBlockExpire: wait }
  }

  #limiterOf(ttl: number, limit: number, name: string): RateLimiter {
    return this.#limiters.of({ quota: limit, window: `${ttl}ms`, name })
  }
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000)
}

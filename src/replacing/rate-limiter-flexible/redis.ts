import { PolicyError } from '../../limiter/core/errors.js'
import { portOf } from '../../redis/clients.js'
import { storeOver } from '../client-store.js'
import type { IRateLimiterRedisOptions } from './rate-limiter-abstract.js'
import { RateLimiterStoreAbstract } from './store-limiter.js'

/**
 * Counts in Redis, for all processes together, by spillway's own limiter. Refused calls count. While Redis fails, the
 * `insuranceLimiter` answers within 50 ms; without one, calls reject with `StoreError` within 5 s.
 */
export class RateLimiterRedis extends RateLimiterStoreAbstract {
  readonly #isReady: () => boolean

  /** Throws `PolicyError` as `RateLimiterStoreAbstract` does, and for a `storeClient` that is no client. */
  constructor(opts: IRateLimiterRedisOptions) {
    const { storeClient, customIncrTtlLuaScript, rejectIfRedisNotReady } = opts ?? {}
    if (storeClient === undefined) {
      throw new PolicyError('storeClient is not set: expected a client, like new Redis()')
    }
    if (customIncrTtlLuaScript !== undefined) {
      throw new PolicyError(
        'customIncrTtlLuaScript: counts are those of a RateLimiter here: keep this limiter in rate-limiter-flexible, ' +
          "like import { RateLimiterRedis } from 'rate-limiter-flexible'",
      )
    }
    const port = portOf(storeClient, 'RateLimiterRedis: storeClient')
    super(opts, storeOver(storeClient))
    this.#isReady = rejectIfRedisNotReady ? () => port.state() === 'ready' : () => true
  }

  protected override insistOnStore(): void {
    if (!this.#isReady()) throw new Error('Redis connection is not ready')
  }

  /** Forms submit digits as text. */
  protected override wholePoints(points: number | string): number {
    if (typeof points === 'string' ? /^-?[1-9]\d*$/.test(points) : Number.isInteger(points)) return Number(points)
    throw new Error(
      typeof points === 'string'
        ? 'Consuming string different than integer values is not supported by this package'
        : 'Consuming decimal number of points is not supported by this package',
    )
  }
}

import type { CallOptions } from './call-options.js'
import type { RateLimiterAbstract } from './rate-limiter-abstract.js'
import type { RateLimiterLike } from './rate-limiter-compatible-abstract.js'
import { isRes, RateLimiterRes } from './rate-limiter-res.js'

/** A limiter, and a second one that is tried when the first one refuses. */
export class BurstyRateLimiter {
  readonly #limiter: RateLimiterLike
  readonly #burst: RateLimiterLike

  constructor(rateLimiter: RateLimiterLike, burstLimiter: RateLimiterLike) {
    this.#limiter = rateLimiter
    this.#burst = burstLimiter
  }

  /** The points of the first limiter. */
  get points(): number {
    return (this.#limiter as RateLimiterAbstract).points
  }

  /** Rejects with `RateLimiterRes` if both refuse. The result is the first limiter's, with the smaller `msBeforeNext` of the two. */
  async consume(key: string | number, pointsToConsume = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    try {
      return await this.#limiter.consume(key, pointsToConsume, options)
    } catch (refusal) {
      if (!isRes(refusal)) throw refusal
      return this.#burst.consume(key, pointsToConsume, options).then(
        res => combined(refusal, res),
        error => {
          throw isRes(error) ? combined(refusal, error) : error
        },
      )
    }
  }

  /** The first limiter's result for a key, with the smaller `msBeforeNext`; null if it has none. */
  async get(key: string | number): Promise<RateLimiterRes | null> {
    const [res, burst] = await Promise.all([this.#limiter.get(key), this.#burst.get(key)])
    return res === null ? null : combined(res, burst)
  }
}

function combined(res: RateLimiterRes, burst: RateLimiterRes | null): RateLimiterRes {
  const { remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration } = res
  const msLeft = Math.min(msBeforeNext, burst?.msBeforeNext ?? 0)
  return new RateLimiterRes(remainingPoints, msLeft, consumedPoints, isFirstInDuration)
}

import { PolicyError, shown } from '../core/errors.js'
import { isLimiter } from './limiter-like.js'
import type { RateLimiterLike } from './rate-limiter-compatible-abstract.js'
import type { RateLimiterRes } from './rate-limiter-res.js'

/** Several limiters that must all allow a call; each counts it in any case. */
export class RateLimiterUnion {
  readonly #limiters: readonly RateLimiterLike[]

  /** Throws `PolicyError` without limiters, or for an invalid one. */
  constructor(...limiters: RateLimiterLike[]) {
    if (limiters.length < 1)
      throw new PolicyError('RateLimiterUnion: at least one limiter have to be passed: given none')
    const wrong = limiters.find(limiter => !isLimiter(limiter))
    if (wrong !== undefined || limiters.includes(undefined as never)) {
      throw new PolicyError(
        `RateLimiterUnion: all limiters have to be instance of RateLimiterAbstract or RateLimiterCompatibleAbstract: given ${shown(wrong)}`,
      )
    }
    this.#limiters = limiters
  }

  /** The result of each limiter, by its `keyPrefix`. Rejects with the results or errors of the limiters that refuse or fail, by their `keyPrefix`. */
  async consume(key: string | number, points = 1): Promise<Record<string, RateLimiterRes>> {
    const outcomes = await Promise.allSettled(this.#limiters.map(limiter => limiter.consume(key, points)))
    const allowed: Record<string, RateLimiterRes> = {}
    const refused: Record<string, unknown> = {}
    outcomes.forEach((outcome, i) => {
      const { keyPrefix } = this.#limiters[i]
      if (outcome.status === 'fulfilled') allowed[keyPrefix] = outcome.value
      else refused[keyPrefix] = outcome.reason
    })
    if (outcomes.some(({ status }) => status === 'rejected')) throw refused
    return allowed
  }
}

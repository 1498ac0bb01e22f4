import { PolicyError, shown } from '../core/errors.js'
import { isLimiter, type LimiterLike } from './limiter-like.js'
import type { IRateLimiterOptions } from './options.js'
import { RateLimiterAbstract } from './rate-limiter-abstract.js'
import { isRes } from './rate-limiter-res.js'

/** A limiter that may fail, with a replacement for that case. */
export class RateLimiterInsuredAbstract extends RateLimiterAbstract {
  #insurance: LimiterLike | undefined

  /** Throws `PolicyError` as `RateLimiterAbstract` does, and for an `insuranceLimiter` that is no limiter. */
  constructor(opts: IRateLimiterOptions) {
    super(opts)
    this.insuranceLimiter = opts.insuranceLimiter
  }

  /** Decides when the store fails. It takes over this limiter's `blockDuration` and `execEvenly`. */
  get insuranceLimiter(): LimiterLike | undefined {
    return this.#insurance
  }

  /** Decides while the store fails. */
  set insuranceLimiter(value: LimiterLike | undefined) {
    if (value !== undefined && !isLimiter(value)) {
      throw new PolicyError(
        `insuranceLimiter must be instance of RateLimiterAbstract or RateLimiterCompatibleAbstract: given ${shown(value)}, ` +
          'expected one like new RateLimiterMemory({ points: 5, duration: 1 })',
      )
    }
    this.#insurance = value
    if (value === undefined) return
    value.blockDuration = this.blockDuration
    value.execEvenly = this.execEvenly
  }

  /** Asks the insurance limiter after a failure of the store. A refusal is not a failure. */
  protected insured<T>(error: unknown, ask: (limiter: LimiterLike) => Promise<T>): Promise<T> {
    if (this.#insurance === undefined || isRes(error)) return Promise.reject(error)
    return ask(this.#insurance)
  }
}

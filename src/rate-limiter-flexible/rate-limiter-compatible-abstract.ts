import type { LimiterLike } from './limiter-like.js'
import { LimiterMethods, missing } from './limiter-methods.js'
import type { RateLimiterAbstract } from './rate-limiter-abstract.js'

/** The base of wrappers that can replace a limiter. Each member throws until a class implements it. */
export class RateLimiterCompatibleAbstract extends LimiterMethods implements LimiterLike {
  /** The beginning of all keys. */
  get keyPrefix(): string {
    throw missing(this, 'keyPrefix')
  }

  /** How many seconds a key is blocked that consumes too much; 0: it is not. */
  get blockDuration(): number {
    throw missing(this, 'blockDuration')
  }

  /** How many seconds a key is blocked that consumes too much; 0: it is not. */
  set blockDuration(_seconds: number) {
    throw missing(this, 'blockDuration')
  }

  /** Whether actions are delayed so that they are spread over the duration. */
  get execEvenly(): boolean {
    throw missing(this, 'execEvenly')
  }

  /** Whether actions are delayed so that they are spread over the duration. */
  set execEvenly(_evenly: boolean) {
    throw missing(this, 'execEvenly')
  }
}

/** A limiter, or a wrapper in its place. */
export type RateLimiterLike = RateLimiterAbstract | RateLimiterCompatibleAbstract

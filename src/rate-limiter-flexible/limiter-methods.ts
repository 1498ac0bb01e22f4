import type { CallOptions } from './call-options.js'
import type { RateLimiterRes } from './rate-limiter-res.js'

/** What a limiter does. Each method throws until a class implements it. */
export class LimiterMethods {
  /** Consumes points. Rejects with `RateLimiterRes` where they exceed the limit; they count all the same. */
  consume(_key: string | number, _pointsToConsume?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'consume')
  }

  /** Consumes points without refusing. */
  penalty(_key: string | number, _points?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'penalty')
  }

  /** Gives points back; the count may fall below 0. */
  reward(_key: string | number, _points?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'reward')
  }

  /** What a key has consumed; null if nothing is known of it. */
  get(_key: string | number, _options?: CallOptions): Promise<RateLimiterRes | null> {
    throw missing(this, 'get')
  }

  /** Sets the points of a key for so many seconds; 0: without end. */
  set(_key: string | number, _points: number, _secDuration: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'set')
  }

  /** Refuses a key for so many seconds; 0: without end. */
  block(_key: string | number, _secDuration: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'block')
  }

  /** Forgets a key; false if nothing was known of it. */
  delete(_key: string | number, _options?: CallOptions): Promise<boolean> {
    throw missing(this, 'delete')
  }
}

/** The error of a member that a class of limiters has left out. */
export function missing(limiter: object, member: string): Error {
  return new Error(`${limiter.constructor.name}: You have to implement the method '${member}'!`)
}

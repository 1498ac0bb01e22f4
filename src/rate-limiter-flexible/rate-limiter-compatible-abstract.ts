import type { CallOptions } from './call-options.js'
import { type LimiterLike, missing } from './limiter-like.js'
import type { RateLimiterAbstract } from './rate-limiter-abstract.js'
import type { RateLimiterRes } from './res.js'

/** For wrappers that can stand in a limiter's place. Each member throws until a class implements it. */
export class RateLimiterCompatibleAbstract implements LimiterLike {
  /** What keys begin with. */
  get keyPrefix(): string {
    throw missing(this, 'keyPrefix')
  }

  /** For how many seconds a key is blocked that consumes too much; 0: it is not. */
  get blockDuration(): number {
    throw missing(this, 'blockDuration')
  }

  /** For how many seconds a key is blocked that consumes too much; 0: it is not. */
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

  /** Consumes points of a key. Rejects with a result where there are too few. */
  consume(_key: string | number, _pointsToConsume?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'consume')
  }

  /** Takes points of a key away, also below 0. */
  penalty(_key: string | number, _points?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'penalty')
  }

  /** Gives points of a key back. */
  reward(_key: string | number, _points?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'reward')
  }

  /** How a key stands; null if it is not known. */
  get(_key: string | number, _options?: CallOptions): Promise<RateLimiterRes | null> {
    throw missing(this, 'get')
  }

  /** Sets how many points of a key are consumed. */
  set(_key: string | number, _points: number, _secDuration: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'set')
  }

  /** Blocks a key for so many seconds. */
  block(_key: string | number, _secDuration: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'block')
  }

  /** Forgets a key. False if it was not known. */
  delete(_key: string | number, _options?: CallOptions): Promise<boolean> {
    throw missing(this, 'delete')
  }
}

/** A limiter, or a wrapper in its place. */
export type RateLimiterLike = RateLimiterAbstract | RateLimiterCompatibleAbstract

import type { CallOptions } from './call-options.js'
import { type LimiterLike, missing } from './limiter-like.js'
import type { RateLimiterAbstract } from './rate-limiter-abstract.js'
import type { RateLimiterRes } from './res.js'

/** For wrappers that can stand in a limiter's place. Each member throws until a class implements it. */
export class RateLimiterCompatibleAbstract implements LimiterLike {
  get keyPrefix(): string {
    throw missing(this, 'keyPrefix')
  }

  get blockDuration(): number {
    throw missing(this, 'blockDuration')
  }

  set blockDuration(_seconds: number) {
    throw missing(this, 'blockDuration')
  }

  get execEvenly(): boolean {
    throw missing(this, 'execEvenly')
  }

  set execEvenly(_evenly: boolean) {
    throw missing(this, 'execEvenly')
  }

  consume(_key: string | number, _pointsToConsume?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'consume')
  }

  penalty(_key: string | number, _points?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'penalty')
  }

  reward(_key: string | number, _points?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'reward')
  }

  get(_key: string | number, _options?: CallOptions): Promise<RateLimiterRes | null> {
    throw missing(this, 'get')
  }

  set(_key: string | number, _points: number, _secDuration: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'set')
  }

  block(_key: string | number, _secDuration: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'block')
  }

  delete(_key: string | number, _options?: CallOptions): Promise<boolean> {
    throw missing(this, 'delete')
  }
}

/** A limiter, or a wrapper in its place. */
export type RateLimiterLike = RateLimiterAbstract | RateLimiterCompatibleAbstract

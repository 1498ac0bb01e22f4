import type { CallOptions } from './call-options.js'
import type { RateLimiterRes } from './res.js'

/** What all limiters do. */
export interface LimiterLike {
  readonly keyPrefix: string
  blockDuration: number
  execEvenly: boolean
  consume(key: string | number, pointsToConsume?: number, options?: CallOptions): Promise<RateLimiterRes>
  penalty(key: string | number, points?: number, options?: CallOptions): Promise<RateLimiterRes>
  reward(key: string | number, points?: number, options?: CallOptions): Promise<RateLimiterRes>
  get(key: string | number, options?: CallOptions): Promise<RateLimiterRes | null>
  set(key: string | number, points: number, secDuration: number, options?: CallOptions): Promise<RateLimiterRes>
  block(key: string | number, secDuration: number, options?: CallOptions): Promise<RateLimiterRes>
  delete(key: string | number, options?: CallOptions): Promise<boolean>
}

const METHODS = ['consume', 'penalty', 'reward', 'get', 'set', 'block', 'delete'] as const

/** True for our limiters, those of rate-limiter-flexible, and any object with all their methods. */
export function isLimiter(value: unknown): value is LimiterLike {
  if (typeof value !== 'object' || value === null) return false
  return METHODS.every(method => typeof (value as Partial<LimiterLike>)[method] === 'function')
}

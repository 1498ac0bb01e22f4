import type { LimiterMethods } from './limiter-methods.js'

/** What all limiters do. */
export interface LimiterLike extends LimiterMethods {
  readonly keyPrefix: string
  blockDuration: number
  execEvenly: boolean
}

const METHODS = ['consume', 'penalty', 'reward', 'get', 'set', 'block', 'delete'] as const

/** True for our limiters, those of rate-limiter-flexible, and any object with all their methods. */
export function isLimiter(value: unknown): value is LimiterLike {
  if (typeof value !== 'object' || value === null) return false
  return METHODS.every(method => typeof (value as Partial<LimiterLike>)[method] === 'function')
}

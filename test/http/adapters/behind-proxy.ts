import type { LimiterAccess } from '../../../src/http/rate-limit/rate-limit.js'
import type { Options } from '../../support/adapter-contract/world.js'

/** A limiter of a framework that has no setting for proxies, and what it was made from. */
const MADE = new WeakMap<LimiterAccess, Options>()

/** Remembers the options of each limiter, for `behindProxy`. */
export function remembering<Limiter extends LimiterAccess>(rateLimit: (options?: Options) => Limiter) {
  return (options: Options = {}): Limiter => {
    const limiter = rateLimit(options)
    MADE.set(limiter, options)
    return limiter
  }
}

/** The same limiter for a service behind one proxy, for frameworks in which the limiter has the setting for proxies. */
export function behindProxy<Limiter extends LimiterAccess>(
  rateLimit: (options?: Options) => Limiter,
  limiter: LimiterAccess,
): Limiter {
  return rateLimit({ ...MADE.get(limiter), proxies: 1 })
}

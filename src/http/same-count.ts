import type { Limit } from '../limiter/core/limit.js'
import { emitWarning } from '../limiter/core/warnings.js'
import { countName } from '../limiter/count-name.js'
import { shareCounts } from '../limiter/port.js'
import { optionsOf, type RateLimiter } from '../limiter/rate-limiter.js'
import { DEFAULT_LIMITER } from '../limiter/store.js'

/** Whether two limits, each of its limiter, use the same count for a key. */
export function sameCount(limiter: RateLimiter, limit: Limit, other: RateLimiter, otherLimit: Limit): boolean {
  const [one, two] = [optionsOf(limiter), optionsOf(other)]
  if (countName({ limit, limiter: one.name }) !== countName({ limit: otherLimit, limiter: two.name })) return false
  if (limiter === other) return true
  if ((one.name ?? DEFAULT_LIMITER) !== (two.name ?? DEFAULT_LIMITER)) return false
  return shareCounts(one.store, two.store)
}

/** The middlewares of this process without a name of their own, each on a store that it was given. */
let unnamed: Array<WeakRef<RateLimiter>> = []
const MOST_UNNAMED = 1000
let warned = false

/**
 * Warns, once per process, of a middleware without a name whose limit would share its count with that of another one:
 * on stores of their own, as in development, they count apart.
 */
export function watchSharing(limiter: RateLimiter): void {
  if (warned) return
  const others = unnamed.flatMap(ref => ref.deref() ?? [])
  const shared = limiter.policy.find(limit =>
    others.some(other => other.policy.some(its => sameCount(limiter, limit, other, its))),
  )
  if (shared === undefined) {
    unnamed = [...others.slice(1 - MOST_UNNAMED), limiter].map(one => new WeakRef(one))
    return
  }
  warned = true
  unnamed = []
  emitWarning(
    'SPILLWAY_SHARED',
    `rateLimit: two limiters have the limit "${shared.name}", one store and no name, so they share one count: what a ` +
      'client spends at one is missing at the other. Give each a name, like rateLimit({ name: "login" }), or all of ' +
      'them { name: "default" } if they share on purpose',
  )
}

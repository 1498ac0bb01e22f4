import type { Limit } from '../limiter/core/limit.js'
import { emitWarning } from '../limiter/core/warnings.js'
import { countName } from '../limiter/count-name.js'
import { shareCounts } from '../limiter/port.js'
import { optionsOf, type RateLimiter } from '../limiter/rate-limiter.js'
import { DEFAULT_LIMITER } from '../limiter/store.js'
import type { Places } from './concurrency/process-places.js'

/** Whether two limits, each of its limiter, use the same count for a key. */
export function sameCount(limiter: RateLimiter, limit: Limit, other: RateLimiter, otherLimit: Limit): boolean {
  const [one, two] = [optionsOf(limiter), optionsOf(other)]
  if (countName({ limit, limiter: one.name }) !== countName({ limit: otherLimit, limiter: two.name })) return false
  if (limiter === other) return true
  if ((one.name ?? DEFAULT_LIMITER) !== (two.name ?? DEFAULT_LIMITER)) return false
  return shareCounts(one.store, two.store)
}

/** Most middlewares without a name that are remembered; beyond, the oldest are forgotten. */
const MOST_UNNAMED = 1000
let warned = false

/** The middlewares of this process without a name of their own: `shares` says what two of them would have in common. */
class Unnamed<One extends object> {
  readonly #shares: (one: One, other: One) => string | undefined
  #all: Array<WeakRef<One>> = []

  constructor(shares: (one: One, other: One) => string | undefined) {
    this.#shares = shares
  }

  /** What one more has in common with one of the others; undefined: nothing. */
  add(one: One): string | undefined {
    const others = this.#all.flatMap(ref => ref.deref() ?? [])
    this.#all = [...others.slice(1 - MOST_UNNAMED), one].map(kept => new WeakRef(kept))
    for (const other of others) {
      const shared = this.#shares(one, other)
      if (shared !== undefined) return shared
    }
    return undefined
  }

  /** Nobody is warned again. */
  forget(): void {
    this.#all = []
  }
}

const LIMITERS = new Unnamed<RateLimiter>(
  (one, other) => one.policy.find(limit => other.policy.some(its => sameCount(one, limit, other, its)))?.name,
)
/** All that two have in common are their places, which have no name. */
const PLACES = new Unnamed<Places>((one, other) => (one.isSame(other) ? '' : undefined))

/**
 * Warns, once per process, of a middleware without a name whose limit would share its count with that of another one:
 * on stores of their own, as in development, they count apart.
 */
export function watchSharing(limiter: RateLimiter): void {
  const limit = warned ? undefined : LIMITERS.add(limiter)
  if (limit === undefined) return
  warnOnce(
    `rateLimit: two limiters have the limit "${limit}", one store and no name, so they share one count: what a ` +
      'client spends at one is missing at the other. Give each a name, like rateLimit({ name: "login" }), or all of ' +
      'them { name: "default" } if they share on purpose',
  )
}

/** As `watchSharing`, for places of `concurrencyLimit` over Redis. */
export function watchSharedPlaces(places: Places): void {
  if (warned || PLACES.add(places) === undefined) return
  warnOnce(
    'concurrencyLimit: two limits have one Redis and no name, so they share their places: a request inside one takes ' +
      'a place of the other. Give each a name, like concurrencyLimit({ name: "uploads" }), or all of them { name: ' +
      '"default" } if they share on purpose',
  )
}

function warnOnce(text: string): void {
  warned = true
  LIMITERS.forget()
  PLACES.forget()
  emitWarning('SPILLWAY_SHARED', text)
}

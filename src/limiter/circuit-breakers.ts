import { getOrMake } from '../core/get-or-make.js'
import type { Charge, Store } from '../stores/store.js'
import { BreakerAudience } from './breaker-audience.js'
import { CircuitBreaker } from './circuit-breaker.js'

/**
 * The circuit breakers of a store under one deadline: one for each server, so that a hanging server affects neither the
 * other servers nor limiters with a longer deadline. Limiters with the same store and deadline share them.
 */
export class CircuitBreakers {
  /** The observers that receive an event when a breaker opens or closes. */
  readonly audience = new BreakerAudience()
  readonly #byServer = new Map<string, CircuitBreaker>()

  private constructor(readonly store: Store) {}

  static of(store: Store, deadlineMs: number): CircuitBreakers {
    const byDeadline = getOrMake(BREAKERS, store, () => new Map())
    return getOrMake(byDeadline, deadlineMs, () => new CircuitBreakers(store))
  }

  of(server: string): CircuitBreaker {
    let breaker = this.#byServer.get(server)
    if (breaker === undefined) {
      breaker = new CircuitBreaker()
      this.#byServer.set(server, breaker)
    }
    return breaker
  }

  ofCharge(charge: Charge): CircuitBreaker {
    return this.of(this.store.serverOf?.(charge) ?? '')
  }

  /** Groups charges by the breaker of their server. */
  parts<C extends Charge>(charges: readonly C[]): ReadonlyMap<CircuitBreaker, readonly C[]> {
    const [first] = charges
    if (charges.length === 1 || this.store.serverOf === undefined) return new Map([[this.ofCharge(first), charges]])
    const parts = new Map<CircuitBreaker, C[]>()
    for (const charge of charges) {
      const breaker = this.ofCharge(charge)
      const part = parts.get(breaker)
      if (part === undefined) parts.set(breaker, [charge])
      else part.push(charge)
    }
    return parts
  }
}

const BREAKERS = new WeakMap<Store, Map<number, CircuitBreakers>>()

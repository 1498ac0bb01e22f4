import type { LeaseBook } from '../leases/leases.js'
import type { RedisClient } from '../redis/client.js'
import type { StoreSource } from './core/decision.js'
import type { Limit } from './core/limit.js'
import type { OutageWarnings } from './core/warnings.js'
import type { Asker, Charge, Store } from './store.js'
import type { LineGuard, StoreLines } from './store-lines.js'

/**
 * What a store that processes share offers beside the methods of `Store`. The limiter asks for these offers, never for
 * the class of a store. They stand under a symbol, so that no method of a user's own store is taken for one.
 */
export interface StoreOffers {
  /** `Decision.source` of what it decides. */
  readonly source: StoreSource
  /**
   * Until the server has answered this process for the first time, no decision ends before this moment, by
   * `performance.now()`: one for all, counted from the first question. 0: it has answered, or refused a connection.
   */
  connectsUntil(): number
  /** The Redis that keeps the state, for what else is to be kept there. */
  readonly redis?: { readonly client: RedisClient; readonly prefix: string }
  /** Whether `ask` gives what this method would: users replace methods, to spy on them or to make them fail. */
  isAskable(verb: 'consume' | 'peek'): boolean
  /** `consume` or `peek` without a promise, which under load would cost more than all other work of the client. */
  ask(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, asker: Asker): void
  /**
   * The leases of this process under a policy; absent or undefined: each decision asks the store. Throws `PolicyError`: see the
   * option `leases`.
   */
  leasesOf?(limits: readonly Limit[], limiter: string | undefined): LeaseBook | undefined
  /** The waiting lines of one limiter. Absent: the store keeps none. */
  lines?(guard: LineGuard): StoreLines
  /** The warnings of an outage; `meanwhile` says what happens until it ends. */
  outageWarnings(meanwhile: string): OutageWarnings
  /** Whether another store keeps the same counts. */
  sharesCountsWith(other: Store): boolean
}

export const OFFERS = Symbol('spillway.offers')

/** Undefined: the store is a user's own, or keeps the state of this process alone. */
export function offersOf(store: unknown): StoreOffers | undefined {
  return (store as { readonly [OFFERS]?: StoreOffers } | undefined)?.[OFFERS]
}

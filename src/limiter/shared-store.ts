import type { Clock } from './core/clock.js'
import type { Verdict } from './core/decision.js'
import { type Change, type Counts, type Keys, keepCounts, type Verb } from './port.js'
import type { Charge, ChargeReceipt, Store } from './store.js'

/** The methods of `Store`, for who asks a store without a limiter, over the counts that processes share. */
export abstract class SharedStore implements Store {
  readonly clock?: Clock
  readonly countsCalendars = true
  /** Names the server of a cluster that has the charge's slot, as far as the client knows. Absent: there is one. */
  readonly serverOf?: (charge: Charge) => string
  readonly #counts: Counts

  protected constructor(counts: Counts) {
    this.#counts = counts
    if (counts.clock !== undefined) this.clock = counts.clock
    if (counts.serverOf !== undefined) this.serverOf = charge => counts.serverOf?.(charge, charge.key) ?? ''
    keepCounts(this, counts, SharedStore.prototype)
  }

  /** Spends `cost` from all charges or from none. Rejects with `StoreError`. */
  consume(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return this.#decide('consume', charges, cost)
  }

  peek(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return this.#decide('peek', charges, cost)
  }

  async refund(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> {
    await this.#change({ verb: 'refund', units: cost }, charges, endsAt)
  }

  async giveBack(receipts: readonly ChargeReceipt[], units: number, endsAt?: number): Promise<void> {
    await this.#change({ verb: 'giveBack', units, receipts }, receipts, endsAt)
  }

  async charge(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> {
    await this.#change({ verb: 'charge', units: cost }, charges, endsAt)
  }

  /** Makes each key as if it was never used under its limit; blocks stay. Rejects with `StoreError`. */
  async reset(charges: readonly Charge[], endsAt?: number): Promise<void> {
    await this.#change({ verb: 'reset', units: 0 }, charges, endsAt)
  }

  async block(charges: readonly Charge[], forMs: number, endsAt?: number): Promise<void> {
    await this.#change({ verb: 'block', units: forMs }, charges, endsAt)
  }

  async #decide(verb: Verb, charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    if (charges.length === 0) return []
    const policy = this.#counts.bind(charges)
    return new Promise((resolve, reject) => policy.decide(verb, keysOf(charges), cost, { resolve, reject }))
  }

  async #change(change: Change, charges: readonly Charge[], endsAt: number | undefined): Promise<void> {
    if (charges.length > 0) await this.#counts.bind(charges).change(change, keysOf(charges), endsAt)
  }
}

function keysOf(charges: readonly Charge[]): Keys {
  const [{ key }] = charges
  return charges.every(charge => charge.key === key) ? key : charges.map(charge => charge.key)
}

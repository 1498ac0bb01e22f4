import type { Verdict } from '../../../core/decision.js'
import { notify, type Observer } from '../../../core/observer.js'
import { processId } from '../../../redis/process-id.js'
import type { Asker } from '../../store.js'
import { BusyKeys } from './busy-keys.js'
import type { AskMark, Lease } from './lease.js'
import { LeasedKey, type LeaseOffice } from './leased-key.js'
import type { LeaseSeller } from './seller.js'
import { type LeaseTerms, returnable } from './terms.js'
import { besideLeases } from './units-out.js'

/** Above this number of busy keys, Redis decides the others. */
const MOST_KEYS = 10_000
const LEAST_TIDY_MS = 50

/** The parts of the store that a book of leases uses. */
export interface LeaseBookParts extends Pick<LeaseOffice, 'terms' | 'seller' | 'now' | 'defer' | 'decide'> {
  /** The book starts to hold leases, or holds none any more. */
  busy(book: LeaseBook, isBusy: boolean): void
}

let books = 0

/** The keys of one policy that this process leases. */
export class LeaseBook implements LeaseOffice {
  readonly owner = `${processId()}-${++books}`
  readonly terms: LeaseTerms
  readonly seller: LeaseSeller
  readonly now: () => number
  readonly defer: LeaseOffice['defer']
  readonly decide: LeaseOffice['decide']
  readonly #busy: LeaseBookParts['busy']
  readonly #keys = new Map<string, LeasedKey>()
  /** The key of the last spend. */
  #last: LeasedKey | undefined
  readonly #busyKeys: BusyKeys
  readonly #observers = new Set<Observer>()
  #tidying: ReturnType<typeof setTimeout> | undefined
  /** The last key that was counted as a hit without a lease. */
  #missed: string | undefined

  constructor({ terms, seller, now, defer, decide, busy }: LeaseBookParts) {
    this.#busy = busy
    this.terms = terms
    this.seller = seller
    this.now = now
    this.defer = defer
    this.decide = decide
    this.#busyKeys = new BusyKeys(terms.ttlMs)
  }

  /** Reports purchases and expired units to the observer. */
  observe(observer: Observer): void {
    if (observer.leaseBought !== undefined || observer.leaseExpired !== undefined) this.#observers.add(observer)
  }

  /** Spends from the lease of a key; undefined if none has enough units. */
  spend(key: string, cost: number, now: number): Lease | undefined {
    let leased = this.#last
    if (leased === undefined || leased.key !== key) {
      leased = this.#keys.get(key)
      if (leased === undefined) return undefined
      this.#last = leased
    }
    const lease = leased.spend(cost, now)
    if (lease === undefined) this.#missed = key
    return lease
  }

  /** Units of the key that this process can spend now. */
  held(key: string, now: number): number {
    return this.#keys.get(key)?.held(now) ?? 0
  }

  /** The refusal of a request without a lease, while this process must wait before it buys again. */
  refusal(key: string, cost: number): readonly Verdict[] | undefined {
    if (cost > this.terms.largestCost) return undefined
    return this.#keys.get(key)?.refusal(cost, this.now())
  }

  /** Takes over a request without a remembered denial. False if Redis must decide it. */
  ask(key: string, cost: number, asker: Asker): boolean {
    const now = this.now()
    const leased = this.#keys.get(key) ?? this.#warm(key, now)
    if (leased === undefined) return false
    if (this.#missed !== key) {
      const lease = leased.spend(cost, now)
      if (lease !== undefined) {
        const held = leased.held(now)
        const verdicts = this.terms.limits.map((limit, i) => lease.verdict(limit, i, held, now))
        queueMicrotask(() => asker.resolve(verdicts, performance.now(), lease.facts.soldAt, lease))
        return true
      }
    }
    this.#missed = undefined
    return leased.ask(cost, asker, now)
  }

  /** An asker for a request that Redis decides without a lease: it hears what this process holds besides, and of a refusal for how long units may be out at most. */
  beside(verb: 'consume' | 'peek', key: string, asker: Asker): Asker {
    const mark = this.mark(key)
    return besideLeases(asker, {
      ttlMs: this.terms.ttlMs,
      held: () => this.held(key, this.now()),
      told: (verdicts, decidedAt) => (verb === 'consume' ? this.told(key, verdicts, decidedAt, mark) : verdicts),
      unitsOut: () => this.seller.unitsOut(key, this.owner, asker.endsAt),
    })
  }

  /** What must be known of this moment when what is asked now is answered. */
  mark(key: string): AskMark {
    return this.#keys.get(key)?.mark() ?? { askedAt: this.now(), charged: 0 }
  }

  /** Redis has decided a request without a lease: the verdicts with the units that this process holds besides. */
  told(key: string, verdicts: readonly Verdict[], decidedAt: number, mark: AskMark): readonly Verdict[] {
    return this.#keys.get(key)?.beside(verdicts, decidedAt, mark) ?? verdicts
  }

  /** Units of the key were charged by a settlement. */
  charged(key: string, units: number): void {
    this.#keys.get(key)?.charged(units)
  }

  /** Puts units of a settled decision back into their lease; once the lease has ended, gives them back to Redis. */
  async settle(lease: Lease, units: number, endsAt: number | undefined): Promise<void> {
    const { facts, askedAt } = lease
    const leased = this.#keys.get(facts.key)
    if (leased?.putBack(lease, units)) return
    leased?.wake()
    await this.seller.settle(facts, returnable(this.terms, units, this.now() - askedAt), endsAt)
  }

  /** The key was reset or blocked (`endsLeases`), which ends its leases; or units of it were given back. */
  changed(key: string, endsLeases: boolean): void {
    if (endsLeases) this.#keys.get(key)?.drop()
    else this.#keys.get(key)?.wake()
  }

  changedAll(endsLeases: boolean): void {
    for (const key of this.#keys.keys()) this.changed(key, endsLeases)
  }

  /** Gives back all unspent units. */
  async close(): Promise<void> {
    clearTimeout(this.#tidying)
    this.#tidying = undefined
    const keys = [...this.#keys.values()]
    this.#keys.clear()
    this.#last = undefined
    this.#busy(this, false)
    await Promise.all(keys.map(leased => leased.close()))
  }

  bought(units: number, lastsMs: number): void {
    for (const observer of this.#observers) {
      for (const limit of this.terms.limits) notify(observer, 'leaseBought', { limit, units, ttlMs: lastsMs })
    }
  }

  expired(units: number): void {
    for (const observer of this.#observers) {
      for (const limit of this.terms.limits) notify(observer, 'leaseExpired', { limit, units })
    }
  }

  #warm(key: string, now: number): LeasedKey | undefined {
    if (!this.#busyKeys.hit(key, now) || this.#keys.size >= MOST_KEYS) return undefined
    const leased = new LeasedKey(key, this, now)
    if (this.#keys.size === 0) this.#busy(this, true)
    this.#keys.set(key, leased)
    this.#tidyLater()
    return leased
  }

  /** Ended leases go back even if no further request comes. */
  #tidyLater(): void {
    if (this.#tidying !== undefined) return
    const tidy = () => {
      this.#tidying = undefined
      this.tidy()
      if (this.#keys.size > 0) this.#tidyLater()
    }
    this.#tidying = setTimeout(tidy, Math.max(LEAST_TIDY_MS, this.terms.ttlMs))
    this.#tidying.unref()
  }

  /** Gives back ended leases, and drops keys that are no longer busy. */
  tidy(): void {
    const now = this.now()
    this.#last = undefined
    for (const [key, leased] of this.#keys) if (!leased.tidy(now)) this.#keys.delete(key)
    if (this.#keys.size === 0) this.#busy(this, false)
  }
}

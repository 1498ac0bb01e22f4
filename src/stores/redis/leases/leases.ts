import { setImmediate } from 'node:timers'
import type { Verdict } from '../../../core/decision.js'
import type { Limit } from '../../../core/limit.js'
import { notify, type Observer } from '../../../core/observer.js'
import { processId } from '../../../redis/client.js'
import type { Asker, Charge } from '../../store.js'
import { BusyKeys } from './demand.js'
import { besideLeases, type Lease } from './holdings.js'
import { LeasedKey, type LeaseOffice } from './leased-key.js'
import { type LeaseSeller, RedisSeller, type RedisSellerParts } from './seller.js'
import { type LeaseSettings, type LeaseTerms, leaseTerms, returnable } from './terms.js'

/** Above this number of busy keys, Redis decides the others. */
const MOST_KEYS = 10_000
const LEAST_TIDY_MS = 50

/** The parts of the store that a book of leases uses. */
interface LeaseBookParts extends Pick<LeaseOffice, 'terms' | 'seller' | 'now' | 'defer' | 'decide'> {
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
    const askedAt = this.now()
    return besideLeases(asker, {
      ttlMs: this.terms.ttlMs,
      held: () => this.held(key, this.now()),
      told: (verdicts, decidedAt) =>
        (verb === 'consume' && this.#keys.get(key)?.decided(verdicts, decidedAt, askedAt)) || verdicts,
      unitsOut: () => this.seller.unitsOut(key, this.owner, asker.endsAt),
    })
  }

  /** The key, if this process leases it. */
  leasedKey(key: string): LeasedKey | undefined {
    return this.#keys.get(key)
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

/** The parts of the store that leases use. */
interface LeasesParts extends Omit<RedisSellerParts, 'terms' | 'limiter'> {
  readonly settings: LeaseSettings
  /** The process's own clock, ms. */
  readonly now: () => number
  /** Asks Redis, regardless of leases. */
  readonly askRedis: (verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, asker: Asker) => void
  /** Listens for resets and blocks for `ms` more. */
  readonly hear: (ms: number) => void
}

interface KnownBook {
  readonly limits: readonly Limit[]
  readonly limiter: string | undefined
  readonly book: LeaseBook | undefined
}

/** The leases of a store: one book for each policy. */
export class Leases {
  readonly #parts: LeasesParts
  readonly #known = new WeakMap<Limit, KnownBook[]>()
  /** Books that hold leases; the others may be garbage collected with their policy. */
  readonly #busy = new Set<LeaseBook>()

  constructor(parts: LeasesParts) {
    this.#parts = parts
  }

  /** The book of a policy; undefined if Redis decides. Throws `PolicyError` if leases were requested for limits that cannot be leased. */
  bookOf(limits: readonly Limit[], limiter: string | undefined): LeaseBook | undefined {
    const known = this.#known.get(limits[0]) ?? []
    for (const one of known) if (one.limiter === limiter && isSame(one.limits, limits)) return one.book
    const book = this.#newBook(limits, limiter)
    this.#known.set(limits[0], [...known, { limits, limiter, book }])
    return book
  }

  /** Takes over a request. False if Redis must decide it. */
  ask(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, asker: Asker): boolean {
    const book = this.#bookOfCharges(charges)
    const [{ key }] = charges
    if (book === undefined) return false
    if (verb === 'consume') return cost > 0 && book.ask(key, cost, asker)
    const held = book.held(key, this.#parts.now())
    if (held === 0) return false
    this.#parts.askRedis(verb, charges, held >= cost ? 0 : cost, besides(asker, held, cost))
    return true
  }

  /** The asker for a request that Redis decides: see `LeaseBook`. */
  beside(verb: 'consume' | 'peek', charges: readonly Charge[], asker: Asker): Asker {
    return this.#bookOfCharges(charges)?.beside(verb, charges[0].key, asker) ?? asker
  }

  /** Redis has granted a request that waited in line: the verdicts with the units that this process holds besides. */
  granted(charges: readonly Charge[], verdicts: readonly Verdict[], grantedAt: number): readonly Verdict[] {
    return this.#leasedKey(charges)?.granted(verdicts, grantedAt) ?? verdicts
  }

  /** An answer to the line of these limits was read: its grants are told later in this turn. */
  lineAnswered(charges: readonly Charge[]): void {
    this.#leasedKey(charges)?.account.lineAnswered()
  }

  /** A settlement charges more units. Call the result once, when the answer is read or the charge has failed. */
  charge(charges: readonly Charge[], units: number): (() => void) | undefined {
    return this.#leasedKey(charges)?.account.charge(units)
  }

  /** Ends the leases of these keys before a reset or block. */
  end(charges: readonly Charge[]): void {
    for (const { key } of charges) this.changed(key, true)
  }

  /** The key was reset or blocked (`endsLeases`), here or in another process, or units of it were given back. Undefined: any key may be affected. */
  changed(key: string | undefined, endsLeases: boolean): void {
    for (const book of this.#busy) {
      if (key === undefined) book.changedAll(endsLeases)
      else book.changed(key, endsLeases)
    }
  }

  /** Gives back all unspent units. */
  async close(): Promise<void> {
    await Promise.all([...this.#busy].map(book => book.close()))
  }

  #leasedKey(charges: readonly Charge[]): LeasedKey | undefined {
    return this.#bookOfCharges(charges)?.leasedKey(charges[0].key)
  }

  #bookOfCharges(charges: readonly Charge[]): LeaseBook | undefined {
    const [{ key, limit, limiter }] = charges
    if (charges.length > 1 && charges.some(charge => charge.key !== key)) return undefined
    const known = this.#known.get(limit)
    if (known === undefined) return undefined
    for (const { limits, limiter: name, book } of known) {
      if (
        name === limiter &&
        limits.length === charges.length &&
        charges.every((charge, i) => charge.limit === limits[i])
      ) {
        return book
      }
    }
    return undefined
  }

  #newBook(limits: readonly Limit[], limiter: string | undefined): LeaseBook | undefined {
    const { settings, now, askRedis, hear, ...rest } = this.#parts
    const terms = leaseTerms(limits, settings)
    if (terms === undefined) return undefined
    const seller = new RedisSeller({ ...rest, terms, limiter })
    return new LeaseBook({
      terms,
      seller,
      now,
      defer: send => {
        hear(2 * terms.ttlMs)
        setImmediate(send)
      },
      busy: (book, isBusy) => {
        if (isBusy) this.#busy.add(book)
        else this.#busy.delete(book)
      },
      decide: (key, cost, asker) => {
        const charges = limits.map(limit => ({ key, limit, limiter }))
        askRedis('consume', charges, cost, asker)
      },
    })
  }
}

function isSame(a: readonly Limit[], b: readonly Limit[]): boolean {
  return a.length === b.length && a.every((limit, i) => limit === b[i])
}

/** Adds the units that this process holds to the remaining units that Redis reports for a `peek`. */
function besides(asker: Asker, held: number, cost: number): Asker {
  const more = held - (held >= cost ? cost : 0)
  return {
    endsAt: asker.endsAt,
    asks: server => asker.asks?.(server),
    resolve: (verdicts, answeredAt, decidedAt) => {
      const both = verdicts.map((verdict): Verdict => ({ ...verdict, remaining: verdict.remaining + more }))
      asker.resolve(both, answeredAt, decidedAt)
    },
    reject: error => asker.reject(error),
  }
}

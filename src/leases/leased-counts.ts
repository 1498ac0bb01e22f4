import type { BlockRule, Denials, Strikes } from '../limiter/block-rule.js'
import { type Clock, goingOn } from '../limiter/core/clock.js'
import type { StoreSource, Verdict } from '../limiter/core/decision.js'
import type { Limit } from '../limiter/core/limit.js'
import type { Observer } from '../limiter/core/observer.js'
import type { OutageWarnings } from '../limiter/core/warnings.js'
import type {
  BoundPolicy,
  Change,
  Connecting,
  CountedLimit,
  Counts,
  DecidesNow,
  Keys,
  Origin,
  Reply,
  Verb,
} from '../limiter/port.js'
import type { Charge } from '../limiter/store.js'
import type { LineGuard, StoreLines } from '../limiter/store-lines.js'
import type { RedisCounts } from '../redis/store/redis-counts.js'
import { Lease } from './holdings.js'
import { type LeaseBook, Leases } from './leases.js'
import { RedisSeller } from './redis-seller.js'
import type { LeaseSettings } from './terms.js'

/** Counts in Redis of which this process buys units in advance. */
export class LeasedCounts implements Counts {
  readonly source: StoreSource
  readonly clock: Clock | undefined
  readonly countsCalendars = true
  readonly connecting: Connecting
  readonly place: readonly unknown[]
  readonly serverOf: Counts['serverOf']
  readonly leases: Leases
  readonly #store: RedisCounts

  constructor(store: RedisCounts, settings: LeaseSettings) {
    this.#store = store
    const { source, clock, connecting, place, serverOf } = store
    this.source = source
    this.clock = clock
    this.connecting = connecting
    this.place = place
    this.serverOf = serverOf
    // Looked up once, because the global is a getter: for a decision from a lease it would take a tenth of the time of
    // reading the clock.
    const { performance: processTime } = globalThis
    // A lease holds, whatever becomes of a given clock, which is asked for each decision.
    const own = clock && goingOn(clock)
    this.leases = new Leases({
      settings,
      sellerOf: (terms, limiter) => new RedisSeller(store, terms, limiter),
      now: own === undefined ? () => processTime.now() : () => own.now(),
    })
  }

  /** Throws `PolicyError` if leases were requested for limits that cannot be leased. */
  bind(counted: readonly CountedLimit[], observer?: Observer): BoundPolicy {
    const store = this.#store.bind(counted)
    const book = this.leases.bookOf(counted, store)
    if (book === undefined) return new EndingPolicy(store, this.leases)
    if (observer !== undefined) book.observe(observer)
    return new LeasedPolicy(store, this.leases, book)
  }

  async strike(charge: Charge, denials: Denials, rule: BlockRule, endsAt?: number): Promise<Strikes> {
    const strikes = await this.#store.strike(charge, denials, rule, endsAt)
    if (strikes.isNew) this.leases.end(charge.key)
    return strikes
  }

  lines?(guard: LineGuard): StoreLines

  warnings(meanwhile: string): OutageWarnings {
    return this.#store.warnings(meanwhile)
  }
}

/** A policy whose keys may be leased under other policies: changes of a key end its leases, or let it buy again. */
class EndingPolicy implements BoundPolicy {
  readonly limits: readonly Limit[]

  constructor(
    protected readonly store: BoundPolicy,
    protected readonly leases: Leases,
  ) {
    this.limits = store.limits
  }

  decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    this.store.decide(verb, keys, cost, reply)
  }

  async change(change: Change, keys: Keys, endsAt?: number): Promise<void> {
    const { verb } = change
    const ends = verb === 'reset' || verb === 'block'
    if (ends) this.leases.end(keys)
    await this.store.change(change, keys, endsAt)
    // What was bought meanwhile may have been sold before.
    if (ends) this.leases.end(keys)
    else if (verb !== 'charge') this.leases.wake(keys)
  }
}

/** The refusal of a request while this process must wait before it buys again. */
const PAUSING: Origin = { source: 'lease' }

/** A policy of which this process holds units of busy keys. Only keys that are one text for all limits are leased. */
class LeasedPolicy extends EndingPolicy implements DecidesNow {
  readonly now: DecidesNow
  readonly isLeased = true
  readonly last: DecidesNow['last']
  decidedAt = Number.NEGATIVE_INFINITY
  origin: Origin = PAUSING
  readonly #book: LeaseBook
  readonly #limit: Limit

  constructor(store: BoundPolicy, leases: Leases, book: LeaseBook) {
    super(store, leases)
    this.#book = book
    this.#limit = store.limits[0]
    this.now = this
    this.last = this
  }

  /** Spends from a lease; undefined if this process holds none with enough units. */
  decideNow(keys: Keys, cost: number): readonly Verdict[] | undefined {
    if (cost === 0 || typeof keys !== 'string') return undefined
    const book = this.#book
    const now = book.now()
    const lease = book.spend(keys, cost, now)
    if (lease === undefined) return undefined
    this.origin = lease
    this.decidedAt = lease.facts.soldAt
    const held = lease.units + lease.reserve
    if (this.limits.length === 1) return [lease.verdict(this.#limit, 0, held, now)]
    return this.limits.map((limit, i) => lease.verdict(limit, i, held, now))
  }

  override decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    const { store } = this
    const book = this.#book
    if (typeof keys !== 'string') {
      store.decide(verb, keys, cost, reply)
      return
    }
    if (cost > 0 && verb === 'consume') {
      const refusal = book.refusal(keys, cost)
      if (refusal !== undefined) {
        reply.resolve(refusal, performance.now(), undefined, PAUSING)
        return
      }
      if (book.ask(keys, cost, reply)) return
    }
    // What this process holds suffices: Redis says only what else is left.
    const isHeld = cost > 0 && verb === 'peek' && book.held(keys) >= cost
    if (isHeld) store.decide(verb, keys, 0, book.beside(verb, keys, book.less(cost, reply)))
    else store.decide(verb, keys, cost, book.beside(verb, keys, reply))
  }

  override async change(change: Change, keys: Keys, endsAt?: number): Promise<void> {
    const { verb, units, from } = change
    if (verb === 'giveBack' && from instanceof Lease) return this.#book.settle(from, units, endsAt)
    const isCharged = verb === 'charge' && units > 0 && typeof keys === 'string'
    await super.change(isCharged ? { ...change, answered: this.#book.charge(keys, units) } : change, keys, endsAt)
  }

  /** Gives back all unspent units of this process. */
  close(): Promise<void> {
    return this.#book.close()
  }
}

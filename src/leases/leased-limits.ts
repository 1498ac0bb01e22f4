import type { Decision, Verdict } from '../limiter/core/decision.js'
import type { Limit, Policy } from '../limiter/core/limit.js'
import type { Observer } from '../limiter/core/observer.js'
import { offersOf, type StoreOffers } from '../limiter/offers.js'
import { type ChargeOwner, type ChargeTicket, decisionOf, SettleableDecision } from '../limiter/settlement.js'
import type { Lease } from './holdings.js'
import type { LeaseBook } from './leases.js'

/** A policy over a store that leases: decides busy keys from units that this process has bought. */
export class LeasedLimits {
  /** The `ChargeTicket` that all decisions of one lease share. */
  #ticket: ChargeTicket
  readonly #limit: Limit
  readonly #hasOneLimit: boolean

  private constructor(
    readonly book: LeaseBook,
    readonly store: StoreOffers,
    readonly policy: Policy,
    readonly owner: ChargeOwner,
  ) {
    this.#ticket = { owner }
    this.#limit = policy[0]
    this.#hasOneLimit = policy.length === 1
  }

  /**
   * Undefined if each decision asks the store. Throws `PolicyError` if leases were requested for a policy that cannot
   * be leased.
   */
  static of(
    policy: Policy,
    limiter: string | undefined,
    owner: ChargeOwner,
    observer: Observer | undefined,
  ): LeasedLimits | undefined {
    const store = offersOf(owner.store)
    const book = store?.leasesOf?.(policy, limiter)
    if (store === undefined || book === undefined) return undefined
    if (observer !== undefined) book.observe(observer)
    return new LeasedLimits(book, store, policy, owner)
  }

  /** Spends from a lease; undefined if this process holds no lease with enough units. */
  consume(key: string, cost: number): Decision | undefined {
    if (cost === 0 || !this.store.isAskable('consume')) return undefined
    const { book } = this
    const now = book.now()
    const lease = book.spend(key, cost, now)
    if (lease === undefined) return undefined
    const held = lease.units + lease.reserve
    const ticket = this.#ticket.lease?.of === lease ? this.#ticket : this.ticketFrom(lease)
    if (!this.#hasOneLimit) return decisionOf(key, cost, this.#verdicts(lease, held, now), 'lease', false, ticket)
    const verdict = lease.verdict(this.#limit, 0, held, now)
    return new SettleableDecision(verdict, key, cost, [verdict], 'lease', false, 0, ticket, false)
  }

  /** The refusal of a request without a lease, while this process must wait before it buys again. */
  refusal(key: string, cost: number): Decision | undefined {
    const verdicts = cost === 0 ? undefined : this.book.refusal(key, cost)
    return verdicts && decisionOf(key, cost, verdicts, 'lease')
  }

  /** The `ChargeTicket` of decisions from this lease. */
  ticketFrom(lease: Lease): ChargeTicket {
    if (this.#ticket.lease?.of !== lease) {
      const settle = (units: number, endsAt?: number) => this.book.settle(lease, units, endsAt)
      this.#ticket = { owner: this.owner, chargedAt: lease.facts.soldAt, lease: { of: lease, settle } }
    }
    return this.#ticket
  }

  /** Gives back all unspent units of this process. */
  close(): Promise<void> {
    return this.book.close()
  }

  #verdicts(lease: Lease, held: number, now: number): Verdict[] {
    return this.policy.map((limit, i) => lease.verdict(limit, i, held, now))
  }
}

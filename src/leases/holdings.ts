import { toSmallInteger } from '../limiter/algorithms/algorithm.js'
import { suspendedMs } from '../limiter/core/clock.js'
import type { Verdict } from '../limiter/core/decision.js'
import type { Limit } from '../limiter/core/limit.js'
import type { Origin, Reply } from '../limiter/port.js'
import type { Account } from './account.js'
import type { LeaseFacts, LeaseSeller, UnspentUnits } from './seller.js'
import { type LeaseTerms, returnable } from './terms.js'

/** What the leases of all keys under one policy share: see `LeaseBook`. */
export interface PolicyLeases {
  readonly terms: LeaseTerms
  readonly seller: LeaseSeller
  /** Begins the names of all leases. */
  readonly owner: string
  /** The process's own clock, ms. */
  now(): number
  /** Calls back after this turn of the event loop, so that the requests of one turn share a purchase. */
  defer(send: () => void): void
  /** Asks Redis for one decision, without a lease. */
  decide(key: string, cost: number, reply: Reply): void
  /** Called with the number of units of a new lease. */
  bought(units: number, lastsMs: number): void
  /** Called with the number of units that were bought and not spent. */
  expired(units: number): void
}

/** Units that this process has bought and may spend until the lease ends. */
export class Lease implements Origin {
  readonly source = 'lease'
  /** Units left. */
  units: number
  /** Units of the next lease, which is already bought. */
  reserve = 0
  /** When fewer units than this are left, a spend checks whether to buy more. */
  checkBelow!: number
  /** From this moment on, a spend checks whether the lease has ended and whether to buy more. */
  checkAt!: number

  /**
   * `askedAt` (before the purchase was sent) and `endsAt` are by the process's own clock; `offset` is `wallOffset` at
   * `askedAt`. `refillBelow`: when fewer units are left, more are bought.
   */
  constructor(
    readonly facts: LeaseFacts,
    /** Of its key. */
    readonly account: Account,
    readonly askedAt: number,
    readonly endsAt: number,
    readonly refillBelow: number,
    readonly offset: number,
  ) {
    this.units = facts.sold
    this.watch()
  }

  /** Enables the checks for few units and for the end of the lease. */
  watch(): void {
    this.checkBelow = this.refillBelow
    this.checkAt = this.endsAt - (this.endsAt - this.askedAt) / 4
  }

  /** Suspends purchases until `untilAt`. */
  rest(untilAt: number): void {
    this.checkBelow = 0
    this.checkAt = Math.min(untilAt, this.endsAt)
  }

  /**
   * Whichever of the two clocks says so first ends it: while the machine is suspended, the monotonic one stands still.
   */
  isLive(now: number): boolean {
    return now < this.endsAt - suspendedMs(this.offset) && now >= this.askedAt
  }

  /** Spends from this lease, if it is live and has enough units. */
  spend(cost: number, now: number): boolean {
    if (this.units < cost || !this.isLive(now)) return false
    this.units -= cost
    return true
  }

  /** The verdict of a request that is allowed now; `held`: the units that the process still holds. */
  verdict(limit: Limit, place: number, held: number, now: number): Verdict {
    const { remaining, resetAt } = this.account
    const resetMs = Math.ceil(resetAt[place] - now)
    return {
      limit,
      allowed: true,
      remaining: toSmallInteger(remaining[place] + held),
      retryAfterMs: 0,
      resetAfterMs: resetMs > 0 ? toSmallInteger(resetMs) : 0,
      delayMs: 0,
    }
  }
}

/** The leases of one key in this process: at most two, because the next is bought before the first one ends. */
export class Holdings {
  /** The lease that is spent first. */
  first: Lease | undefined
  #next: Lease | undefined
  /** Returned with the next purchase. */
  #unspent: UnspentUnits | undefined

  constructor(readonly policy: PolicyLeases) {}

  get hasNext(): boolean {
    return this.#next !== undefined
  }

  /** Spends from a lease; undefined if none has enough units. */
  spend(cost: number, now: number): Lease | undefined {
    if (this.first?.spend(cost, now)) return this.first
    if (this.#next?.spend(cost, now)) this.#advance()
    else {
      this.retireEnded(now)
      return undefined
    }
    return this.first
  }

  /** Units that can still be spent. */
  held(now: number): number {
    let units = this.first?.isLive(now) ? this.first.units : 0
    if (this.#next?.isLive(now)) units += this.#next.units
    return units
  }

  /** Adds a bought lease. */
  add(bought: Lease, now: number): void {
    const { first } = this
    if (first === undefined || first.units === 0 || !first.isLive(now)) {
      if (first !== undefined) this.retire(first)
      this.first = bought
    } else {
      if (this.#next !== undefined) this.retire(this.#next)
      this.#next = bought
      first.reserve = bought.units
    }
  }

  /** Puts units of a settled decision back into their lease. False if the lease has ended. */
  putBack(lease: Lease, units: number): boolean {
    const { first } = this
    if ((lease !== first && lease !== this.#next) || !lease.isLive(this.policy.now())) return false
    lease.units += units
    if (first !== undefined && lease === this.#next) first.reserve = lease.units
    return true
  }

  /** Stops spending from this lease. */
  retire(lease: Lease): void {
    if (lease.units === 0) return
    const { policy } = this
    const unspent = { facts: lease.facts, units: lease.units }
    lease.units = 0
    policy.expired(unspent.units)
    if (returnable(policy.terms, unspent.units, policy.now() - lease.askedAt) === 0) return
    void this.returnUnspent()
    this.#unspent = unspent
  }

  /** Retires ended leases. */
  retireEnded(now: number): void {
    while (this.first !== undefined && !this.first.isLive(now)) this.#advance()
  }

  retireAll(): void {
    while (this.first !== undefined) this.#advance()
  }

  /** The units to return with the purchase that is sent now. */
  takeUnspent(): UnspentUnits | undefined {
    const unspent = this.#unspent
    this.#unspent = undefined
    return unspent
  }

  /** Returns unspent units without a purchase. If this fails, the units are lost but never spent twice. */
  async returnUnspent(): Promise<void> {
    const { seller } = this.policy
    const unspent = this.takeUnspent()
    if (unspent !== undefined && seller.isReady()) await seller.returnLease(unspent).catch(() => {})
  }

  #advance(): void {
    if (this.first !== undefined) this.retire(this.first)
    this.first = this.#next
    this.#next = undefined
  }
}

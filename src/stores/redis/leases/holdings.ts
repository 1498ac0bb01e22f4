import type { Lease } from './lease.js'
import type { LeaseSeller, Leftover } from './seller.js'
import { type LeaseTerms, returnable } from './terms.js'

/** The clock and the listener of `Holdings`. */
export interface HoldingsParts {
  readonly terms: LeaseTerms
  readonly seller: LeaseSeller
  /** The process's own clock, ms. */
  now(): number
  /** Called with the number of units that were bought and not spent. */
  expired(units: number): void
}

/** The leases of one key in this process: at most two, because the next is bought before the first one ends. */
export class Holdings {
  /** The lease that is spent first. */
  first: Lease | undefined
  #next: Lease | undefined
  /** Returned with the next purchase. */
  #leftover: Leftover | undefined

  constructor(readonly parts: HoldingsParts) {}

  get hasNext(): boolean {
    return this.#next !== undefined
  }

  get isEmpty(): boolean {
    return this.first === undefined
  }

  /** Spends from a lease; undefined if none has enough units. */
  spend(cost: number, now: number): Lease | undefined {
    const lease = this.first
    if (lease === undefined || lease.units < cost || !lease.isLive(now)) return this.#spendNext(cost, now)
    lease.units -= cost
    return lease
  }

  /** Units that can still be spent. */
  held(now: number): number {
    let units = this.first?.isLive(now) ? this.first.units : 0
    if (this.#next?.isLive(now)) units += this.#next.units
    return units
  }

  /** Adds a bought lease. */
  add(bought: Lease, now: number): void {
    const first = this.first
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
    const first = this.first
    if ((lease !== first && lease !== this.#next) || !lease.isLive(this.parts.now())) return false
    lease.units += units
    if (first !== undefined && lease === this.#next) first.reserve = lease.units
    return true
  }

  /** Stops spending from this lease. */
  retire(lease: Lease): void {
    if (lease.units === 0) return
    const { terms, now, expired } = this.parts
    const leftover = { facts: lease.facts, units: lease.units }
    lease.units = 0
    expired.call(this.parts, leftover.units)
    if (returnable(terms, leftover.units, now.call(this.parts) - lease.askedAt) === 0) return
    if (this.#leftover !== undefined) void this.returnLeftover()
    this.#leftover = leftover
  }

  /** Retires ended leases. */
  retireEnded(now: number): void {
    while (this.first !== undefined && !this.first.isLive(now)) this.#advance()
  }

  retireAll(): void {
    while (this.first !== undefined) this.#advance()
  }

  /** The units to return with the purchase that is sent now. */
  takeLeftover(): Leftover | undefined {
    const leftover = this.#leftover
    this.#leftover = undefined
    return leftover
  }

  /** Returns the leftover. If this fails, the units are lost but never spent twice. */
  async returnLeftover(): Promise<void> {
    const { seller } = this.parts
    const leftover = this.takeLeftover()
    if (leftover !== undefined && seller.isReady()) await seller.returnLease(leftover).catch(() => {})
  }

  #spendNext(cost: number, now: number): Lease | undefined {
    const next = this.#next
    if (this.first === undefined) return undefined
    if (this.first.isLive(now) && (next === undefined || next.units < cost || !next.isLive(now))) return undefined
    this.#advance()
    const lease = this.first
    if (lease === undefined || lease.units < cost || !lease.isLive(now)) return undefined
    lease.units -= cost
    return lease
  }

  #advance(): void {
    if (this.first !== undefined) this.retire(this.first)
    this.first = this.#next
    this.#next = undefined
  }
}

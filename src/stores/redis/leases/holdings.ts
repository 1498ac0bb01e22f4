import { toSmallInteger } from '../../../algorithms/algorithm.js'
import { suspendedMs } from '../../../core/clock.js'
import type { Verdict } from '../../../core/decision.js'
import type { Limit } from '../../../core/limit.js'
import type { Asker } from '../../store.js'
import type { Account } from './account.js'
import type { LeaseFacts, LeaseSeller, Leftover } from './seller.js'
import { type LeaseTerms, returnable } from './terms.js'

/** What an asker must know of the leases of its key. */
interface LeasesOfKey {
  readonly ttlMs: number
  /** Units that this process holds. */
  held(): number
  /** Redis has decided: the verdicts with the units that this process holds besides. */
  told(verdicts: readonly Verdict[], decidedAt: number): readonly Verdict[]
  /** See `LeaseSeller`. */
  unitsOut(): Promise<readonly number[]>
}

/**
 * An asker for a request that Redis decides under limits that may be leased. The script that decides does not look for leases, which would cost every decision:
 * only after a refusal a second call asks for how long units may be out.
 */
export function besideLeases(asker: Asker, { ttlMs, held, told, unitsOut }: LeasesOfKey): Asker {
  const resolve: Asker['resolve'] = (verdicts, answeredAt, decidedAt, lease) => {
    const all = typeof decidedAt === 'number' ? told(verdicts, decidedAt) : verdicts
    const answer = (most: (place: number) => number) =>
      asker.resolve(
        all.map((verdict, i) => capped(verdict, most(i))),
        answeredAt,
        decidedAt,
        lease,
      )
    if (all.every(verdict => verdict === capped(verdict, ttlMs))) asker.resolve(all, answeredAt, decidedAt, lease)
    else if (held() > 0) answer(() => ttlMs)
    else {
      unitsOut().then(
        outMs => answer(place => outMs[place] || Number.POSITIVE_INFINITY),
        () => answer(() => ttlMs),
      )
    }
  }
  return { endsAt: asker.endsAt, asks: server => asker.asks?.(server), resolve, reject: error => asker.reject(error) }
}

/** A refusal that does not last longer than `mostMs`, because units may come back from leases by then. A block, and a cost that never fits, are not affected. */
export function capped(verdict: Verdict, mostMs: number): Verdict {
  const { retryAfterMs, blocked } = verdict
  if (blocked || retryAfterMs <= mostMs || retryAfterMs === Number.POSITIVE_INFINITY) return verdict
  return { ...verdict, retryAfterMs: mostMs }
}

/** Units that this process has bought and may spend until the lease ends. */
export class Lease {
  /** Units left. */
  units: number
  /** Units of the next lease, which is already bought. */
  reserve = 0
  /** When fewer units than this are left, a spend checks whether to buy more. */
  checkBelow!: number
  /** From this moment on, a spend checks whether the lease has ended and whether to buy more. */
  checkAt!: number

  /**
   * `askedAt` (before the purchase was sent) and `endsAt` are by the process's own clock; `offset` is `wallOffset` at `askedAt`. `refillBelow`: when fewer units are left, more are
   * bought.
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

  /** Whichever of the two clocks says so first ends it: while the machine is suspended, the monotonic one stands still. */
  isLive(now: number): boolean {
    return now < this.endsAt - suspendedMs(this.offset) && now >= this.askedAt
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

import { toSmallInteger } from '../../../algorithms/small-integer.js'
import { suspendedMs } from '../../../core/clock.js'
import type { Verdict } from '../../../core/decision.js'
import type { Limit } from '../../../core/limit.js'
import type { LeaseFacts } from './seller.js'

/** What Redis said last about a key, beside all units that were leased until then. */
export interface Standing {
  /** When Redis said it, by the server's clock, ms. */
  at: number
  /** Under each limit. */
  remaining: readonly number[]
  /** By the process's own clock. */
  resetAt: readonly number[]
}

/** The moment at which Redis was asked. */
export interface AskMark {
  /** By the process's own clock. */
  readonly askedAt: number
  /** Units that this process had charged until then. */
  readonly charged: number
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
    /** Of its key: one for all leases, because each sale is told what is left beside the earlier ones. */
    readonly standing: Standing,
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
    const { remaining, resetAt } = this.standing
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

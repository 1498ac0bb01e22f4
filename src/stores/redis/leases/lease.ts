import { unboxed } from '../../../algorithms/unboxed.js'
import type { Verdict } from '../../../core/decision.js'
import type { Limit } from '../../../core/limit.js'
import type { LeaseFacts } from './seller.js'

/** Units that this process has bought, and may spend until they end. */
export class Lease {
  /** Units that are left. */
  units: number
  /** Units of a lease that was bought besides. */
  reserve = 0
  /** Who leaves fewer units than these looks whether it is time to buy more. */
  checkBelow!: number
  /** Who spends from then on looks whether the lease has ended, and whether it is time to buy more. */
  checkAt!: number

  /** `askedAt` and `endsAt` by the process's own clock: from before the purchase was sent. `refillBelow`: when fewer units are left it is time to buy more. */
  constructor(
    readonly facts: LeaseFacts,
    readonly askedAt: number,
    readonly endsAt: number,
    readonly refillBelow: number,
  ) {
    this.units = facts.sold
    this.watch()
  }

  /** More is to be bought when units, or the time, run short. */
  watch(): void {
    this.checkBelow = this.refillBelow
    this.checkAt = this.endsAt - (this.endsAt - this.askedAt) / 4
  }

  /** Nothing is to be bought before this moment. */
  rest(untilAt: number): void {
    this.checkBelow = 0
    this.checkAt = Math.min(untilAt, this.endsAt)
  }

  /** Expiry is checked whenever units are spent: the process may have stood still. */
  isLive(now: number): boolean {
    return now < this.endsAt && now >= this.askedAt
  }

  /** The verdict on a request that was allowed now; `held`: what the process still holds. */
  verdict(limit: Limit, place: number, held: number, now: number): Verdict {
    const { remaining, resetAfterMs } = this.facts
    const resetMs = Math.ceil(this.askedAt + resetAfterMs[place] - now)
    return {
      limit,
      allowed: true,
      remaining: unboxed(remaining[place] + held),
      retryAfterMs: 0,
      resetAfterMs: resetMs > 0 ? unboxed(resetMs) : 0,
      delayMs: 0,
    }
  }
}

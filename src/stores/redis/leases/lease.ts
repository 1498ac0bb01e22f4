import type { Verdict } from '../../../core/decision.js'
import type { Limit } from '../../../core/limit.js'
import type { LeaseFacts } from './seller.js'

/** Units that this process has bought, and may spend until they end. */
export class Lease {
  /** Units that are left. */
  units: number
  /** Units of a lease that was bought besides. */
  reserve = 0
  /** Fewer than these are left: it is time to buy more. */
  refillBelow = 0
  /** From then on it is time to buy more. */
  readonly refillAt: number

  /** `askedAt` and `endsAt` by the process's own clock: from before the purchase was sent. */
  constructor(
    readonly facts: LeaseFacts,
    readonly askedAt: number,
    readonly endsAt: number,
  ) {
    this.units = facts.sold
    this.refillAt = endsAt - (endsAt - askedAt) / 4
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
      remaining: remaining[place] + held,
      retryAfterMs: 0,
      resetAfterMs: resetMs > 0 ? resetMs : 0,
      delayMs: 0,
    }
  }
}

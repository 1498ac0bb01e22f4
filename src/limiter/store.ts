import type { Receipt } from './changes/refund-note.js'
import type { Clock } from './core/clock.js'
import type { Verdict } from './core/decision.js'
import type { Limit } from './core/limit.js'

/** A key under a limit: the unit of counting. */
export interface Charge {
  /** The key to charge. */
  readonly key: string
  /** The limit. */
  readonly limit: Limit
  /**
   * The limiter's name; undefined: 'default'. Limiters with different names never share their counts. Limits of one
   * limiter do if `countName` gives the same text.
   */
  readonly limiter?: string
}

/** What one decision spent under one limit, and when. */
export interface ChargeReceipt extends Charge, Receipt {}

/**
 * When a decision's units were charged, in ms by the clock of the store that decided: one moment for all limits, or one
 * for each, where servers of a cluster decided one after another.
 */
export type ChargedAt = number | readonly number[]

export function receiptsOf(
  charges: readonly Charge[],
  verdicts: readonly Verdict[],
  chargedAt: ChargedAt,
  cost: number,
): ChargeReceipt[] {
  return charges.map((charge, i) => ({
    ...charge,
    chargedAt: typeof chargedAt === 'number' ? chargedAt : chargedAt[i],
    cost,
    remaining: verdicts[i].remaining,
    resetAfterMs: verdicts[i].resetAfterMs,
  }))
}

/**
 * Keeps the state. Every call measures all its charges at one instant and spends from all or from none, by the store's
 * own clock. `endsAt`, by `performance.now()`, is the moment after which a change is no longer wanted; undefined: no
 * such moment.
 */
export interface Store {
  /**
   * Spends `cost` from all charges or from none; a cost of 0 always fits. One verdict for each charge, in their order.
   */
  consume(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> | readonly Verdict[]
  /** The verdicts that `consume` would give; changes nothing. */
  peek(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> | readonly Verdict[]
  /** Gives back at most what is spent: a sliding window's oldest units, a counter's or bucket's newest. */
  refund(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> | void
  /**
   * Gives back at most `units` of what a decision spent under each of these limits, dated at the moment of its charge,
   * as far as they still count. For a store that does not tell when it charged, the moment at which it was asked, by
   * its `clock`, or by `performance.now()` if it has none. Without this method a settlement to less keeps the units.
   */
  giveBack?(receipts: readonly ChargeReceipt[], units: number, endsAt?: number): Promise<void> | void
  /** Makes each key as if it was never used under its limit. */
  reset(charges: readonly Charge[], endsAt?: number): Promise<void> | void
  /** Spends even if it does not fit: for costs that are known only afterwards. Without this method nothing is added. */
  charge?(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> | void
  /**
   * Denies each charge for `forMs`, regardless of what was spent; 0 ends the block. Without this method
   * `RateLimiter.block` rejects with `StoreError`, and `rateLimit` refuses the option `block`.
   */
  block?(charges: readonly Charge[], forMs: number, endsAt?: number): Promise<void> | void
  /** Closes the store's own timers and connections. A client that was passed in stays open. */
  close?(): Promise<void> | void
  /** Names the server that keeps the charge, for stores with several servers that fail separately. */
  serverOf?(charge: Charge): string
  /** True for a store that supports calendar windows (`Limit.calendar`). */
  readonly countsCalendars?: true
  /** If present, the times of cached denials are measured by it; else by a monotonic clock. */
  readonly clock?: Clock
}

export const DEFAULT_LIMITER = 'default'

/** How long a call may take that was requested without an end. */
export const DEFAULT_DEADLINE_MS = 1000

/**
 * The moments that a store's clock shows twice, because it stepped back. A charge at such a moment may belong to either
 * pass; settling it by its moment could give back units that others have spent. What was shown once between two steps
 * is doubtful, too: a bucket that has moved with the clock no longer tells the passes apart.
 */
export class ClockSteps {
  /** The range of these moments, ms. */
  from = Number.POSITIVE_INFINITY
  until = Number.NEGATIVE_INFINITY
  #last = Number.NEGATIVE_INFINITY
  #readAt = Number.NEGATIVE_INFINITY

  /**
   * The clock showed `nowMs` in an answer that was asked for at `askedAt` and read at `readAt`, both by
   * `performance.now()`; without them, to who reads the clock itself. It has stepped back only if an earlier answer,
   * read before this one was asked for, shows a later moment: of answers that cross, either may be the older.
   */
  note(nowMs: number, askedAt = Number.POSITIVE_INFINITY, readAt = Number.NEGATIVE_INFINITY): void {
    if (askedAt < this.#readAt) return
    if (nowMs < this.#last) this.step(this.#last, nowMs)
    this.#last = nowMs
    this.#readAt = readAt
  }

  /** The clock stepped back; for stores that compare moments themselves. */
  step(fromMs: number, toMs: number): void {
    this.from = Math.min(this.from, toMs)
    this.until = Math.max(this.until, fromMs)
  }

  /** Whether the moment of this charge occurred twice. */
  isDoubtful(chargedAt: number): boolean {
    return chargedAt >= this.from && chargedAt <= this.until
  }
}

import type { Receipt } from '../algorithms/settlement-note.js'
import type { Clock } from '../core/clock.js'
import type { Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'

/** What is counted: a key under a limit. */
export interface Charge {
  /** Who is charged. */
  readonly key: string
  /** By which limit. */
  readonly limit: Limit
  /** The name of the limiter that asks; absent: 'default'. Limiters of different names never share their counts. */
  readonly limiter?: string
}

/** What one decision spent under one limit, and when. */
export interface ChargeReceipt extends Charge, Receipt {}

/**
 * When a decision's units were charged, in ms by the clock of the store that decided: one moment for all its limits, or one for
 * each, where servers of a cluster decided one after another.
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

/** Who waits for the verdicts of one decision; is told one or the other, once, and throws nothing. */
export interface Asker {
  /** By `performance.now()`: later the decision is of no use, and is not carried out. Absent: a second after it was asked. */
  readonly endsAt?: number
  /** A server is asked that may fail while others do not: see `Store.serverOf`. */
  asks?(server: string): void
  /**
   * `answeredAt`: by `performance.now()`. `chargedAt`: if the store tells when it decided. `lease`: what the decision has spent from, if it was not
   * the store itself.
   */
  resolve(verdicts: readonly Verdict[], answeredAt: number, chargedAt?: ChargedAt, lease?: object): void
  reject(error: unknown): void
}

/**
 * Where state lives. Every call measures all its charges at one instant and spends from all or from none, by the store's
 * own clock. `endsAt`, by `performance.now()`, is the moment after which a change is of no use any more; absent: as long as it takes.
 */
export interface Store {
  /** Spends `cost` from all charges or from none; a cost of 0 always fits. One verdict for each charge, in their order. */
  consume(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> | readonly Verdict[]
  /** The verdicts that `consume` would give; changes nothing. */
  peek(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> | readonly Verdict[]
  /** Gives back at most what is spent: a sliding window its oldest units, counters and buckets their newest. */
  refund(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> | void
  /**
   * Gives back at most `units` of what a decision spent under each of these limits, at the time when it was charged, so far as they
   * still count. Without it a settlement refunds.
   */
  giveBack?(receipts: readonly ChargeReceipt[], units: number, endsAt?: number): Promise<void> | void
  /** Makes each key as if it was never used under its limit. */
  reset(charges: readonly Charge[], endsAt?: number): Promise<void> | void
  /** Spends though it may not fit: what a request turned out to cost beyond what was asked. Without it nothing is added. */
  charge?(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> | void
  /** Denies each charge for so long, whatever was spent; 0 lifts that. Without it, blocks are kept by the limiter's process. */
  block?(charges: readonly Charge[], forMs: number, endsAt?: number): Promise<void> | void
  /** Ends timers and connections of its own. A client that was given stays open. */
  close?(): Promise<void> | void
  /**
   * Calls back with the key when its denials may have ended by a change anywhere, with undefined when such news may have been missed.
   * The listener is not kept alive by the store. Given only if the store can know.
   */
  onReset?(listener: (key: string | undefined) => void): void
  /** Such news matters for `forMs` more, because denials are remembered; 0: it does not matter any more. */
  hearResets?(forMs: number): void
  /** Names the server that keeps the charge, where a store has several that can fail one without the others. */
  serverOf?(charge: Charge): string
  /** True for a store that counts in windows of the calendar (`Limit.calendar`). */
  readonly countsCalendars?: true
  /** If given, what is cached in process (denials) is timed by it; else by a monotonic clock. */
  readonly clock?: Clock
}

export const DEFAULT_LIMITER = 'default'

import { type Verdict, verdictOf } from './core/decision.js'
import { CostError, type StoreError, TimeoutError } from './core/errors.js'
import type { Limit } from './core/limit.js'
import type { Observer } from './core/observer.js'
import type { Patience } from './core/wait.js'
import type { Charge } from './store.js'

/** A grant of a waiting line: the verdicts, and when the units were spent. */
export interface Turn {
  readonly verdicts: readonly Verdict[]
  /** By the clock of the store, ms. */
  readonly at: number
}

/**
 * What a waiter does while the server fails. Without it, the waiter is rejected when the server is silent for longer
 * than the deadline.
 */
export interface Outage {
  /** The server fails. The waiter keeps its place; `leave` gives it up, and rejects the wait with this error. */
  begins(error: unknown, leave: (error: unknown) => void): void
  /** The server answers again, or the wait is over. */
  ends(): void
}

/** The waiting lines of a store, first come, first served. */
export interface StoreLines {
  /**
   * Waits for a grant. Rejects with `TimeoutError` (at once if the grant would come too late), the signal's reason,
   * `CostError` if the cost can never fit, and `StoreError`. `outage`: what the waiter does while the store fails.
   * Undefined if the store keeps no line for these charges.
   */
  wait(charges: readonly Charge[], cost: number, patience: Patience, outage?: Outage): Promise<Turn> | undefined
  /** Units may have become free: wakes the waiters of these charges. Absent if the store does so itself. */
  wake?(charges: readonly Charge[]): void
  /**
   * Rejects all waiters of this limiter; resolves when they have left their lines. `ownsStore`: no other limiter uses
   * the store.
   */
  close(error: Error, ownsStore: boolean): Promise<void>
}

/** The deadline and the breakers of a limiter, under which its lines in a server ask. */
export interface LineGuard {
  /** How long a call may take, ms. */
  readonly deadlineMs: number
  /** No call ends before this moment, by `performance.now()`: see `Counts.connectsUntil`. */
  connectsUntil(): number
  /** Whether the charge's server may be asked now: while its breaker is open, only an occasional probe. */
  mayAsk(charge: Charge): boolean
  /** The error while the breaker of the charge's server is open. */
  refusal(charge: Charge): StoreError | undefined
  /** The observer is told when a breaker of the store opens or closes; the caller holds it. */
  watch(observer: Observer): void
  /** The server of the charge answered a message that was sent at `askedAt`. */
  lineAnswered(charge: Charge, askedAt: number): void
  /** The server of the charge did not answer a message. */
  lineFailed(charge: Charge, cause: unknown): StoreError
}

/** The verdict of a grant. */
export function turnVerdict({ limit }: Charge, remaining: number, resetAfterMs: number): Verdict {
  return verdictOf(limit, remaining, 0, resetAfterMs)
}

export function tooLate(timeoutMs: number): TimeoutError {
  return new TimeoutError(`the turn did not come within ${timeoutMs} ms`)
}

export function tooFar(waitMs: number): TimeoutError {
  return new TimeoutError(`the turn would come in ${waitMs} ms, which is after the timeout`, { retryAfterMs: waitMs })
}

export function neverFits(cost: number, limit: Limit): CostError {
  return new CostError(`cost ${cost}: limit "${limit.name}" never allows so much at once, waiting would not help`)
}

import type { Verdict } from '../decision.js'
import type { Limit } from '../limit.js'

/** A verdict and the state that follows from it: after spending if it allows, else as it was (mended where a clock ran back). */
export interface Measurement<State> {
  readonly verdict: Verdict
  readonly next: State | undefined
}

/**
 * Arithmetic of one kind of limit. Reads no clock and changes nothing it is given.
 *
 * `nowMs` is whole milliseconds; no state is `undefined`, and stands for a key that was never used. A cost of 0 always fits
 * and leaves the state as it is. A time in the state that lies after `nowMs` (the clock ran back) counts as `nowMs`.
 */
export interface Algorithm<State> {
  measure(limit: Limit, state: State | undefined, nowMs: number, cost: number): Measurement<State>
  /** Spends `cost` whether it fits or not: the way to charge a debt. */
  spend(limit: Limit, state: State | undefined, nowMs: number, cost: number): State | undefined
  /**
   * Spends `cost` in `waitMs`, when it fits: `waitMs` is the `retryAfterMs` just measured, and who comes later finds it spent.
   * Absent where a future spending cannot be told from a clock that ran back.
   */
  book?(limit: Limit, state: State | undefined, nowMs: number, cost: number, waitMs: number): State
  /** Gives back at most what is spent, newest first. */
  refund(limit: Limit, state: State | undefined, nowMs: number, cost: number): State | undefined
}

/** An algorithm whose state is a fixed count of numbers, so that a million keys fit in a few flat arrays. */
export interface RowAlgorithm<State> extends Algorithm<State> {
  /** Numbers per key. */
  readonly width: number
  read(cells: Float64Array, at: number): State
  write(cells: Float64Array, at: number, state: State): void
}

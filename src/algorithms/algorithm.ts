import type { Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'

/**
 * Arithmetic of one kind of limit, on a state that it changes: a state kept in place costs no garbage. Reads no clock.
 *
 * `nowMs` is whole milliseconds. A cost of 0 always fits and spends nothing. A time in the state that lies after `nowMs` (the
 * clock ran back) becomes `nowMs`, which is the only thing that a refusal may change in what is counted.
 */
export interface Arithmetic<State> {
  /** The state of a key that was never used. */
  fresh(): State
  copy(state: State): State
  /** True if nothing is left of the state at this time. Absent where even an empty one matters when the clock runs back. */
  isOver?(limit: Limit, state: Readonly<State>, nowMs: number): boolean
  /** Measures, and spends if it fits: a verdict that allows a cost above 0 has spent it. */
  consume(limit: Limit, state: State, nowMs: number, cost: number): Verdict
  /** Spends a cost above 0 whether it fits or not: the way to charge a debt. */
  spend(limit: Limit, state: State, nowMs: number, cost: number): void
  /**
   * Spends `cost` in `waitMs`, when it fits: `waitMs` is the `retryAfterMs` just measured, and who comes later finds it spent.
   * Absent where a future spending cannot be told from a clock that ran back.
   */
  book?(limit: Limit, state: State, nowMs: number, cost: number, waitMs: number): void
  /** Gives back at most what is spent, newest first. */
  refund(limit: Limit, state: State, nowMs: number, cost: number): void
}

/**
 * A verdict and the state that follows from it: after spending if it allows, else as it was (mended where a clock ran back);
 * undefined where nothing is left of it.
 */
export interface Measurement<State> {
  readonly verdict: Verdict
  readonly next: State | undefined
}

/** The same arithmetic on copies: what is given stays as it is. No state is `undefined`, and stands for a key that was never used. */
export interface Algorithm<State> {
  /** To spend in place, where no copy is needed. */
  readonly inPlace: Arithmetic<State>
  measure(limit: Limit, state: State | undefined, nowMs: number, cost: number): Measurement<State>
  spend(limit: Limit, state: State | undefined, nowMs: number, cost: number): State | undefined
  book?(limit: Limit, state: State | undefined, nowMs: number, cost: number, waitMs: number): State
  refund(limit: Limit, state: State | undefined, nowMs: number, cost: number): State | undefined
}

/** How a state that is a fixed count of numbers is laid out, so that a million keys fit in a few flat arrays. */
export interface Row<State> {
  /** Numbers per key. */
  readonly width: number
  read(cells: Float64Array, at: number, into: State): void
  write(cells: Float64Array, at: number, state: State): void
}

/** An algorithm whose state is a row of numbers. */
export interface RowAlgorithm<State> extends Algorithm<State> {
  readonly row: Row<State>
}

export function algorithm<State>(inPlace: Arithmetic<State>): Algorithm<State> {
  const own = (state: State | undefined): State => (state === undefined ? inPlace.fresh() : inPlace.copy(state))
  return {
    inPlace,

    measure(limit, state, nowMs, cost) {
      const next = own(state)
      const verdict = inPlace.consume(limit, next, nowMs, cost)
      const spent = verdict.allowed && cost > 0
      const gone = state === undefined || inPlace.isOver?.(limit, next, nowMs)
      return { verdict, next: gone && !spent ? undefined : next }
    },

    spend(limit, state, nowMs, cost) {
      if (cost === 0) return state
      const next = own(state)
      inPlace.spend(limit, next, nowMs, cost)
      return next
    },

    book:
      inPlace.book &&
      ((limit, state, nowMs, cost, waitMs) => {
        const next = own(state)
        inPlace.book!(limit, next, nowMs, cost, waitMs)
        return next
      }),

    refund(limit, state, nowMs, cost) {
      if (state === undefined || inPlace.isOver?.(limit, state, nowMs)) return undefined
      if (cost === 0) return state
      const next = own(state)
      inPlace.refund(limit, next, nowMs, cost)
      return next
    },
  }
}

export function rowAlgorithm<State>(row: Row<State>, inPlace: Arithmetic<State>): RowAlgorithm<State> {
  return { ...algorithm(inPlace), row }
}

import type { Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'

// A float quotient may round up to a whole number that it does not reach, so the result is checked by multiplication,
// which is exact below 2⁵³. (The remainder operator would be exact too, but is ten times slower.)

/** ⌊a / b⌋, exact for integers 0 ≤ a ≤ 2⁵³, 0 < b. */
export function floorDiv(a: number, b: number): number {
  const quotient = Math.floor(a / b)
  return quotient * b > a ? quotient - 1 : quotient
}

/** ⌈a / b⌉, exact for integers 0 ≤ a ≤ 2⁵³, 0 < b. */
export function ceilDiv(a: number, b: number): number {
  const quotient = floorDiv(a, b)
  return quotient * b < a ? quotient + 1 : quotient
}

/**
 * Returns the same number; a small integer is then stored without a heap box. The difference of two moments, or a
 * number from a flat array, has a box even if it is a small integer. Once one verdict holds a boxed number, V8 boxes
 * that field in all verdicts: a third of the garbage of each decision.
 */
export function toSmallInteger(value: number): number {
  const whole = value | 0
  return whole === value ? whole : large(value)
}

// A call, because V8 compiles no code for a call that has not happened yet: in most processes the result is then known
// to be a small integer.
function large(value: number): number {
  return value
}

/** The layout of a state with a fixed count of numbers, so that a million keys fit in a few flat arrays. */
export interface Row<State> {
  /** Numbers per key. */
  readonly width: number
  read(cells: Float64Array, at: number): State
  write(cells: Float64Array, at: number, state: State): void
}

/**
 * What a decision needs to know of the algorithm of a limit. The arithmetic changes the given state in place, which
 * creates no garbage. It reads no clock. What only some need is with them: changes of what was spent in changes/, lines
 * in ahead.ts, remembered denials in refused-after.ts, the text of states in sql/, leases in leases/.
 *
 * `nowMs` is whole milliseconds. A cost of 0 always fits and spends nothing. A time in the state after `nowMs` (the
 * clock ran back) becomes `nowMs`: this is the only change that a refusal may make to the counts.
 */
export interface Algorithm<State> {
  /** Present if a state is a row of numbers. */
  readonly row?: Row<State>
  /** Two letters for the algorithm in store keys, so that a limit starts anew when its algorithm changes. */
  readonly keySuffix: string
  /** Whether allowed requests have to wait: Redis then returns their delay too. */
  readonly shapes: boolean

  /** The state of a key that was never used. */
  fresh(): State
  copy(state: State): State
  /**
   * True if nothing counts in the state at this time. Absent if even an empty state matters when the clock runs back.
   */
  isOver?(limit: Limit, state: Readonly<State>, nowMs: number): boolean
  /** Spends if the cost fits: a verdict that allows a cost above 0 has spent it. */
  consume(limit: Limit, state: State, nowMs: number, cost: number): Verdict
}

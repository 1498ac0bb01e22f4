import type { Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import type { Receipt, RefundNote } from './refund-note.js'

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
 * How units of a lease come back: a process may spend them at any moment until it ends, `ttlMs` after the sale at the
 * latest. docs/leases.md says why the limit holds all the same.
 */
export interface LeaseArithmetic {
  /** When the units of a lease count as spent: the `chargedAt` of their receipt. */
  chargedAt(soldAt: number, ttlMs: number): number
  /** How many of a lease's unspent units become free if they come back `ageMs` after the sale. */
  returned(limit: Limit, units: number, ageMs: number): number
}

/**
 * Everything that depends on the algorithm of a limit. The arithmetic changes the given state in place, which creates
 * no garbage. It reads no clock.
 *
 * `nowMs` is whole milliseconds. A cost of 0 always fits and spends nothing. A time in the state after `nowMs` (the
 * clock ran back) becomes `nowMs`: this is the only change that a refusal may make to the counts.
 */
export interface Algorithm<State> {
  /** Present if a state is a row of numbers. */
  readonly row?: Row<State>
  /** Two letters for the algorithm in store keys, so that a limit starts anew when its algorithm changes. */
  readonly keySuffix: string
  /** The cost of a decision for Redis, in units of about 4 µs. */
  readonly redisWork: number
  /** Whether allowed requests have to wait: Redis then returns their delay too. */
  readonly shapes: boolean
  /**
   * Whether settlements must record resets, because the state does not tell charges after a reset from charges before
   * it.
   */
  readonly notesResets: boolean
  /** Absent if its units cannot be leased. */
  readonly lease?: LeaseArithmetic

  /** The state of a key that was never used. */
  fresh(): State
  copy(state: State): State
  /**
   * The state as a list of numbers, for a store that keeps text. Absent if the state is a `row`, which is such a list.
   */
  pack?(state: Readonly<State>): number[]
  /** The state of `pack`, with nothing that another state shares. */
  unpack?(numbers: readonly number[]): State
  /**
   * True if nothing counts in the state at this time. Absent if even an empty state matters when the clock runs back.
   */
  isOver?(limit: Limit, state: Readonly<State>, nowMs: number): boolean

  /** Spends if the cost fits: a verdict that allows a cost above 0 has spent it. */
  consume(limit: Limit, state: State, nowMs: number, cost: number): Verdict
  /** Spends a cost above 0 even if it does not fit: charges a debt. */
  spend(limit: Limit, state: State, nowMs: number, cost: number): void
  /**
   * Gives back at most what is spent: a log its oldest units, a counter or bucket its newest. Records in `note` what a
   * later `giveBack` needs.
   */
  refund(limit: Limit, state: State, nowMs: number, cost: number, note: RefundNote): void
  /**
   * Gives back at most `units` of what one decision spent, dated at the moment of its charge, as far as they still
   * count. Keeps the invariant: whenever `consume` allows, the units charged in the window that ends now and not given
   * back, this decision included, are at most what the limit allows. In doubt it gives back nothing: too little keeps
   * the invariant, too much breaks it.
   */
  giveBack(limit: Limit, state: State, nowMs: number, units: number, receipt: Receipt, note: RefundNote): void

  /**
   * When `cost` units fit behind `ahead` units that are spent before them, in ms: 0 now, Infinity never. May spend from
   * the given state. Units above what fits at once take whole windows; a bucket goes on filling meanwhile. Never too
   * long; too short only where requests of different costs leave gaps.
   *
   * `waits`: the request waits in line. Behind others, a leaky bucket grants a waiter when it can leave at once, and a
   * newcomer only when the line is empty.
   */
  fitsAfterMs(limit: Limit, state: State, nowMs: number, ahead: number, cost: number, waits: boolean): number
  /**
   * How long a cost above `remaining` is refused without further traffic, ms. Absent, or undefined, where the
   * verdict does not determine it to the millisecond.
   */
  refusedAfterMs?(verdict: Verdict, cost: number): number | undefined
}

/**
 * `fitsAfterMs` where units above the quota take whole windows; `retryAfterMs` returns when up to a quota of units
 * fits.
 */
export function fitsAfterWindows(
  { quota, windowMs }: Limit,
  ahead: number,
  cost: number,
  retryAfterMs: (units: number) => number,
): number {
  if (cost > quota) return Number.POSITIVE_INFINITY
  const units = ahead + cost
  const windows = floorDiv(units - 1, quota)
  return retryAfterMs(units - windows * quota) + windows * windowMs
}

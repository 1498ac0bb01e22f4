import type { Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import { floorDiv } from './division.js'
import { newNote, type Receipt, type SettlementNote } from './settlement-note.js'

/** The first moment at which a cost fits, in ms from now. */
export interface Retry {
  readonly cost: number
  readonly afterMs: number
}

/**
 * Everything that depends on the algorithm of a limit. The arithmetic changes the state that it is given: a state kept in place costs
 * no garbage. It reads no clock.
 *
 * `nowMs` is whole milliseconds. A cost of 0 always fits and spends nothing. A time in the state that lies after `nowMs` (the
 * clock ran back) becomes `nowMs`, which is the only thing that a refusal may change in what is counted.
 */
export interface Arithmetic<State> {
  /** Two letters that stand for the algorithm in store keys, so that another algorithm under the same name starts anew. */
  readonly keySuffix: string
  /** The cost of a decision for Redis, in units of about 4 µs. */
  readonly redisWork: number
  /** Whether admitted requests have to wait: Redis then answers their delay too. */
  readonly shapes: boolean
  /** Whether a settlement has to know of a reset, because what is charged after it cannot be told from what was charged before. */
  readonly notesResets: boolean
  /** Whether a verdict does not tell when the units of several requests come back, so that `stateFrom` needs a `Retry` for each. */
  readonly needsRetries: boolean

  /** The state of a key that was never used. */
  fresh(): State
  copy(state: State): State
  /** The state as it is written to JSON: without what does not count any more. Absent where nothing of the kind is kept. */
  compact?(state: State): State
  /** True if nothing is left of the state at this time. Absent where even an empty state matters when the clock runs back. */
  isOver?(limit: Limit, state: Readonly<State>, nowMs: number): boolean

  /** Measures, and spends if it fits: a verdict that allows a cost above 0 has spent it. */
  consume(limit: Limit, state: State, nowMs: number, cost: number): Verdict
  /** Spends a cost above 0 whether it fits or not: the way to charge a debt. */
  spend(limit: Limit, state: State, nowMs: number, cost: number): void
  /**
   * Gives back at most what is spent: a log its oldest units, a counter or bucket its newest. Writes into `note` what a later
   * `giveBack` has to know.
   */
  refund(limit: Limit, state: State, nowMs: number, cost: number, note: SettlementNote): void
  /**
   * Gives back at most `units` of what one decision spent, at the moment it was charged, so far as they still count. Keeps the
   * invariant: whenever `consume` allows, what was charged in the window that ends now and was not given back, this decision
   * included, is at most what the limit allows. Does nothing in doubt: too little given back keeps the invariant, too much does not.
   */
  giveBack(limit: Limit, state: State, nowMs: number, units: number, receipt: Receipt, note: SettlementNote): void

  /**
   * When `cost` units fit behind `ahead` units that are spent before them, in ms: 0 now, Infinity never. May spend from the state that
   * it is given. Units above what fits at once take whole windows; a bucket goes on filling meanwhile. Never too long; too short only
   * where costs differ and leave gaps.
   *
   * `waits`: for a request that waits in line. Behind others a leaky bucket grants a waiter when it can leave at once, and a newcomer
   * when nobody waits any more.
   */
  fitsAfterMs(limit: Limit, state: State, nowMs: number, ahead: number, cost: number, waits: boolean): number
  /**
   * For how long a cost that the verdict leaves no room for is refused, with no further traffic, ms. Absent, or undefined, where the
   * verdict does not tell it to the millisecond.
   */
  refusedAfterMs?(verdict: Verdict, cost: number): number | undefined
  /** How many of the newest `cost` units still count when all are gone in `leftMs`. Absent where all of them count to the end. */
  stillCounted?(limit: Limit, cost: number, leftMs: number): number
  /**
   * A state that allows no more than the one that a store described: `verdict` is its answer with nothing spent, `retries` say when
   * larger and larger costs fit.
   */
  stateFrom(verdict: Verdict, retries: readonly Retry[], nowMs: number): State
}

/**
 * A verdict and the state that follows from it: after spending if it allows, else as it was (mended where a clock ran back);
 * undefined where nothing is left of it.
 */
interface Measurement<State> {
  readonly verdict: Verdict
  readonly next: State | undefined
}

/** The same arithmetic on copies: the given state stays as it is. `undefined` is the state of a key that was never used. */
export interface Algorithm<State> {
  /** Changes the state that it is given, and says what else depends on the algorithm. */
  readonly inPlace: Arithmetic<State>
  measure(limit: Limit, state: State | undefined, nowMs: number, cost: number): Measurement<State>
  spend(limit: Limit, state: State | undefined, nowMs: number, cost: number): State | undefined
  refund(limit: Limit, state: State | undefined, nowMs: number, cost: number, note?: SettlementNote): State | undefined
  /** See `Arithmetic`. */
  fitsAfterMs(
    limit: Limit,
    state: State | undefined,
    nowMs: number,
    ahead: number,
    cost: number,
    waits: boolean,
  ): number
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

    refund(limit, state, nowMs, cost, note = newNote()) {
      if (state === undefined || inPlace.isOver?.(limit, state, nowMs)) return undefined
      if (cost === 0) return state
      const next = own(state)
      inPlace.refund(limit, next, nowMs, cost, note)
      return next
    },

    fitsAfterMs: (limit, state, nowMs, ahead, cost, waits) =>
      inPlace.fitsAfterMs(limit, own(state), nowMs, ahead, cost, waits),
  }
}

export function rowAlgorithm<State>(row: Row<State>, inPlace: Arithmetic<State>): RowAlgorithm<State> {
  return { ...algorithm(inPlace), row }
}

/** `fitsAfterMs` where units above the quota take whole windows; `retryAfterMs` tells when so many units fit, at most the quota. */
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

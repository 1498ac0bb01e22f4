import type { Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'

/** What a decision knows of the units that it spent under one limit. */
export interface Receipt {
  /** When they were charged, in whole ms by the clock of the store that charged them. */
  readonly chargedAt: number
  /** How many units. */
  readonly cost: number
  /** Of the verdict that allowed them. */
  readonly remaining: number
  readonly resetAfterMs: number
}

/**
 * What a key's state alone does not tell about earlier charges, once units were refunded or settled. Without it an earlier
 * decision could give back what others have spent since.
 */
export interface SettlementNote {
  /** The last refund or reset, ms; −Infinity: none. */
  cutAt: number
  /** How many units were refunded of what was charged until `cutAt`: of one decision's own that many may be gone already. */
  refunded: number
  /** Buckets: the level just after that. */
  left: number
  /** Token bucket: units × ms that were given back out of the middle. See `token-bucket.ts`. */
  readonly gaps: Gap[]
}

/** `size` was given back; those charged from `from` to `to` have regained theirs so much earlier. */
export interface Gap {
  readonly from: number
  readonly to: number
  readonly size: number
}

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
  /** Whether a settlement has to know of a reset, because what is charged after it cannot be told from what was charged before. */
  readonly notesResets?: true
  /** Takes bookings, the newest units, out again. Present where there is `book`. */
  unbook?(limit: Limit, state: State, nowMs: number, cost: number): void
  /**
   * Gives back at most what is spent: a log its oldest units, a counter or bucket its newest. Writes down in `note` what a later
   * `giveBack` has to know.
   */
  refund(limit: Limit, state: State, nowMs: number, cost: number, note: SettlementNote): void
  /**
   * Gives back at most `units` of what one decision spent, at the moment it was charged, so far as they still count. Keeps the
   * invariant: whenever `consume` allows, what was charged in the window that ends now and was not given back, this decision
   * included, is at most what the limit allows. Does nothing in doubt: too little given back keeps the invariant, too much does not.
   */
  giveBack(limit: Limit, state: State, nowMs: number, units: number, receipt: Receipt, note: SettlementNote): void
}

/** The note of a key that was reset: nothing that was charged before is left. */
export function resetNote(nowMs: number): SettlementNote {
  // What is charged in the same ms is taken to come after it.
  return { cutAt: nowMs - 1, refunded: Number.MAX_SAFE_INTEGER, left: 0, gaps: [] }
}

export function newNote(): SettlementNote {
  return { cutAt: Number.NEGATIVE_INFINITY, refunded: 0, left: 0, gaps: [] }
}

/** How many units of a decision's own certainly still count, after refunds. */
export function ownLeft({ chargedAt, cost }: Receipt, { cutAt, refunded }: SettlementNote): number {
  return chargedAt <= cutAt ? Math.max(0, cost - refunded) : cost
}

/** Notes a refund of so many units that were spent; `continues` if earlier ones still matter. */
export function noteRefund(note: SettlementNote, nowMs: number, units: number, continues: boolean): void {
  if (units === 0) return
  note.refunded = Math.min(Number.MAX_SAFE_INTEGER, continues ? note.refunded + units : units)
  note.cutAt = nowMs
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
  unbook?(limit: Limit, state: State | undefined, nowMs: number, cost: number): State | undefined
  refund(limit: Limit, state: State | undefined, nowMs: number, cost: number, note?: SettlementNote): State | undefined
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

    unbook:
      inPlace.unbook &&
      ((limit, state, nowMs, cost) => {
        if (state === undefined || inPlace.isOver?.(limit, state, nowMs)) return undefined
        const next = own(state)
        inPlace.unbook!(limit, next, nowMs, cost)
        return next
      }),

    refund(limit, state, nowMs, cost, note = newNote()) {
      if (state === undefined || inPlace.isOver?.(limit, state, nowMs)) return undefined
      if (cost === 0) return state
      const next = own(state)
      inPlace.refund(limit, next, nowMs, cost, note)
      return next
    },
  }
}

export function rowAlgorithm<State>(row: Row<State>, inPlace: Arithmetic<State>): RowAlgorithm<State> {
  return { ...algorithm(inPlace), row }
}

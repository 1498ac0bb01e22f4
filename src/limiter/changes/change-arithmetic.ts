import type { Limit } from '../core/limit.js'
import type { Receipt, RefundNote } from './refund-note.js'

/** How what was spent under a limit is changed later. As in lua/limiter/changes/. Changes the state in place. */
export interface ChangeArithmetic<State> {
  /**
   * Whether settlements must record resets, because the state does not tell charges after a reset from charges before
   * it.
   */
  readonly notesResets: boolean
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
}

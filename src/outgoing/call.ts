import type { Account, Places } from './account.js'

/** What a call costs of one budget. */
interface Charge {
  readonly account: Account
  readonly units: number
}

/** A call that wants to leave: it takes from all budgets, and a place of all partners, or waits. */
export interface Call {
  /** Calls of one kind take from the same budgets and places: they leave in order. */
  readonly kind: string
  /** The names of its partners that have limits, widest first. */
  readonly partners: readonly string[]
  readonly charges: readonly Charge[]
  readonly places: readonly Places[]
  readonly priority: number
  /** Its place among all calls, which it keeps when it waits again: it rises with each call. */
  readonly order: number
  /**
   * Its turn among the calls of all processes: when it came, by `performance.now()`, until it leaves in the turn of a
   * call that it passes; that one has its turn from then on.
   */
  turnAt: number
  /** It was allowed to leave once, and was sent too late. */
  wasLate?: boolean
  /** Over Redis, which has let it leave: this process has no units for it before this moment. */
  notBefore?: number
  /**
   * In how many ms the pause ends that one of its partners has asked for; 0: there is none. Looks, from time to time,
   * whether another process has ended it.
   */
  pauseMs(): number
}

import type { Verdict } from '../core/decision.js'
import type { Charge } from '../stores/store.js'
import type { Patience } from '../waiting/wait.js'

/** A turn that has come: what was spent, and when. */
export interface Turn {
  readonly verdicts: readonly Verdict[]
  /** By the clock of the store, ms. */
  readonly at: number
}

/** The lines in which a store lets requests wait, first come, first served. */
export interface LineTurns {
  /**
   * Waits for a turn. Rejects with `TimeoutError` (at once if the turn would come too late), the signal's reason, `CostError` if it can
   * never come, and `StoreError`. Undefined where the store keeps no line for such charges.
   */
  wait(charges: readonly Charge[], cost: number, patience: Patience): Promise<Turn> | undefined
  /** Something may have become free for those who wait. Never rejects. */
  wake(charges: readonly Charge[]): void
  /** Rejects all of this limiter who wait; resolves when they have left their lines. `ownsStore`: nobody else uses the store. */
  close(error: Error, ownsStore: boolean): Promise<void>
}

/** The verdict of a turn that has come. */
export function turnVerdict({ limit }: Charge, remaining: number, resetAfterMs: number): Verdict {
  return { limit, allowed: true, remaining, retryAfterMs: 0, resetAfterMs, delayMs: 0 }
}

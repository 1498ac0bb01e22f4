import type { Verdict } from '../core/decision.js'
import type { Charge } from '../stores/store.js'
import type { Outage } from '../waiting/line-user.js'
import type { Patience } from '../waiting/wait.js'

/** A grant of a waiting line: the verdicts, and when the units were spent. */
export interface Turn {
  readonly verdicts: readonly Verdict[]
  /** By the clock of the store, ms. */
  readonly at: number
}

/** The waiting lines of a store, first come, first served. */
export interface StoreLines {
  /**
   * Waits for a grant. Rejects with `TimeoutError` (at once if the grant would come too late), the signal's reason, `CostError` if the cost
   * can never fit, and `StoreError`. `outage`: what the waiter does while the store fails. Undefined if the store keeps no line for these charges.
   */
  wait(charges: readonly Charge[], cost: number, patience: Patience, outage?: Outage): Promise<Turn> | undefined
  /** Units may have become free: wakes the waiters of these charges. Absent if the store does so itself. */
  wake?(charges: readonly Charge[]): void
  /** Rejects all waiters of this limiter; resolves when they have left their lines. `ownsStore`: no other limiter uses the store. */
  close(error: Error, ownsStore: boolean): Promise<void>
}

/** The verdict of a grant. */
export function turnVerdict({ limit }: Charge, remaining: number, resetAfterMs: number): Verdict {
  return { limit, allowed: true, remaining, retryAfterMs: 0, resetAfterMs, delayMs: 0 }
}

import type { Decision } from '../core/decision.js'
import { StoreError } from '../core/errors.js'
import type { Charge } from '../stores/store.js'
import type { Patience } from '../waiting/wait.js'
import type { Decider } from './decider.js'
import type { StoreFailure } from './fallback.js'
import type { GuardedStore } from './guarded-store.js'
import type { LimiterKey } from './key.js'
import { LocalLines } from './local-lines.js'
import type { StoreLines } from './store-lines.js'
import { storeLinesOf } from './store-lines-of.js'

/** The waiting lines of one limiter: those of the store and, if it has none or during an outage, those of this process. */
export class LimiterLines {
  /** Undefined if the store has no lines. */
  readonly #inStore: StoreLines | undefined
  readonly #local: LocalLines
  readonly #onStoreFailure: StoreFailure
  #closed = false

  constructor(
    guarded: GuardedStore,
    onStoreFailure: StoreFailure,
    ask: (key: LimiterKey, cost: number) => Promise<Decision>,
    giveBack: (decision: Decision) => Promise<void>,
  ) {
    this.#inStore = storeLinesOf(guarded.store, guarded)
    this.#local = new LocalLines(ask, giveBack)
    this.#onStoreFailure = onStoreFailure
  }

  /** Waits for a turn, as documented at `RateLimiter.acquire`. While the store fails, the failure policy decides. */
  async wait(decider: Decider, key: LimiterKey, cost: number, patience: Patience): Promise<Decision> {
    const askedAt = performance.now()
    const charges = decider.chargesOf(key)
    try {
      const turn = this.#inStore?.wait(charges, cost, patience)
      if (turn === undefined) return await this.#local.wait(key, cost, patience)
      const { verdicts, at } = await turn
      return decider.granted(key, charges, cost, verdicts, at)
    } catch (error) {
      if (!(error instanceof StoreError) || this.#onStoreFailure === 'closed' || this.#closed) throw error
      const timeoutMs = Math.max(0, patience.timeoutMs - (performance.now() - askedAt))
      return this.#local.wait(key, cost, { ...patience, timeoutMs })
    }
  }

  /** Units may have become free: wakes the waiters of these charges of the key. */
  wake(key: LimiterKey, charges: readonly Charge[]): void {
    this.#local.wake(key)
    this.#inStore?.wake?.(charges)
  }

  /** Rejects all waiters in the store's lines; resolves when they have left them. `ownsStore`: no other limiter uses the store. */
  async close(ownsStore: boolean): Promise<void> {
    this.#closed = true
    await this.#inStore?.close(new StoreError('the limiter was closed while this waited'), ownsStore)
  }
}

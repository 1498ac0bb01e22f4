import { AskAgainLines } from './ask-again-lines.js'
import { timersLast } from './core/clock.js'
import type { Decision } from './core/decision.js'
import { StoreError } from './core/errors.js'
import type { Patience } from './core/wait.js'
import type { Decider } from './decider.js'
import type { StoreFailure } from './fallback.js'
import type { StoreGuard } from './guarded-policy.js'
import type { LimiterKey } from './key.js'
import type { Charge } from './store.js'
import type { Outage, StoreLines } from './store-lines.js'

/**
 * The waiting lines of one limiter: those of the store and, if it has none or during an outage, those of this process.
 */
export class LimiterLines {
  /** Undefined if the store has no lines. */
  readonly #inStore: StoreLines | undefined
  readonly #local: AskAgainLines
  readonly #onStoreFailure: StoreFailure
  #closed = false

  constructor(
    guard: StoreGuard,
    onStoreFailure: StoreFailure,
    ask: (key: LimiterKey, cost: number) => Promise<Decision>,
    giveBack: (decision: Decision) => Promise<void>,
  ) {
    // The timer of a line would belong to the request of one of its waiters.
    this.#inStore = timersLast ? guard.counts.lines?.(guard) : undefined
    this.#local = new AskAgainLines(ask, giveBack)
    this.#onStoreFailure = onStoreFailure
  }

  /**
   * Waits for a turn, as documented at `RateLimiter.acquire`. While the store fails, the waiter keeps its place in the
   * store's line, and the failure policy may serve it meanwhile.
   */
  async wait(
    decider: Decider,
    key: LimiterKey,
    charges: readonly Charge[],
    cost: number,
    patience: Patience,
  ): Promise<Decision> {
    const askedAt = performance.now()
    const fails = this.#onStoreFailure === 'closed'
    const left = () => Math.max(0, patience.timeoutMs - (performance.now() - askedAt))
    const outage = fails
      ? undefined
      : new WaitHere(signal => this.#local.wait(charges, key, cost, { timeoutMs: left(), signal }))
    try {
      const turn = this.#inStore?.wait(charges, cost, patience, outage)
      if (turn === undefined) return await this.#local.wait(charges, key, cost, patience)
      const { verdicts, at } = await turn
      return decider.granted(key, cost, verdicts, at)
    } catch (error) {
      if (error instanceof ServedHere) return error.decision
      if (!(error instanceof StoreError) || fails || this.#closed) throw error
      // An error in the request itself, like a key of another type: no line of the store will take it.
      return await this.#local.wait(charges, key, cost, { ...patience, timeoutMs: left() })
    } finally {
      outage?.ends()
    }
  }

  /** Units may have become free: wakes the waiters of these charges. */
  wake(charges: readonly Charge[]): void {
    this.#local.wake(charges)
    this.#inStore?.wake?.(charges)
  }

  /**
   * Rejects all waiters; resolves when they have left the lines of the store. `ownsStore`: no other limiter uses the
   * store.
   */
  async close(ownsStore: boolean): Promise<void> {
    this.#closed = true
    const error = new StoreError('the limiter was closed while this waited')
    this.#local.close(error)
    await this.#inStore?.close(error, ownsStore)
  }
}

/** Ends a wait in the store's line: the failure policy has granted the request meanwhile. */
class ServedHere extends Error {
  constructor(readonly decision: Decision) {
    super('served in this process')
  }
}

/** The wait in this process while the store fails. */
class WaitHere implements Outage {
  #control: AbortController | undefined

  constructor(readonly wait: (signal: AbortSignal) => Promise<Decision>) {}

  begins(_: unknown, leave: (error: unknown) => void): void {
    const control = new AbortController()
    this.#control = control
    this.wait(control.signal).then(
      decision => leave(new ServedHere(decision)),
      error => {
        if (!control.signal.aborted) leave(error)
      },
    )
  }

  ends(): void {
    this.#control?.abort(new StoreError('the store answers again'))
    this.#control = undefined
  }
}

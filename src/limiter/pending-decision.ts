import type { Pending } from '../core/deadline.js'
import type { Verdict } from '../core/decision.js'
import type { StoreError } from '../core/errors.js'
import type { Asker } from '../stores/store.js'

/** Who watches over inquiries: holds them to a deadline, and counts how they end. */
export interface DecisionWatch {
  /** True if this answer still counts. */
  answered(inquiry: PendingDecision, answeredAt: number): boolean
  /** True if this failure still counts. */
  failed(inquiry: PendingDecision): boolean
  /** Counts a failure, and puts it into words. */
  failure(cause: unknown): StoreError
}

/**
 * A question to a store that answers later: what a promise would be, without its price. Under load the promises of a decision cost
 * more than all else that a client does for it.
 */
export class PendingDecision implements Asker, Pending {
  endsAt = 0
  settled = false
  #given: ((verdicts: readonly Verdict[], answeredAt: number) => void) | undefined
  #failed: ((error: StoreError) => void) | undefined
  #failure: StoreError | undefined

  constructor(
    readonly desk: DecisionWatch,
    /** Whether a breaker was open when it was asked. */
    readonly isProbe: boolean,
  ) {}

  /** One that nobody was asked. */
  static refused(desk: DecisionWatch, failure: StoreError): PendingDecision {
    const inquiry = new PendingDecision(desk, false)
    inquiry.settled = true
    inquiry.#failure = failure
    return inquiry
  }

  /** Tells the end, once: at once if it has failed already. `answeredAt` is by `performance.now()`. */
  listen(given: (verdicts: readonly Verdict[], answeredAt: number) => void, failed: (error: StoreError) => void): void {
    if (this.#failure !== undefined) {
      failed(this.#failure)
      return
    }
    this.#given = given
    this.#failed = failed
  }

  resolve(verdicts: readonly Verdict[], answeredAt: number): void {
    if (this.desk.answered(this, answeredAt)) this.#given?.(verdicts, answeredAt)
  }

  reject(cause: unknown): void {
    if (this.desk.failed(this)) this.expire(cause)
  }

  expire(cause: unknown): void {
    this.#failure = this.desk.failure(cause)
    this.#failed?.(this.#failure)
  }
}

import type { Deadline, Pending } from '../core/clock.js'
import type { Verdict } from '../core/decision.js'
import type { StoreError } from '../core/errors.js'
import type { Asker, ChargedAt } from '../stores/store.js'
import type { CircuitBreaker } from './breaker.js'

type Answered = Asker['resolve']

/** Holds pending decisions to a deadline, and counts how they end. */
export interface DecisionWatch {
  /** True if this answer still counts. */
  answered(pending: PendingDecision, answeredAt: number): boolean
  /** True if this failure still counts. */
  failed(pending: PendingDecision): boolean
  /** Counts a failure and returns its error. */
  failure(cause: unknown, breaker: CircuitBreaker): StoreError
  /** The decision continues at another server, under its breaker; the server before has answered. */
  next(pending: PendingDecision, server: string): void
}

/**
 * A decision that a store returns later, like a promise but cheaper: under load, promises would cost more than
 * all other work of the client for the decision.
 */
export class PendingDecision implements Asker, Pending {
  endsAt = 0
  settled = false
  #given: Answered | undefined
  #failed: ((error: StoreError) => void) | undefined
  #failure: StoreError | undefined

  constructor(
    readonly watch: DecisionWatch,
    /** The breaker of the server that is asked now. */
    public breaker: CircuitBreaker,
    /** Whether this breaker was open when the server was asked. */
    public isProbe: boolean,
    readonly deadline: Deadline,
  ) {}

  /** A decision that is refused without asking a server. */
  static refused(
    watch: DecisionWatch,
    breaker: CircuitBreaker,
    deadline: Deadline,
    failure: StoreError,
  ): PendingDecision {
    const pending = new PendingDecision(watch, breaker, false, deadline)
    pending.settled = true
    pending.#failure = failure
    return pending
  }

  /** Calls one of the listeners once: immediately if the decision has failed already. */
  listen(given: Answered, failed: (error: StoreError) => void): void {
    if (this.#failure !== undefined) {
      failed(this.#failure)
      return
    }
    this.#given = given
    this.#failed = failed
  }

  asks(server: string): void {
    if (!this.settled) this.watch.next(this, server)
  }

  resolve(verdicts: readonly Verdict[], answeredAt: number, chargedAt?: ChargedAt, lease?: object): void {
    if (this.watch.answered(this, answeredAt)) this.#given?.(verdicts, answeredAt, chargedAt, lease)
  }

  reject(cause: unknown): void {
    if (this.watch.failed(this)) this.#fail(cause)
  }

  expire(error: StoreError): void {
    if (this.isProbe) this.breaker.silence()
    this.#fail(error)
  }

  late(): void {
    this.breaker.probeNow()
  }

  #fail(cause: unknown): void {
    this.#failure = this.watch.failure(cause, this.breaker)
    this.#failed?.(this.#failure)
  }
}

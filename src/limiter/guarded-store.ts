import { Deadline } from '../core/deadline.js'
import type { Verdict } from '../core/decision.js'
import { StoreError, shown } from '../core/errors.js'
import { notify, type Observer } from '../core/observer.js'
import { isAskable } from '../stores/redis/redis-store.js'
import type { Booking, Charge, Store } from '../stores/store.js'
import { CircuitBreaker } from './circuit-breaker.js'
import { type DecisionWatch, PendingDecision } from './pending-decision.js'

type Answer<T> = Promise<T> | T

const REFUSED = new StoreError('the store failed too often of late and is not asked')

/**
 * A store behind a deadline and a breaker: every call ends in time, with an answer or with `StoreError`. Limiters over one store
 * share its breaker.
 */
export class GuardedStore implements DecisionWatch {
  readonly #breaker: CircuitBreaker
  readonly #deadline: Deadline

  constructor(
    readonly store: Store,
    deadlineMs: number,
    readonly observer: Observer | undefined,
  ) {
    this.#breaker = breakerOf(store)
    this.#deadline = new Deadline(
      deadlineMs,
      () => this.#breaker.stir(),
      () => this.#breaker.silence(),
    )
  }

  /** A decision: the verdicts at once from a store that is synchronous, else an inquiry after them. */
  decide(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number): PendingDecision | readonly Verdict[] {
    const { store } = this
    const probing = this.#breaker.isOpen
    if (probing && this.#breaker.passage(performance.now()) === 'refuse') return PendingDecision.refused(this, REFUSED)
    const inquiry = new PendingDecision(this, probing)
    try {
      if (isAskable(store, verb)) {
        this.#deadline.start(inquiry)
        store.ask(verb, charges, cost, inquiry)
        return inquiry
      }
      const answer = verb === 'consume' ? store.consume(charges, cost) : store.peek(charges, cost)
      if (!isPromise(answer)) return this.#given(checked(answer, charges.length))
      this.#deadline.start(inquiry)
      // Through a promise of our own: what is none may answer at once, before anyone listens.
      Promise.resolve(answer)
        .then(verdicts => checked(verdicts, charges.length))
        .then(
          verdicts => inquiry.resolve(verdicts, performance.now()),
          error => inquiry.reject(error),
        )
    } catch (error) {
      inquiry.reject(error)
    }
    return inquiry
  }

  /** As `decide`, for one who can wait for a promise. */
  async verdicts(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    const answer = this.decide(verb, charges, cost)
    return answer instanceof PendingDecision ? new Promise((resolve, reject) => answer.listen(resolve, reject)) : answer
  }

  answered(inquiry: PendingDecision, answeredAt: number): boolean {
    if (!this.#deadline.answered(inquiry)) return false
    this.#succeeded(answeredAt)
    return true
  }

  failed(inquiry: PendingDecision): boolean {
    // A probe's refusal counts however late it is.
    if (inquiry.isProbe) this.#breaker.hear(performance.now())
    return this.#deadline.failed(inquiry)
  }

  failure(cause: unknown): StoreError {
    const error =
      cause instanceof StoreError
        ? cause
        : new StoreError(`the store failed: ${(cause as Error)?.message ?? shown(cause)}`, { cause })
    // Counted before it is told: an observer that asks again at once would never get to an open breaker.
    const opened = this.#breaker.fail(performance.now())
    notify(this.observer, 'storeFailed', error)
    if (opened) notify(this.observer, 'breakerOpened', error)
    return error
  }

  /** A booking. One that is answered too late is given back. */
  async book(ask: (store: Store) => Answer<Booking>): Promise<Booking> {
    if (this.#breaker.isOpen && this.#breaker.passage(performance.now()) === 'refuse') throw REFUSED
    let answer: Answer<Booking> | undefined
    try {
      return await this.#watch(store => {
        answer = ask(store)
        return answer
      })
    } catch (error) {
      Promise.resolve(answer)
        .then(booking => booking?.cancel())
        .catch(() => {})
      throw error
    }
  }

  /** Anything else: asked even of a store that fails, because nobody can answer in its place. */
  async act(ask: (store: Store) => Answer<void>): Promise<void> {
    await this.#watch(ask)
  }

  #watch<T>(ask: (store: Store) => Answer<T>): Answer<T> {
    let answer: Answer<T>
    try {
      answer = ask(this.store)
    } catch (error) {
      return Promise.reject(this.failure(error))
    }
    return isPromise(answer) ? this.#hold(answer) : this.#given(answer)
  }

  #given<T>(value: T): T {
    if (this.#breaker.isOpen) this.#succeeded(performance.now())
    return value
  }

  #hold<T>(answer: Promise<T>): Promise<T> {
    // A probe's refusal counts however late it is.
    if (this.#breaker.isOpen) answer.catch(() => this.#breaker.hear(performance.now()))
    return this.#deadline.hold(answer).then(
      value => {
        this.#succeeded(performance.now())
        return value
      },
      error => {
        throw this.failure(error)
      },
    )
  }

  #succeeded(at: number): void {
    if (this.#breaker.succeed(at)) notify(this.observer, 'breakerClosed')
  }
}

/** Stores are written by others, too: what is no answer has to count as a failure here, not as a fault of the limiter. */
function checked(verdicts: readonly Verdict[], count: number): readonly Verdict[] {
  let valid = Array.isArray(verdicts) && verdicts.length === count
  for (let i = 0; valid && i < count; i++) valid = typeof verdicts[i]?.allowed === 'boolean'
  if (valid) return verdicts
  throw new StoreError(`the store answered ${shown(verdicts)}, expected a verdict for each of ${count} charges`)
}

const BREAKERS = new WeakMap<Store, CircuitBreaker>()

function breakerOf(store: Store): CircuitBreaker {
  let breaker = BREAKERS.get(store)
  if (breaker === undefined) {
    breaker = new CircuitBreaker()
    BREAKERS.set(store, breaker)
  }
  return breaker
}

export function isPromise<T>(value: Answer<T>): value is Promise<T> {
  return typeof (value as Promise<T> | undefined)?.then === 'function'
}

import { AnswerTimes, type CircuitBreaker, CircuitBreakers } from './breaker.js'
import { Deadline, type Pending } from './core/clock.js'
import { SpillwayError, StoreError, shown } from './core/errors.js'
import { notify, type Observer } from './core/observer.js'
import type { OutageWarnings } from './core/warnings.js'
import type { Connecting } from './port.js'

/** The error of calls that are not made while the breaker is open. */
export const REFUSED = new StoreError('the store failed too often of late and is not asked', { settled: false })

/** What a guard may have beside its deadline. */
interface GuardedParts {
  /** Default: a breaker of its own. */
  readonly breakers?: CircuitBreakers | undefined
  readonly observer?: Observer | undefined
  /** The process warnings of an outage, where there is no observer. */
  readonly warnings?: OutageWarnings | undefined
  readonly connecting?: Connecting | undefined
  /** The error of a connection that is lost: nothing is asked meanwhile. */
  readonly lost?: () => StoreError | undefined
}

/**
 * A call that a guard watches, with callbacks instead of a promise: under load, promises would cost more than all other
 * work of the client for a decision.
 */
export abstract class GuardedCall implements Pending {
  startedAt = 0
  endsAt = 0
  settled = false
  /** The breaker of the server that is asked now. Of several servers, it is set before the call is made. */
  breaker: CircuitBreaker
  /** The one in which `Guarded.start` has put it. */
  deadline: Deadline

  constructor(readonly guarded: Guarded) {
    this.breaker = guarded.breakers.only as CircuitBreaker
    this.deadline = guarded.deadline
  }

  /** Called once, unless the call was answered in time. */
  abstract fail(error: StoreError): void

  reject(cause: unknown): void {
    if (this.guarded.failed(this, cause)) this.fail(this.guarded.failure(cause, this.breaker))
  }

  expire(error: StoreError): void {
    this.breaker.unanswered()
    this.fail(this.guarded.failure(error, this.breaker))
  }

  late(): void {
    this.breaker.answeredLate()
  }
}

class HeldCall extends GuardedCall {
  constructor(
    guarded: Guarded,
    readonly fail: (error: StoreError) => void,
  ) {
    super(guarded)
  }
}

/**
 * Guards calls to a store or a server: each ends by a deadline, a breaker stops them while too many fail, and the
 * observer, or process warnings, tell of answers, failures and outages.
 */
export class Guarded {
  readonly breakers: CircuitBreakers
  readonly #observer: Observer | undefined
  readonly #warnings: OutageWarnings | undefined
  readonly #times: AnswerTimes
  readonly #lost: (() => StoreError | undefined) | undefined
  readonly #connecting: Connecting | undefined
  readonly deadline: Deadline
  /** For calls to a server that has not answered this process yet: undefined once it has. */
  #first: Deadline | undefined

  constructor(
    readonly deadlineMs: number,
    { breakers = new CircuitBreakers(), observer, warnings, connecting, lost }: GuardedParts = {},
  ) {
    this.breakers = breakers
    this.#observer = observer
    this.#warnings = warnings
    this.#times = new AnswerTimes(observer)
    this.#lost = lost
    this.#connecting = connecting
    this.deadline = new Deadline(deadlineMs)
    if (connecting !== undefined) this.#first = new Deadline(deadlineMs)
    if (observer !== undefined) breakers.observers.join(observer)
  }

  /** Starts the deadline of a call that is made now. */
  start(call: GuardedCall): void {
    const until = this.connectsUntil()
    if (until > 0 && this.#first !== undefined) call.deadline = this.#first
    call.deadline.start(call, until)
  }

  /**
   * No call ends before this moment, by `performance.now()`, because the server has not answered this process yet; 0
   * without such a moment.
   */
  connectsUntil(): number {
    return this.#first === undefined ? 0 : (this.#connecting?.connectsUntil() ?? 0)
  }

  /** True if there is no connection, or if the last call failed. */
  get failing(): boolean {
    return this.breakers.only?.hasFailed || this.#lost?.() !== undefined
  }

  /** Whether a call may be made now: while the breaker is open, only an occasional probe. */
  mayAsk(breaker = this.breakers.only as CircuitBreaker): boolean {
    const lost = this.#lost?.()
    if (lost === undefined && breaker.admits(performance.now())) return true
    if (lost !== undefined) notify(this.#observer, 'storeFailed', lost)
    this.refuse(lost)
    return false
  }

  /** A call is not made. */
  refuse(error = REFUSED): void {
    this.#warnings?.failed(error)
  }

  /**
   * Settles as the call does; rejects with `StoreError` if the server fails, or does not answer within the deadline. An
   * error of another kind, like `CostError`, says nothing of the server.
   */
  hold<T>(answer: Promise<T>, breaker = this.breakers.only as CircuitBreaker): Promise<T> {
    return new Promise((resolve, reject) => {
      const call = new HeldCall(this, reject)
      call.breaker = breaker
      this.start(call)
      answer.then(
        value => {
          if (this.answered(call, performance.now(), 0)) resolve(value)
        },
        error => {
          if (!(error instanceof SpillwayError) || error instanceof StoreError) call.reject(error)
          else if (call.deadline.failed(call)) reject(error)
        },
      )
    })
  }

  /**
   * True if this answer came in time and counts. `decisions`: how many it has decided. `isAtOnce`: nobody waited for
   * it, so that its time is not reported.
   */
  answered(call: GuardedCall, answeredAt: number, decisions: 0 | 1, isAtOnce = false): boolean {
    if (!call.deadline.answered(call)) return false
    this.#first = undefined
    if (!isAtOnce) this.#times.answered(call.startedAt, answeredAt, decisions)
    this.succeeded(call.breaker, answeredAt)
    return true
  }

  /** True if this failure came in time and counts. */
  failed(call: GuardedCall, cause: unknown): boolean {
    // A refusal counts however late it is: whoever refuses can be reached.
    if (!isTimeout(cause)) call.breaker.refused(performance.now())
    else if (!call.settled) call.breaker.unanswered()
    return call.deadline.failed(call)
  }

  /** The call continues at another server; the one before has answered. */
  next(call: GuardedCall, server: string): void {
    const breaker = this.breakers.of(server)
    if (breaker === call.breaker) return
    this.succeeded(call.breaker, performance.now())
    call.breaker = breaker
  }

  /** Counts an answer without a deadline. `askedAt` is when it was asked for. */
  noteAnswer(breaker: CircuitBreaker, askedAt: number): void {
    const answeredAt = performance.now()
    this.#times.answered(askedAt, answeredAt, 0)
    this.succeeded(breaker, answeredAt)
  }

  succeeded(breaker: CircuitBreaker, at: number): void {
    this.#warnings?.answered()
    if (breaker.succeed(at)) this.breakers.observers.closed(breaker)
  }

  /** Counts a failure and returns its error. */
  failure(cause: unknown, breaker: CircuitBreaker): StoreError {
    const error =
      cause instanceof StoreError
        ? cause
        : new StoreError(`the store failed: ${(cause as Error)?.message ?? shown(cause)}`, { cause })
    // Counted before the observer is called: an observer that asks again at once must find the breaker open.
    const opened = breaker.fail(performance.now())
    notify(this.#observer, 'storeFailed', error)
    this.#warnings?.failed(error, opened)
    if (opened) this.breakers.observers.opened(breaker, error)
    return error
  }
}

/** A client that ends a call by a deadline of its own rejects with an error of this name. */
function isTimeout(error: unknown): boolean {
  const { name, cause } = (error ?? {}) as Error
  return name === 'TimeoutError' || (cause as Error | undefined)?.name === 'TimeoutError'
}

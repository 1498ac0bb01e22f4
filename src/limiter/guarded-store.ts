import { Deadline, type PendingOutcome } from '../core/clock.js'
import type { Verdict } from '../core/decision.js'
import { StoreError, shown } from '../core/errors.js'
import { notify, type Observer } from '../core/observer.js'
import type { LineGuard } from '../stores/lines.js'
import type { RedisStore } from '../stores/redis/redis-store.js'
import { type Charge, IN_REDIS, type Store } from '../stores/store.js'
import { AnswerWatch, type CircuitBreaker, CircuitBreakers } from './breaker.js'
import type { PartialGrant } from './partial-grant.js'
import { type DecisionWatch, PendingDecision } from './pending-decision.js'

type Answer<T> = Promise<T> | T

const REFUSED = new StoreError('the store failed too often of late and is not asked')

/** As `instanceof RedisStore`, which would pull the code of that class, and the scripts, into programs that keep their counts elsewhere. */
export function isRedisStore(store: unknown): store is RedisStore {
  return typeof store === 'object' && store !== null && IN_REDIS in store
}

/** Whether a store is a `RedisStore` with its original `consume` or `peek`: users replace methods, to spy on them or to make them fail. */
export function isAskable(store: Store, verb: 'consume' | 'peek'): store is RedisStore {
  return isRedisStore(store) && store.isAskable(verb)
}

/** A store behind a deadline and circuit breakers: every call ends in time, with an answer or with `StoreError`. */
export class GuardedStore implements DecisionWatch, LineGuard {
  readonly #breakers: CircuitBreakers
  readonly #usual: Deadline
  /** For calls to a store that has not answered this process yet. */
  readonly #first: Deadline | undefined
  readonly #answers: AnswerWatch | undefined

  constructor(
    readonly store: Store,
    deadlineMs: number,
    readonly observer: Observer | undefined,
  ) {
    this.#breakers = CircuitBreakers.of(store, deadlineMs)
    this.#usual = new Deadline(deadlineMs)
    if (isRedisStore(store) && store.connectDeadlineMs > deadlineMs) {
      this.#first = new Deadline(store.connectDeadlineMs)
    }
    this.#answers = AnswerWatch.of(observer)
    if (observer !== undefined) this.#breakers.audience.join(observer)
  }

  /** How long a call that is made now may take. */
  get deadlineMs(): number {
    return this.#deadline.ms
  }

  get #deadline(): Deadline {
    return this.#first !== undefined && (this.store as RedisStore).isFirst ? this.#first : this.#usual
  }

  /** A decision: the verdicts if the store is synchronous, else a pending decision. `grant`: takes as much as fits. */
  decide(
    verb: 'consume' | 'peek',
    charges: readonly Charge[],
    cost: number,
    grant?: PartialGrant,
  ): PendingDecision | readonly Verdict[] {
    const { store } = this
    const breaker = this.#breakers.ofCharge(charges[0])
    const isProbe = breaker.isOpen
    const deadline = this.#deadline
    const now = performance.now()
    if (!breaker.admits(now) || (charges.length > 1 && this.#isClosedToRest(charges, breaker))) {
      return PendingDecision.refused(this, breaker, deadline, REFUSED)
    }
    const pending = new PendingDecision(this, breaker, isProbe, deadline)
    try {
      if (isAskable(store, verb)) {
        deadline.start(pending)
        if (grant !== undefined) grant.ask(store, charges, pending)
        else store.ask(verb, charges, cost, pending)
        return pending
      }
      const ask = (units: number) => (verb === 'consume' ? store.consume(charges, units) : store.peek(charges, units))
      const answer = grant === undefined ? ask(cost) : grant.of(ask)
      if (!isPromise(answer)) {
        const verdicts = checked(answer, charges.length)
        this.#succeeded(breaker, now)
        return verdicts
      }
      deadline.start(pending)
      // Wrapped in a promise: a thenable may answer at once, before a listener is attached.
      Promise.resolve(answer)
        .then(verdicts => checked(verdicts, charges.length))
        .then(
          verdicts => pending.resolve(verdicts, performance.now()),
          error => pending.reject(error),
        )
    } catch (error) {
      pending.reject(error)
    }
    return pending
  }

  /** As `decide`, but always a promise. */
  async verdicts(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    const answer = this.decide(verb, charges, cost)
    return answer instanceof PendingDecision ? new Promise((resolve, reject) => answer.listen(resolve, reject)) : answer
  }

  answered(pending: PendingDecision, answeredAt: number): boolean {
    const { deadline } = pending
    if (!deadline.answered(pending)) return false
    this.#answers?.decided(pending.endsAt - deadline.ms, answeredAt)
    this.#succeeded(pending.breaker, answeredAt)
    return true
  }

  failed(pending: PendingDecision): boolean {
    // A refused probe counts however late the refusal is.
    if (pending.isProbe) pending.breaker.hear(performance.now())
    return pending.deadline.failed(pending)
  }

  next(pending: PendingDecision, server: string): void {
    const breaker = this.#breakers.of(server)
    if (breaker === pending.breaker) return
    this.#succeeded(pending.breaker, performance.now())
    pending.breaker = breaker
    pending.isProbe = breaker.isOpen
  }

  failure(cause: unknown, breaker: CircuitBreaker): StoreError {
    const error =
      cause instanceof StoreError
        ? cause
        : new StoreError(`the store failed: ${(cause as Error)?.message ?? shown(cause)}`, { cause })
    // Counted before the observer is called: an observer that asks again at once must find the breaker open.
    const opened = breaker.fail(performance.now())
    notify(this.observer, 'storeFailed', error)
    if (opened) this.#breakers.audience.opened(breaker, error)
    return error
  }

  /** Whether the charge's server may be asked now: while its breaker is open, only an occasional probe. */
  mayAsk(charge: Charge): boolean {
    return !isClosedTo(this.#breakers.ofCharge(charge))
  }

  /** Throws unless the charge's server may be asked. */
  checkAsked(charge: Charge): void {
    if (!this.mayAsk(charge)) throw REFUSED
  }

  /** The error while the breaker of the charge's server is open. */
  refusal(charge: Charge): StoreError | undefined {
    return this.#breakers.ofCharge(charge).isOpen ? REFUSED : undefined
  }

  /** The observer is told when a breaker of the store opens or closes; the caller holds it. */
  watch(observer: Observer): void {
    this.#breakers.audience.join(observer)
  }

  /** The server of the charge answered a message of waiting requests that was sent at `askedAt`. */
  heard(charge: Charge, askedAt: number): void {
    const answeredAt = performance.now()
    this.#answers?.answered(askedAt, answeredAt)
    this.#succeeded(this.#breakers.ofCharge(charge), answeredAt)
  }

  /** The server of the charge did not answer a message of waiting requests. */
  unheard(charge: Charge, cause: unknown): StoreError {
    return this.failure(cause, this.#breakers.ofCharge(charge))
  }

  /** Changes what was spent, and gives the answers. The charges of each server are changed in separate calls; `endsAt` is passed to the store. */
  async act<C extends Charge, T>(
    charges: readonly C[],
    change: (store: Store, charges: readonly C[], endsAt: number) => Answer<T>,
  ): Promise<T[]> {
    const endsAt = performance.now() + this.deadlineMs
    const parts = [...this.#breakers.parts(charges)]
    return Promise.all(parts.map(([breaker, part]) => this.#watch(breaker, store => change(store, part, endsAt))))
  }

  #isClosedToRest(charges: readonly Charge[], first: CircuitBreaker): boolean {
    if (this.store.serverOf === undefined) return false
    for (const breaker of this.#breakers.parts(charges).keys()) {
      if (breaker !== first && isClosedTo(breaker)) return true
    }
    return false
  }

  async #watch<T>(breaker: CircuitBreaker, ask: (store: Store) => Answer<T>): Promise<T> {
    const isProbe = breaker.isOpen
    if (isClosedTo(breaker)) throw REFUSED
    const askedAt = performance.now()
    let answer: Answer<T>
    try {
      answer = ask(this.store)
    } catch (error) {
      throw this.failure(error, breaker)
    }
    if (!isPromise(answer)) {
      this.#succeeded(breaker, askedAt)
      return answer
    }
    // A refused probe counts however late the refusal is.
    if (isProbe) answer.catch(() => breaker.hear(performance.now()))
    const outcome: PendingOutcome = {
      silent: () => {
        if (isProbe) breaker.silence()
      },
      late: () => breaker.probeNow(),
    }
    try {
      const value = await this.#deadline.hold(answer, outcome)
      const answeredAt = performance.now()
      this.#answers?.answered(askedAt, answeredAt)
      this.#succeeded(breaker, answeredAt)
      return value
    } catch (error) {
      throw this.failure(error, breaker)
    }
  }

  #succeeded(breaker: CircuitBreaker, at: number): void {
    if (breaker.succeed(at)) this.#breakers.audience.closed(breaker)
  }
}

function isClosedTo(breaker: CircuitBreaker): boolean {
  return !breaker.admits(performance.now())
}

/** Users may write their own stores: an invalid answer counts as a failure of the store. */
function checked(verdicts: readonly Verdict[], count: number): readonly Verdict[] {
  let valid = Array.isArray(verdicts) && verdicts.length === count
  for (let i = 0; valid && i < count; i++) valid = typeof verdicts[i]?.allowed === 'boolean'
  if (valid) return verdicts
  throw new StoreError(`the store answered ${shown(verdicts)}, expected a verdict for each of ${count} charges`)
}

function isPromise<T>(value: Answer<T>): value is Promise<T> {
  return typeof (value as Promise<T> | undefined)?.then === 'function'
}

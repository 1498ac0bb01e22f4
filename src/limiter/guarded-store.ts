import { type Clock, Deadline, monotonicClock, type Pending, type PendingOutcome } from '../core/clock.js'
import type { Verdict } from '../core/decision.js'
import { StoreError, shown } from '../core/errors.js'
import { notify, type Observer } from '../core/observer.js'
import type { LineGuard } from '../stores/lines.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import type { RedisStore } from '../stores/redis/redis-store.js'
import { type Asker, type BoundPolicy, type Charge, type ChargedAt, IN_REDIS, type Store } from '../stores/store.js'
import { AnswerWatch, type CircuitBreaker, CircuitBreakers } from './breaker.js'
import type { LimiterKey } from './key.js'
import type { PartialGrant } from './partial-grant.js'

type Answer<T> = Promise<T> | T
export type Verb = 'consume' | 'peek'

const REFUSED = new StoreError('the store failed too often of late and is not asked')

/** As `instanceof RedisStore`, which would pull the code of that class, and the scripts, into programs that keep their counts elsewhere. */
export function isRedisStore(store: unknown): store is RedisStore {
  return typeof store === 'object' && store !== null && IN_REDIS in store
}

/** Whether a store is a `RedisStore` with its original `consume` or `peek`: users replace methods, to spy on them or to make them fail. */
export function isAskable(store: Store, verb: 'consume' | 'peek'): store is RedisStore {
  return isRedisStore(store) && store.isAskable(verb)
}

/**
 * A request for a decision. A store that answers later calls it back, like a promise but cheaper: under load, promises would cost more than all other work of the
 * client for the decision.
 */
export abstract class DecisionRequest implements Asker, Pending {
  endsAt = 0
  settled = false
  /** The breaker of the server that is asked now. */
  breaker!: CircuitBreaker
  /** Whether that breaker was open when the server was asked. */
  isProbe = false
  deadline!: Deadline
  /** When the store was asked, by its clock or a monotonic one, if it does not report when it decides. */
  askedAt: number | undefined

  constructor(
    readonly guarded: GuardedStore,
    readonly verb: Verb,
    readonly cost: number,
    /** Undefined: there are charges only. */
    readonly key?: LimiterKey,
    readonly bound?: BoundPolicy,
    /** Takes as much as fits. */
    readonly grant?: PartialGrant,
  ) {}

  abstract get charges(): readonly Charge[]

  /** Called once: this, or `fail`. */
  abstract answer(verdicts: readonly Verdict[], chargedAt?: ChargedAt, lease?: object): void
  abstract fail(error: StoreError): void

  asks(server: string): void {
    if (!this.settled) this.guarded.next(this, server)
  }

  resolve(verdicts: readonly Verdict[], answeredAt: number, chargedAt?: ChargedAt, lease?: object): void {
    if (this.guarded.answered(this, answeredAt)) this.answer(verdicts, chargedAt, lease)
  }

  reject(cause: unknown): void {
    if (this.guarded.failed(this)) this.fail(this.guarded.failure(cause, this.breaker))
  }

  expire(error: StoreError): void {
    if (this.isProbe) this.breaker.silence()
    this.fail(this.guarded.failure(error, this.breaker))
  }

  late(): void {
    this.breaker.probeNow()
  }
}

/** A request for the verdicts alone. */
class VerdictsRequest extends DecisionRequest {
  constructor(
    guarded: GuardedStore,
    verb: Verb,
    readonly charges: readonly Charge[],
    cost: number,
    readonly answer: (verdicts: readonly Verdict[]) => void,
    readonly fail: (error: StoreError) => void,
  ) {
    super(guarded, verb, cost)
  }
}

/** A store behind a deadline and circuit breakers: every call ends in time, with an answer or with `StoreError`. */
export class GuardedStore implements LineGuard {
  readonly #breakers: CircuitBreakers
  readonly #usual: Deadline
  /** For calls to a store that has not answered this process yet. */
  #first: Deadline | undefined
  /** Dates the requests of a store that does not report when it decides. */
  readonly #clock: Clock | undefined
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
    if (!(store instanceof MemoryStore)) this.#clock = store.clock ?? monotonicClock
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

  /** Makes a request: returns the verdicts if the store is synchronous, else undefined. It may fail before this returns. */
  decide(request: DecisionRequest): readonly Verdict[] | undefined {
    const { store } = this
    const { verb, cost, key, bound, grant } = request
    const breaker = this.#breakers.only ?? this.#breakers.ofCharge(request.charges[0])
    request.breaker = breaker
    request.isProbe = breaker.isOpen
    request.deadline = this.#deadline
    const now = performance.now()
    const isAlone = breaker === this.#breakers.only
    if (!breaker.admits(now) || (!isAlone && this.#isClosedToRest(request, breaker))) {
      request.settled = true
      request.fail(REFUSED)
      return undefined
    }
    try {
      if (isAskable(store, verb)) {
        request.deadline.start(request)
        if (grant !== undefined) grant.ask(store, request.charges, request)
        else if (bound?.ask !== undefined && typeof key === 'string') bound.ask(verb, key, cost, request)
        else store.ask(verb, request.charges, cost, request)
        return undefined
      }
      const { charges } = request
      request.askedAt = this.#clock?.now()
      const ask = (units: number) => (verb === 'consume' ? store.consume(charges, units) : store.peek(charges, units))
      const answer = grant === undefined ? ask(cost) : grant.of(ask)
      if (!isPromise(answer)) {
        const verdicts = checked(answer, charges.length)
        this.#succeeded(breaker, now)
        return verdicts
      }
      request.deadline.start(request)
      // Wrapped in a promise: a thenable may answer at once, before a listener is attached.
      Promise.resolve(answer)
        .then(verdicts => checked(verdicts, charges.length))
        .then(
          verdicts => request.resolve(verdicts, performance.now()),
          error => request.reject(error),
        )
    } catch (error) {
      request.reject(error)
    }
    return undefined
  }

  /** The verdicts alone. Rejects with `StoreError`. */
  verdicts(verb: Verb, charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => {
      const verdicts = this.decide(new VerdictsRequest(this, verb, charges, cost, resolve, reject))
      if (verdicts !== undefined) resolve(verdicts)
    })
  }

  /** True if this answer still counts. */
  answered(request: DecisionRequest, answeredAt: number): boolean {
    const { deadline } = request
    if (!deadline.answered(request)) return false
    this.#first = undefined
    this.#answers?.decided(request.endsAt - deadline.ms, answeredAt)
    this.#succeeded(request.breaker, answeredAt)
    return true
  }

  /** True if this failure still counts. */
  failed(request: DecisionRequest): boolean {
    // A refused probe counts however late the refusal is.
    if (request.isProbe) request.breaker.hear(performance.now())
    return request.deadline.failed(request)
  }

  /** The request continues at another server, under its breaker; the server before has answered. */
  next(request: DecisionRequest, server: string): void {
    const breaker = this.#breakers.of(server)
    if (breaker === request.breaker) return
    this.#succeeded(request.breaker, performance.now())
    request.breaker = breaker
    request.isProbe = breaker.isOpen
  }

  /** Counts a failure and returns its error. */
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

  #isClosedToRest({ charges }: DecisionRequest, first: CircuitBreaker): boolean {
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

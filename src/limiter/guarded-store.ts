import { type CircuitBreaker, CircuitBreakers } from './breaker.js'
import { allCarriedOut } from './carried-out.js'
import { type Clock, monotonicClock } from './core/clock.js'
import type { Verdict } from './core/decision.js'
import { StoreError, shown } from './core/errors.js'
import type { Observer } from './core/observer.js'
import type { OutageWarnings } from './core/warnings.js'
import { Guarded, GuardedCall, REFUSED } from './guarded.js'
import type { LimiterKey } from './key.js'
import { MemoryStore } from './memory/memory-store.js'
import { offersOf, type StoreOffers } from './offers.js'
import type { PartialGrant } from './partial-grant.js'
import type { Asker, BoundPolicy, Charge, ChargedAt, Store } from './store.js'
import type { LineGuard } from './store-lines.js'

type Answer<T> = Promise<T> | T
export type Verb = 'consume' | 'peek'

/** Makes the result of a request from its outcome. Both may throw. */
interface RequestOwner<Result> {
  chargesOf(key: LimiterKey): readonly Charge[]
  answered(
    request: DecisionRequest<Result>,
    verdicts: readonly Verdict[],
    chargedAt: ChargedAt | undefined,
    lease: object | undefined,
  ): Result
  failed(request: DecisionRequest<Result>, error: StoreError): Result
}

/** A request for a decision of a store, which answers it later. */
export class DecisionRequest<Result> extends GuardedCall implements Asker {
  /** When the store was asked, by its clock or a monotonic one, if it does not report when it decides. */
  askedAt: number | undefined
  #charges: readonly Charge[] | undefined
  #resolve: ((result: Result) => void) | undefined
  #reject: ((error: unknown) => void) | undefined
  #error: StoreError | undefined

  constructor(
    guarded: Guarded,
    readonly owner: RequestOwner<Result>,
    readonly verb: Verb,
    readonly cost: number,
    readonly key: LimiterKey,
    /** Undefined: they follow from the key, if they are needed. */
    charges: readonly Charge[] | undefined,
    readonly bound?: BoundPolicy,
    /** Takes as much as fits. */
    readonly grant?: PartialGrant,
    readonly observed = false,
  ) {
    super(guarded)
    this.#charges = charges
  }

  get charges(): readonly Charge[] {
    this.#charges ??= this.owner.chargesOf(this.key)
    return this.#charges
  }

  /** Units that it spends if it is allowed. */
  get spent(): number {
    return this.grant?.cost ?? this.cost
  }

  /** Calls one of the functions once: at once if the request has failed already. */
  listen(resolve: (result: Result) => void, reject: (error: unknown) => void): void {
    this.#resolve = resolve
    this.#reject = reject
    if (this.#error !== undefined) this.fail(this.#error)
  }

  asks(server: string): void {
    if (!this.settled) this.guarded.next(this, server)
  }

  resolve(verdicts: readonly Verdict[], answeredAt: number, chargedAt?: ChargedAt, lease?: object): void {
    if (!this.guarded.answered(this, answeredAt, 1)) return
    try {
      this.#resolve?.(this.owner.answered(this, verdicts, chargedAt, lease))
    } catch (error) {
      this.#reject?.(error)
    }
  }

  fail(error: StoreError): void {
    this.#error = error
    if (this.#resolve === undefined) return
    try {
      this.#resolve(this.owner.failed(this, error))
    } catch (error) {
      this.#reject?.(error)
    }
  }
}

/** Asks for the verdicts alone, with given charges. */
const VERDICTS: RequestOwner<readonly Verdict[]> = {
  chargesOf: () => [],
  answered: (_, verdicts) => verdicts,
  failed(_, error) {
    throw error
  },
}

/** A store whose calls are guarded: each ends in time, with an answer or with `StoreError`. */
export class GuardedStore implements LineGuard {
  readonly calls: Guarded
  /** For a store that can be asked without promises. */
  readonly #offers: StoreOffers | undefined
  /** Dates the requests of a store that does not report when it decides. */
  readonly #clock: Clock | undefined

  constructor(
    readonly store: Store,
    deadlineMs: number,
    observer?: Observer,
    warnings?: OutageWarnings,
  ) {
    this.#offers = offersOf(store)
    const breakers = CircuitBreakers.of(store, deadlineMs)
    this.calls = new Guarded(deadlineMs, { breakers, observer, warnings, connecting: this.#offers })
    if (!(store instanceof MemoryStore)) this.#clock = store.clock ?? monotonicClock
  }

  get deadlineMs(): number {
    return this.calls.deadlineMs
  }

  connectsUntil(): number {
    return this.calls.connectsUntil()
  }

  /**
   * Makes a request: returns the verdicts if the store is synchronous, else undefined. It may fail before this returns.
   */
  ask<Result>(request: DecisionRequest<Result>): readonly Verdict[] | undefined {
    const { store, calls } = this
    const { verb, cost, key, bound, grant } = request
    const isAlone = calls.breakers.only !== undefined
    if (!isAlone) request.breaker = this.#breakerOf(request.charges[0])
    if ((request.breaker.isOpen && !calls.mayAsk(request.breaker)) || (!isAlone && this.#isClosedToRest(request))) {
      request.settled = true
      request.fail(REFUSED)
      return undefined
    }
    try {
      // Users replace methods, to spy on them or to make them fail.
      if (this.#offers?.isAskable(verb)) {
        calls.start(request)
        if (grant !== undefined) grant.ask(this.#offers, request.charges, request)
        else if (bound?.ask !== undefined && typeof key === 'string') bound.ask(verb, key, cost, request)
        else this.#offers.ask(verb, request.charges, cost, request)
        return undefined
      }
      const { charges } = request
      request.askedAt = this.#clock?.now()
      const decide = (units: number) => store[verb](charges, units)
      const answer = grant === undefined ? decide(cost) : grant.of(decide)
      if (!isPromise(answer)) {
        const verdicts = checked(answer, charges.length)
        calls.succeeded(request.breaker, performance.now())
        return verdicts
      }
      calls.start(request)
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
      const request = new DecisionRequest(this.calls, VERDICTS, verb, cost, '', charges)
      const verdicts = this.ask(request)
      if (verdicts !== undefined) resolve(verdicts)
      else request.listen(resolve, reject)
    })
  }

  mayAsk(charge: Charge): boolean {
    return this.calls.mayAsk(this.#breakerOf(charge))
  }

  refusal(charge: Charge): StoreError | undefined {
    return this.#breakerOf(charge).isOpen ? REFUSED : undefined
  }

  watch(observer: Observer): void {
    this.calls.breakers.observers.join(observer)
  }

  lineAnswered(charge: Charge, askedAt: number): void {
    this.calls.noteAnswer(this.#breakerOf(charge), askedAt)
  }

  lineFailed(charge: Charge, cause: unknown): StoreError {
    return this.calls.failure(cause, this.#breakerOf(charge))
  }

  /**
   * Changes what was spent, and gives the answers. The charges of each server are changed in separate calls; `endsAt`
   * is passed to the store.
   */
  async change<C extends Charge, T>(
    charges: readonly C[],
    change: (store: Store, charges: readonly C[], endsAt: number) => Answer<T>,
  ): Promise<T[]> {
    const endsAt = Math.max(performance.now() + this.deadlineMs, this.connectsUntil())
    const parts = [...this.calls.breakers.parts(charges)]
    return allCarriedOut(parts.map(([breaker, part]) => this.#change(breaker, store => change(store, part, endsAt))))
  }

  #breakerOf(charge: Charge): CircuitBreaker {
    return this.calls.breakers.ofCharge(charge)
  }

  #isClosedToRest({ charges, breaker }: GuardedCall & { readonly charges: readonly Charge[] }): boolean {
    for (const other of this.calls.breakers.parts(charges).keys()) {
      if (other !== breaker && !this.calls.mayAsk(other)) return true
    }
    return false
  }

  async #change<T>(breaker: CircuitBreaker, change: (store: Store) => Answer<T>): Promise<T> {
    const { calls } = this
    if (!calls.mayAsk(breaker)) throw REFUSED
    let answer: Answer<T>
    try {
      answer = change(this.store)
    } catch (error) {
      answer = Promise.reject(error)
    }
    if (isPromise(answer)) return calls.hold(answer, breaker)
    calls.succeeded(breaker, performance.now())
    return answer
  }
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

import { type CircuitBreaker, CircuitBreakers } from './breaker.js'
import { allCarriedOut } from './carried-out.js'
import type { Verdict } from './core/decision.js'
import type { StoreError } from './core/errors.js'
import type { Limit } from './core/limit.js'
import type { Observer } from './core/observer.js'
import type { OutageWarnings } from './core/warnings.js'
import { Guarded, GuardedCall, REFUSED } from './guarded.js'
import type { BoundPolicy, Change, CountedLimit, Counts, DecidesNow, Keys, Origin, Reply, Verb } from './port.js'
import { keyAt } from './port.js'
import type { Charge, ChargedAt } from './store.js'
import type { LineGuard } from './store-lines.js'

/** The guard of one limiter over a store: the deadline of its calls, and a breaker for each server. */
export class StoreGuard implements LineGuard {
  readonly calls: Guarded

  constructor(
    readonly counts: Counts,
    deadlineMs: number,
    observer?: Observer,
    warnings?: OutageWarnings,
  ) {
    const breakers = CircuitBreakers.of(counts, deadlineMs)
    this.calls = new Guarded(deadlineMs, { breakers, observer, warnings, connecting: counts.connecting })
  }

  get deadlineMs(): number {
    return this.calls.deadlineMs
  }

  connectsUntil(): number {
    return this.calls.connectsUntil()
  }

  /** Whether the servers of these keys may be asked now. Sets the breaker of the call, if there are several. */
  admits(call: GuardedCall, counted: readonly CountedLimit[], keys: Keys): boolean {
    const { calls } = this
    const isAlone = calls.breakers.only !== undefined
    if (!isAlone) call.breaker = this.#breakerOf(counted[0], keyAt(keys, 0))
    if (isAlone || typeof keys === 'string') return !call.breaker.isOpen || calls.mayAsk(call.breaker)
    const all = [...new Set(counted.map((one, i) => this.#breakerOf(one, keys[i])))]
    // Those that may not be asked come first: a call that is not made must not take the probe of another server.
    const now = performance.now()
    const isShared = all.filter(({ isOpen }) => isOpen).length > 1
    const refusing = all.find(breaker => !breaker.isDue(now, isShared))
    if (refusing === undefined) return all.every(breaker => calls.mayAsk(breaker))
    calls.refuse()
    return false
  }

  /** The limits whose keys one server keeps, by its breaker: their indexes. */
  parts(counted: readonly CountedLimit[], keys: Keys): ReadonlyMap<CircuitBreaker, readonly number[]> {
    const parts = new Map<CircuitBreaker, number[]>()
    counted.forEach((one, i) => {
      const breaker = this.#breakerOf(one, keyAt(keys, i))
      const part = parts.get(breaker)
      if (part === undefined) parts.set(breaker, [i])
      else part.push(i)
    })
    return parts
  }

  /** Makes a change, which ends by the deadline. Rejects with `StoreError`. */
  async change<T>(breaker: CircuitBreaker, change: (endsAt: number) => Promise<T> | T): Promise<T> {
    const { calls } = this
    if (!calls.mayAsk(breaker)) throw REFUSED
    let answer: Promise<T> | T
    try {
      answer = change(Math.max(performance.now() + this.deadlineMs, this.connectsUntil()))
    } catch (error) {
      answer = Promise.reject(error)
    }
    if (typeof (answer as Promise<T> | undefined)?.then === 'function') {
      // Wrapped in a promise: a thenable may throw.
      return calls.hold(Promise.resolve(answer), breaker)
    }
    calls.succeeded(breaker, performance.now())
    return answer
  }

  breakerOf(charge: Charge): CircuitBreaker {
    return this.#breakerOf(charge, charge.key)
  }

  mayAsk(charge: Charge): boolean {
    return this.calls.mayAsk(this.breakerOf(charge))
  }

  refusal(charge: Charge): StoreError | undefined {
    return this.breakerOf(charge).isOpen ? REFUSED : undefined
  }

  watch(observer: Observer): void {
    this.calls.breakers.observers.join(observer)
  }

  lineAnswered(charge: Charge, askedAt: number): void {
    this.calls.noteAnswer(this.breakerOf(charge), askedAt)
  }

  lineFailed(charge: Charge, cause: unknown): StoreError {
    return this.calls.failure(cause, this.breakerOf(charge))
  }

  #breakerOf(counted: CountedLimit, key: string): CircuitBreaker {
    const { breakers } = this.calls
    return breakers.only ?? breakers.of(this.counts.serverOf?.(counted, key) ?? '')
  }
}

/**
 * A policy whose calls each end by the deadline, with an answer of the store or else of `failing`, the failure policy;
 * without one with `StoreError`.
 */
export class GuardedPolicy implements BoundPolicy {
  readonly limits: readonly Limit[]
  readonly now: DecidesNow | undefined
  readonly isLeased: true | undefined

  constructor(
    readonly store: BoundPolicy,
    readonly failing: BoundPolicy | undefined,
    readonly guard: StoreGuard,
    readonly counted: readonly CountedLimit[],
  ) {
    this.limits = store.limits
    this.now = store.now
    this.isLeased = store.isLeased
  }

  decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    const call = new GuardedDecision(this, verb, keys, cost, reply)
    if (!this.guard.admits(call, this.counted, keys)) {
      call.settled = true
      call.fail(REFUSED)
      return
    }
    this.guard.calls.start(call)
    try {
      this.store.decide(verb, keys, cost, call)
    } catch (error) {
      call.reject(error)
    }
    call.isAsking = false
  }

  /** As `decide`. Rejects with `StoreError`, if there is no failure policy. */
  verdicts(verb: Verb, keys: Keys, cost: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => this.decide(verb, keys, cost, { resolve, reject }))
  }

  /** The keys of each server are changed in separate calls. */
  async change(change: Change, keys: Keys): Promise<void> {
    if (change.from?.degraded) return this.failing?.change(change, keys)
    const { guard, counted } = this
    const parts = [...guard.parts(counted, keys)]
    if (parts.length === 1) {
      const [[breaker]] = parts
      return guard.change(breaker, endsAt => this.store.change(change, keys, endsAt))
    }
    const { receipts } = change
    await allCarriedOut(
      parts.map(([breaker, places]) => {
        const store = guard.counts.bind(places.map(i => counted[i]))
        const own = { ...change, receipts: receipts && places.map(i => receipts[i]) }
        return guard.change(breaker, endsAt =>
          store.change(
            own,
            places.map(i => keyAt(keys, i)),
            endsAt,
          ),
        )
      }),
    )
  }

  async close(): Promise<void> {
    await this.store.close?.()
  }
}

/** Limits over a store without a failure policy, and with a guard of their own. */
export function guardedAlone(counts: Counts, counted: readonly CountedLimit[], deadlineMs: number): GuardedPolicy {
  return new GuardedPolicy(counts.bind(counted), undefined, new StoreGuard(counts, deadlineMs), counted)
}

/** A decision of a store, which may come later, too late, or not at all. */
class GuardedDecision extends GuardedCall implements Reply {
  /** True until the store was asked: an answer before that was not waited for. */
  declare isAsking: boolean

  constructor(
    readonly policy: GuardedPolicy,
    readonly verb: Verb,
    readonly keys: Keys,
    readonly cost: number,
    readonly reply: Reply,
  ) {
    super(policy.guard.calls)
    this.isAsking = true
  }

  movesTo(server: string): void {
    if (!this.settled) this.guarded.next(this, server)
  }

  resolve(verdicts: readonly Verdict[], answeredAt: number, chargedAt?: ChargedAt, origin?: Origin): void {
    if (this.guarded.answered(this, answeredAt, 1, this.isAsking)) {
      this.reply.resolve(verdicts, answeredAt, chargedAt, origin)
    }
  }

  fail(error: StoreError): void {
    const { policy, verb, keys, cost, reply } = this
    if (policy.failing === undefined) reply.reject(error)
    else policy.failing.decide(verb, keys, cost, reply)
  }
}

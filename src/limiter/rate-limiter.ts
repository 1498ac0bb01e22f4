import type { BlockRule, Denials, Strikes } from './block-rule.js'
import { asyncDispose } from './core/async-dispose.js'
import type { Decision, Verdict } from './core/decision.js'
import { type Duration, parseOption } from './core/duration.js'
import { checkCost, isCost, StoreError, shown } from './core/errors.js'
import { type Limit, maxCostOf, type Policy } from './core/limit.js'
import { WaitWatch, watched } from './core/meters.js'
import { notifyDecided, type Observer } from './core/observer.js'
import type { OptionNames } from './core/options.js'
import { patienceOf, WAIT_OPTIONS, type WaitOptions } from './core/wait.js'
import { type Decider, PolicyDeciders } from './decider.js'
import { DenyCache } from './deny-cache.js'
import { outageWarnings } from './fallback.js'
import { countsOf } from './foreign-store.js'
import { StoreGuard } from './guarded-policy.js'
import { type KeyInput, type LimiterKey, limiterKey } from './key.js'
import { LimiterLines } from './lines.js'
import { MemoryStore } from './memory/memory-store.js'
import { parseLimiterOptions, type RateLimiterOptions } from './options.js'
import type { Change, Counts } from './port.js'
import { settle } from './settlement.js'
import { neverFits } from './store-lines.js'

const ACQUIRE_OPTIONS: OptionNames<WaitOptions & { cost?: number }> = { ...WAIT_OPTIONS, cost: true }

export type { RateLimiterOptions } from './options.js'

// What the rest of the package does with a limiter, and users do not.

/** The options of a limiter, for another that counts beside it. */
export let optionsOf: (limiter: RateLimiter) => RateLimiterOptions
/**
 * The store's verdicts on a cost; spends nothing. Neither a remembered denial nor the failure policy replaces the
 * store: rejects with `StoreError`.
 */
export let standing: (limiter: RateLimiter, key: LimiterKey, cost: number) => Promise<readonly Verdict[]>
/** Makes a change of which only this package knows. Rejects with `StoreError`. */
export let change: (limiter: RateLimiter, key: LimiterKey, change: Change) => Promise<void>
/** Counts denials of a key, and blocks it if they are too many. Rejects with `StoreError`. */
export let strike: (
  limiter: RateLimiter,
  key: string,
  limit: Limit,
  denials: Denials,
  rule: BlockRule,
) => Promise<Strikes>

/**
 * A policy over a store. `consume` decides one request now, which is what a server needs; `acquire` waits for its turn;
 * `peek` spends nothing.
 *
 * A key is a text or a number, which stands for its text, or a record with a key for each limit by its name,
 * `{ 'per-ip': '192.0.2.1', 'per-user': 42 }`; a limit without a key in it does not apply. Invalid options throw
 * `PolicyError`. A decision takes at most `deadline`.
 */
export class RateLimiter implements AsyncDisposable {
  readonly #options: RateLimiterOptions
  readonly #store: object
  readonly #counts: Counts
  /** The store that this limiter has made for itself. */
  readonly #ownStore: MemoryStore | undefined
  readonly #guard: StoreGuard
  readonly #name: string
  readonly #denials: DenyCache | undefined
  readonly #observer: Observer | undefined
  readonly #waits: WaitWatch
  readonly #shadow: boolean
  readonly #deciders: PolicyDeciders
  /** Decides for all keys; undefined if the policy is a function. */
  readonly #only: Decider | undefined
  readonly #lines: LimiterLines
  #closed: Promise<void> | undefined

  constructor(options: RateLimiterOptions) {
    const settings = parseLimiterOptions(options)
    const { policy, name, denyCacheKeys, shadow, onStoreFailure, localShare, observer } = settings
    const store = settings.store ?? new MemoryStore()
    const counts = countsOf(store)
    const warnings = observer === undefined ? outageWarnings(store, counts, onStoreFailure) : undefined
    this.#options = { ...options, store, name }
    this.#store = store
    this.#counts = counts
    if (settings.store === undefined) this.#ownStore = store as MemoryStore
    this.#guard = new StoreGuard(counts, settings.deadlineMs, observer, warnings)
    this.#name = name
    this.#observer = observer
    this.#waits = new WaitWatch(observer, 'limiter', name)
    this.#shadow = shadow
    // A store in this process refuses as fast as a cache would, and is never outdated.
    if (denyCacheKeys > 0 && !counts.isLocal) this.#denials = DenyCache.of(counts, name, denyCacheKeys)
    this.#deciders = new PolicyDeciders(policy, {
      store,
      counts,
      guard: this.#guard,
      onStoreFailure,
      localShare,
      denials: this.#denials,
      observer,
      name,
      shadow,
      changed: charges => this.#lines.wake(charges),
    })
    this.#only = this.#deciders.only
    this.#lines = new LimiterLines(
      this.#guard,
      onStoreFailure,
      async (key, cost) => this.#deciders.of(key).ask('consume', key, cost, false),
      decision => this.settle(decision, 0),
    )
  }

  /**
   * The limits, checked and frozen. If the policy is a function: the limits used last, and none before the first
   * decision.
   */
  get policy(): Policy {
    return this.#deciders.policy
  }

  /**
   * Spends `cost` (default 1) if every limit allows it; a denied request spends nothing.
   *
   * A denial resolves; an outage resolves too (by the failure policy, `degraded`). Rejects only with `CostError`
   * (anything but an integer ≥ 0), with `PolicyError` (an invalid key), or with an error of the `policy` function,
   * before anything changes. A cost of 0 changes nothing.
   */
  consume(key: KeyInput, cost = 1): Promise<Decision> {
    if (this.#only === undefined || typeof key !== 'string' || !isCost(cost)) return this.#consumeAny(key, cost)
    const decision = this.#only.consume(key, cost) as Decision
    // Undefined only for a promise. Behind the check the compiler assumes an object of known shape without `then`,
    // which saves a fifth of the time.
    return decision.allowed === undefined ? (decision as unknown as Promise<Decision>) : Promise.resolve(decision)
  }

  /**
   * As `consume`, but returns the decision itself if it is known synchronously: from a memory store, and while a
   * remembered denial holds. For code that runs on every request: a promise costs as much as the decision. Throws where
   * `consume` rejects; a returned promise does not reject.
   */
  decide(key: KeyInput, cost = 1): Decision | Promise<Decision> {
    if (this.#only === undefined || typeof key !== 'string' || !isCost(cost)) return this.#decideAny(key, cost)
    return this.#only.consume(key, cost)
  }

  /**
   * Spends as much of `most` units as fits under every limit, at least 1: `decision.cost` is how much. If not even 1
   * fits, the request is denied and spends nothing; its cost is 1, and `retryAfterMs` is the time until 1 fits. A
   * remembered denial of a larger cost does not refuse it. `most` is an integer from 1, like 10; anything else rejects
   * with `CostError`. While others spend from the same key it may spend less than was available.
   */
  async consumeUpTo(key: KeyInput, most: number): Promise<Decision> {
    const checked = limiterKey(key)
    return this.#deciders.of(checked).consumeUpTo(checked, most)
  }

  /** The decision that `consume` would return; spends nothing. A cost of 0 shows the current state. */
  async peek(key: KeyInput, cost = 1): Promise<Decision> {
    checkCost(cost)
    const checked = limiterKey(key)
    return this.#deciders.of(checked).ask('peek', checked, cost, false)
  }

  /**
   * Waits until `cost` (default 1) can be spent under all limits, then spends it: first come, first served, in one line
   * for all processes. `consume` does not overtake waiters, and when a waiter gives up, those behind it move up. Under
   * a leaky bucket `acquire` itself waits out the delay: `delayMs` is 0. If the store keeps no line (a custom store;
   * limits in several slots of a cluster), the first waiter in this process asks again at the times that it returns.
   *
   * Rejects with `TimeoutError` when `timeout` is over, or at once if the turn would come after it (0: does not wait;
   * default: no timeout), with the signal's reason when it is aborted, and at once with `CostError` if `cost` can never
   * fit. Then nothing is spent. While the store fails, the failure policy decides; 'closed' rejects with `StoreError`.
   * In shadow mode `acquire` returns at once. While the key is blocked, no waiter is granted. When the store does not
   * answer within `deadline`, the failure policy may serve the waiters meanwhile; those that it does not serve keep
   * their places, and are in the store's line again as soon as it answers.
   */
  async acquire(given: KeyInput, options: WaitOptions & { cost?: number } = {}): Promise<Decision> {
    const key = limiterKey(given)
    const patience = patienceOf(options, 'acquire', Number.POSITIVE_INFINITY, ACQUIRE_OPTIONS)
    const { cost = 1 } = options
    checkCost(cost)
    const decider = this.#deciders.of(key)
    const charges = decider.chargesOf(key)
    return watched(this.#waits, patience.signal, async () => {
      patience.signal?.throwIfAborted()
      if (cost === 0 || this.#shadow) return decider.consume(key, cost)
      for (const { limit } of charges) if (cost > maxCostOf(limit)) throw neverFits(cost, limit)
      const decision = await this.#lines.wait(decider, key, charges, cost, patience)
      notifyDecided(this.#observer, decision, this.#name)
      return decision
    })
  }

  /**
   * Gives back `cost` units (default 1), at most what is spent: a sliding window's oldest units, a counter's or
   * bucket's newest; a running window continues. Rejects with `StoreError`, within the deadline, when the store fails.
   */
  async refund(given: KeyInput, cost = 1): Promise<void> {
    checkCost(cost)
    await this.#change(limiterKey(given), { verb: 'refund', units: cost })
  }

  /**
   * Spends `cost` (default 1) even if it does not fit: for a cost that is known only afterwards. The key then has to
   * wait longer. Rejects with `CostError`, and with `StoreError`, within the deadline, when the store fails or cannot
   * charge.
   */
  async charge(given: KeyInput, cost = 1): Promise<void> {
    checkCost(cost)
    await this.#change(limiterKey(given), { verb: 'charge', units: cost })
  }

  /**
   * Corrects the charge of an allowed decision once its real cost is known: gives back what was too much, as far as it
   * still counts, or charges what was too little, even if that does not fit. The key then has to wait longer. It gives
   * back the decision's own units, as of the moment when they were charged, by the clock of the store that decided, and
   * none that have expired. For example, a decision under '10/1m' is charged 8 units at 12:00:00 and turns out to cost
   * 3: `settle` gives back 5, and the 3 others expire at 12:01:00. So whenever `consume` allows, the units of the last
   * window that were charged and not given back, this decision's included, are at most the quota. If several decisions
   * were charged at one instant, or the key was refunded or reset since, `settle` gives back at most what is still
   * counted of that instant. Settles a decision once; a second time, or on a denied decision, it does nothing. Rejects
   * with `CostError`, with `PolicyError` for an object that no limiter of this copy of the package has returned, and
   * with `StoreError`, within the deadline, when the store fails: if its `settled` is false, nothing was carried out,
   * and it can be called again. A store of your own without `giveBack` keeps the units (SPILLWAY_SETTLE).
   */
  async settle(decision: Decision, actualCost: number): Promise<void> {
    checkCost(actualCost)
    // The limiter that made the decision changes it: this one may have another store and deadline.
    await settle(decision, actualCost)
  }

  /**
   * Forgets what the key has spent. Rejects with `StoreError`, within the deadline, when the store fails or is not
   * asked.
   */
  async reset(given: KeyInput): Promise<void> {
    await this.#change(limiterKey(given), { verb: 'reset', units: 0 })
  }

  /**
   * Denies the key, regardless of what it has spent, for `duration` from now, in all processes that share the store. A
   * later block replaces an earlier one. Rejects with `StoreError`, within the deadline, when the store fails.
   */
  async block(key: KeyInput, duration: Duration): Promise<void> {
    await this.#change(limiterKey(key), { verb: 'block', units: parseOption(duration, 'block: duration') })
  }

  /** Ends a block early. What the key has spent stays spent. */
  async unblock(key: KeyInput): Promise<void> {
    await this.#change(limiterKey(key), { verb: 'block', units: 0 })
  }

  /**
   * Closes what this limiter created; a store that was passed in stays open. Waiters in `acquire` reject with
   * `StoreError`, and have left the line in Redis when this resolves: after at most 1 s, at once without a connection.
   * (In a memory store that limiters share, waiters continue to wait.)
   */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  /** As `close`, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close()
  }

  static {
    optionsOf = limiter => limiter.#options
    standing = (limiter, key, cost) => limiter.#deciders.of(key).standing(key, cost)
    change = (limiter, key, wanted) => limiter.#change(key, wanted)
    strike = (limiter, ...denials) => limiter.#strike(...denials)
  }

  /** Counts denials of a key under one limit, and blocks it if they are too many: in one step of the store. */
  async #strike(key: string, limit: Limit, denials: Denials, rule: BlockRule): Promise<Strikes> {
    this.#checkStoreCan('block')
    const charge = { key, limit, limiter: this.#name }
    const guard = this.#guard
    const strikes = await guard.change(guard.breakerOf(charge), async endsAt =>
      this.#counts.strike?.(charge, denials, rule, endsAt),
    )
    if (strikes === undefined) throw new StoreError(`the store ${shown(this.#store)} does not count denials`)
    if (strikes.blockedMs > 0) this.#denials?.drop(key)
    return strikes
  }

  async #close(): Promise<void> {
    await Promise.all([this.#lines.close(this.#ownStore !== undefined), this.#deciders.close()])
    this.#ownStore?.close()
  }

  #consumeAny(key: KeyInput, cost: number): Promise<Decision> {
    try {
      return Promise.resolve(this.#decideAny(key, cost))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Any key, cost and policy. Throws where `consume` rejects. */
  #decideAny(given: KeyInput, cost: number): Decision | Promise<Decision> {
    checkCost(cost)
    const key = limiterKey(given)
    return this.#deciders.of(key).consume(key, cost)
  }

  async #change(key: LimiterKey, change: Change): Promise<void> {
    this.#checkStoreCan(change.verb)
    await this.#deciders.of(key).change(key, change)
  }

  /** Throws before the store is asked: a missing method is not an outage. */
  #checkStoreCan(verb: Change['verb']): void {
    if (this.#counts.can?.(verb) ?? true) return
    throw new StoreError(`the store ${shown(this.#store)} has no ${verb}(); MemoryStore and RedisStore have`)
  }
}

import { Deadline } from './deadline.js'
import { type Decision, decide, type Verdict } from './decision.js'
import { CostError, PolicyError, StoreError, shown } from './errors.js'
import { FailurePolicy } from './failure.js'
import type { Policy } from './limit.js'
import { type LimiterSettings, parseLimiterOptions, type RateLimiterOptions } from './limiter-options.js'
import { type Charge, DEFAULT_LIMITER, type Store } from './store.js'
import { MemoryStore } from './stores/memory.js'

export type { RateLimiterOptions } from './limiter-options.js'

/**
 * A policy over a store. `consume` decides one request now, which is what a server wants; `peek` only looks.
 *
 * Options are checked here: `PolicyError`. A decision never takes longer than `deadline`, whatever the store does.
 */
export class RateLimiter {
  readonly policy: Policy
  readonly #settings: LimiterSettings
  readonly #store: Store
  readonly #ownsStore: boolean
  readonly #limiter: string | undefined
  readonly #deadline: Deadline
  readonly #failure: FailurePolicy

  constructor(options: RateLimiterOptions) {
    const settings = parseLimiterOptions(options)
    this.#settings = settings
    this.policy = settings.policy
    this.#ownsStore = settings.store === undefined
    this.#store = settings.store ?? new MemoryStore()
    this.#limiter = settings.name === DEFAULT_LIMITER ? undefined : settings.name
    this.#deadline = new Deadline(settings.deadlineMs)
    this.#failure = new FailurePolicy(settings.onStoreFailure, settings.localShare, this.#store)
  }

  /**
   * Spends `cost` (default 1) if every limit allows it; a denied request spends nothing.
   *
   * A denial resolves; so does an outage (by the failure policy, `degraded`). Rejects only with `CostError` (anything but an
   * integer ≥ 0) or `PolicyError` (a key that is no text), before anything changes. A cost of 0 changes nothing. To wait
   * instead of being refused, use `acquire`.
   */
  consume(key: string, cost = 1): Promise<Decision> {
    return this.#decide('consume', key, cost)
  }

  /** The decision that `consume` would give, spending nothing. With cost 0: how things stand. */
  peek(key: string, cost = 1): Promise<Decision> {
    return this.#decide('peek', key, cost)
  }

  /**
   * Gives back at most what is spent, newest first; a window that runs goes on. Default 1. Rejects with `StoreError`, within
   * the deadline, when the store fails.
   */
  async refund(key: string, cost = 1): Promise<void> {
    checkCost(cost)
    const charges = this.#charges(key)
    await this.#ask(() => this.#store.refund(charges, cost))
  }

  /** Forgets what the key has spent. Rejects with `StoreError`, within the deadline, when the store fails. */
  async reset(key: string): Promise<void> {
    const charges = this.#charges(key)
    await this.#ask(() => this.#store.reset(charges))
  }

  /** Closes what this limiter made for itself; a store that was given to it stays open. */
  async close(): Promise<void> {
    this.#failure.close()
    if (this.#ownsStore) await this.#store.close?.()
  }

  #decide(verb: 'consume' | 'peek', key: string, cost: number): Promise<Decision> {
    let charges: readonly Charge[]
    try {
      checkCost(cost)
      charges = this.#charges(key)
    } catch (error) {
      return Promise.reject(error)
    }
    let answer: Promise<readonly Verdict[]> | readonly Verdict[]
    try {
      answer = this.#store[verb](charges, cost)
    } catch {
      return Promise.resolve(this.#report(this.#failure[verb](key, charges, cost)))
    }
    if (!isPromise(answer)) return Promise.resolve(this.#report(decide(key, cost, answer, 'memory')))
    return this.#deadline.hold(answer).then(
      verdicts => this.#report(decide(key, cost, verdicts, 'redis')),
      () => this.#report(this.#failure[verb](key, charges, cost)),
    )
  }

  #charges(key: string): readonly Charge[] {
    if (typeof key !== 'string') {
      throw new PolicyError(`RateLimiter: key ${shown(key)}: expected a text, like "user:42"`)
    }
    const limiter = this.#limiter
    return this.policy.length === 1
      ? [{ key, limit: this.policy[0], limiter }]
      : this.policy.map(limit => ({ key, limit, limiter }))
  }

  async #ask(action: () => Promise<void> | void): Promise<void> {
    try {
      const answer = action()
      if (isPromise(answer)) await this.#deadline.hold(answer)
    } catch (cause) {
      if (cause instanceof StoreError) throw cause
      throw new StoreError(`the store failed: ${(cause as Error)?.message ?? shown(cause)}`, { cause })
    }
  }

  /** In shadow everything passes; the verdicts still tell what would have been. */
  #report(decision: Decision): Decision {
    if (!this.#settings.shadow || decision.allowed) return decision
    return { ...decision, allowed: true, retryAfterMs: 0 }
  }
}

function checkCost(cost: number): void {
  if (Number.isSafeInteger(cost) && cost >= 0) return
  throw new CostError(`cost ${shown(cost)}: expected an integer ≥ 0, like 1`)
}

function isPromise<T>(value: Promise<T> | T): value is Promise<T> {
  return typeof (value as Promise<T> | undefined)?.then === 'function'
}

import type { Decision, Verdict } from '../core/decision.js'
import type { Limit, Policy } from '../core/limit.js'
import type { Observer } from '../core/observer.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import type { MemoryTable } from '../stores/memory/memory-table.js'
import type { Lease } from '../stores/redis/leases/holdings.js'
import type { LeaseBook } from '../stores/redis/leases/leases.js'
import type { RedisStore } from '../stores/redis/redis-store.js'
import { isRedisStore } from './guarded-store.js'
import { decide, SettleableDecision, type Spender, SpendingClock, type Spent } from './settlement.js'

/**
 * One limit over a `MemoryStore`, the most common limiter: decides without the list of charges that other limiters need, and
 * without a deadline, because the store is synchronous. The code is short and has few calls, so that V8 inlines it.
 */
export class LoneLimit {
  readonly #times: SpendingClock
  #table: MemoryTable

  private constructor(
    readonly store: MemoryStore,
    readonly limit: Limit,
    readonly limiter: string | undefined,
    spender: Spender,
  ) {
    this.#times = new SpendingClock(spender)
    this.#table = store.tableOf(limit, limiter)
  }

  /** Undefined for any other limiter. */
  static of(policy: Policy, limiter: string | undefined, spender: Spender): LoneLimit | undefined {
    const { store } = spender
    if (policy.length > 1 || !(store instanceof MemoryStore)) return undefined
    return new LoneLimit(store, policy[0], limiter, spender)
  }

  /** Spends if the cost fits. Undefined if the store fails or a user replaced its `consume`: then the limiter asks it like any other store. */
  consume(key: string, cost: number): Decision | undefined {
    const { store } = this
    if (store.consume !== MEMORY_CONSUME) return undefined
    let verdict: Verdict
    try {
      const slot = store.slotToConsume(this.#table, key)
      if (slot === undefined) return this.#consumeRarely(key, cost)
      verdict = this.#table.consume(slot, this.limit, store, cost)
    } catch {
      return undefined
    }
    const spent = this.#times.spentAt(store.decidedAt)
    return new SettleableDecision(verdict, key, cost, [verdict], 'memory', false, verdict.delayMs, spent, false)
  }

  #consumeRarely(key: string, cost: number): Decision {
    const { store, limit, limiter } = this
    const verdict = store.consumeRarely({ key, limit, limiter }, cost)
    // The store abandons an empty table, and may have made another one for this key.
    this.#table = store.tableOf(limit, limiter)
    return decide(key, cost, [verdict], 'memory', false, this.#times.spentAt(store.decidedAt))
  }
}

const MEMORY_CONSUME = MemoryStore.prototype.consume

/** A policy over a store that leases: decides busy keys from units that this process has bought. */
export class LeasedLimits {
  /** The `Spent` that all decisions of one lease share. */
  #spent: Spent
  readonly #limit: Limit
  readonly #isLone: boolean

  private constructor(
    readonly book: LeaseBook,
    readonly store: RedisStore,
    readonly policy: Policy,
    readonly spender: Spender,
  ) {
    this.#spent = { spender }
    this.#limit = policy[0]
    this.#isLone = policy.length === 1
  }

  /** Undefined if each decision asks the store. Throws `PolicyError` if leases were requested for a policy that cannot be leased. */
  static of(
    policy: Policy,
    limiter: string | undefined,
    spender: Spender,
    observer: Observer | undefined,
  ): LeasedLimits | undefined {
    const { store } = spender
    if (!isRedisStore(store)) return undefined
    const book = store.leasesOf(policy, limiter)
    if (book === undefined) return undefined
    if (observer !== undefined) book.observe(observer)
    return new LeasedLimits(book, store, policy, spender)
  }

  /** Spends from a lease; undefined if this process holds no lease with enough units. */
  consume(key: string, cost: number): Decision | undefined {
    if (cost === 0 || !this.store.isAskable('consume')) return undefined
    const { book } = this
    const now = book.now()
    const lease = book.spend(key, cost, now)
    if (lease === undefined) return undefined
    const held = lease.units + lease.reserve
    const spent = this.#spent.lease?.of === lease ? this.#spent : this.spentFrom(lease)
    if (!this.#isLone) return decide(key, cost, this.#verdicts(lease, held, now), 'lease', false, spent)
    const verdict = lease.verdict(this.#limit, 0, held, now)
    return new SettleableDecision(verdict, key, cost, [verdict], 'lease', false, 0, spent, false)
  }

  /** The refusal of a request without a lease, while this process must wait before it buys again. */
  refusal(key: string, cost: number): Decision | undefined {
    const verdicts = cost === 0 ? undefined : this.book.refusal(key, cost)
    return verdicts && decide(key, cost, verdicts, 'lease')
  }

  /** The `Spent` of decisions from this lease. */
  spentFrom(lease: Lease): Spent {
    if (this.#spent.lease?.of !== lease) {
      const settle = (units: number, endsAt?: number) => this.book.settle(lease, units, endsAt)
      this.#spent = { spender: this.spender, chargedAt: lease.facts.soldAt, lease: { of: lease, settle } }
    }
    return this.#spent
  }

  /** Gives back all unspent units of this process. */
  close(): Promise<void> {
    return this.book.close()
  }

  #verdicts(lease: Lease, held: number, now: number): Verdict[] {
    return this.policy.map((limit, i) => lease.verdict(limit, i, held, now))
  }
}

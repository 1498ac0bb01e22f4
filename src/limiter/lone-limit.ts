import type { Decision, Verdict } from '../core/decision.js'
import type { Limit, Policy } from '../core/limit.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import type { MemoryTable } from '../stores/memory/memory-table.js'
import { decide, SettleableDecision, type Spender, SpendingClock } from './settleable-decision.js'

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
    if (store.consume !== OUR_CONSUME) return undefined
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

const OUR_CONSUME = MemoryStore.prototype.consume

import type { Decision } from '../core/decision.js'
import type { Limit, Policy } from '../core/limit.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import { decide, type Spender, SpendingClock } from './settleable-decision.js'

/**
 * One limit over a store in this process, the commonest limiter: decided without the list of charges that others need, and
 * without a guard, because it answers at once.
 */
export class LoneLimit {
  readonly #times: SpendingClock

  private constructor(
    readonly store: MemoryStore,
    readonly limit: Limit,
    readonly limiter: string | undefined,
    spender: Spender,
  ) {
    this.#times = new SpendingClock(spender)
  }

  /** Undefined for any other limiter. */
  static of(policy: Policy, limiter: string | undefined, spender: Spender): LoneLimit | undefined {
    const { store } = spender
    if (policy.length > 1 || !(store instanceof MemoryStore)) return undefined
    return new LoneLimit(store, policy[0], limiter, spender)
  }

  /** Spends if it fits. Undefined if the store fails or its `consume` is somebody else's: then it is to be asked as any store is. */
  consume(key: string, cost: number): Decision | undefined {
    const { store } = this
    if (store.consume !== OUR_CONSUME) return undefined
    try {
      const verdict = store.consumeOne(key, this.limit, this.limiter, cost)
      return decide(key, cost, [verdict], 'memory', false, this.#times.spentAt(store.decidedAt))
    } catch {
      return undefined
    }
  }
}

const OUR_CONSUME = MemoryStore.prototype.consume

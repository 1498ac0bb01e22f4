import { type Clock, monotonicClock } from './clock.js'
import type { Decision, Verdict } from './decision.js'
import { mostOf, type Policy } from './limit.js'
import type { LimiterKey } from './limiter-key.js'
import { decide } from './ruling.js'
import type { Store } from './store.js'

interface Denial {
  readonly key: LimiterKey
  readonly policy: Policy
  readonly decision: Decision
  readonly deniedAt: number
}

/**
 * Denials that still hold: a key that the store refused is refused here until its `retryAfterMs` has passed, for costs not
 * smaller, without asking. (For a larger cost the wait told is then the least there can be.) Exact as long as nobody gives units
 * back elsewhere: a refund or reset in this process drops the denial, one in another process shows only when the denial ends, or at
 * once where stores tell each other of resets.
 */
export class DenyCache {
  readonly #denials = new Map<string, Denial>()
  /** How many of them were of keys by limit, of which a change elsewhere may concern any. */
  #records = 0

  private constructor(
    readonly clock: Clock,
    private maxKeys: number,
  ) {}

  /** The one cache of a store and a limiter's name: all limiters that share counts share what is known of them. */
  static of(store: Store, limiter: string, maxKeys: number): DenyCache {
    let caches = CACHES.get(store)
    if (caches === undefined) {
      caches = new Map()
      CACHES.set(store, caches)
    }
    let cache = caches.get(limiter)
    if (cache === undefined) {
      const opened = new DenyCache(store.clock ?? monotonicClock, maxKeys)
      cache = opened
      caches.set(limiter, opened)
      store.onReset?.(key => (key === undefined ? opened.#clear() : opened.drop(key)))
    }
    cache.maxKeys = Math.max(cache.maxKeys, maxKeys)
    return cache
  }

  /** The denial that still holds for this key, cost and policy, as it stands now. */
  find(key: LimiterKey, cost: number, policy: Policy): Decision | undefined {
    const denial = this.#denials.get(textOf(key))
    if (denial === undefined || denial.policy !== policy) return undefined
    const elapsedMs = this.clock.now() - denial.deniedAt
    const { decision } = denial
    // Time that ran back would make the denial last longer than promised.
    if (elapsedMs < 0 || elapsedMs >= decision.retryAfterMs) {
      this.#denials.delete(textOf(key))
      return undefined
    }
    if (cost < decision.cost) return undefined
    const verdicts = decision.verdicts.map(verdict => later(verdict, Math.floor(elapsedMs), cost))
    return decide(denial.key, cost, verdicts, 'deny-cache')
  }

  remember(key: LimiterKey, policy: Policy, decision: Decision): void {
    const text = textOf(key)
    if (this.#denials.size >= this.maxKeys && !this.#denials.has(text)) {
      for (const oldest of this.#denials.keys()) {
        this.#denials.delete(oldest)
        break
      }
    }
    if (typeof key !== 'string') this.#records++
    this.#denials.set(text, { key, policy, decision, deniedAt: this.clock.now() })
  }

  /** Forgets what may no longer hold for this key. Where limits have keys of their own, that may be anything. */
  drop(key: LimiterKey): void {
    if (typeof key === 'string' && this.#records === 0) {
      this.#denials.delete(textOf(key))
      return
    }
    this.#clear()
  }

  #clear(): void {
    this.#denials.clear()
    this.#records = 0
  }
}

const CACHES = new WeakMap<Store, Map<string, DenyCache>>()

/** A text for a key, so that a text and a record never meet. */
function textOf(key: LimiterKey): string {
  return typeof key === 'string' ? `:${key}` : JSON.stringify(key)
}

/** The verdict after some time without change; a cost that can never fit is impossible. */
function later(verdict: Verdict, elapsedMs: number, cost: number): Verdict {
  const never = cost > mostOf(verdict.limit)
  const retryAfterMs = never ? Number.POSITIVE_INFINITY : Math.max(0, verdict.retryAfterMs - elapsedMs)
  return {
    ...verdict,
    allowed: retryAfterMs === 0,
    retryAfterMs,
    resetAfterMs: Math.max(0, verdict.resetAfterMs - elapsedMs),
  }
}

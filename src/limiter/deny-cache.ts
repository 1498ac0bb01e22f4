import { refusedAfter } from '../algorithms/refused-after.js'
import { type Clock, monotonicClock } from '../core/clock.js'
import type { Decision, Verdict } from '../core/decision.js'
import { mostOf, type Policy } from '../core/limit.js'
import { ownCopy, shortKey } from '../core/short-key.js'
import type { Store } from '../stores/store.js'
import type { LimiterKey } from './key.js'
import { decide } from './settleable-decision.js'

interface Denial {
  readonly policy: Policy
  /** Refused this cost, and those not smaller. */
  readonly cost: number
  readonly verdicts: readonly Verdict[]
  readonly retryAfterMs: number
  readonly deniedAt: number
}

/**
 * Denials that still hold: a key that the store refused is refused here until its `retryAfterMs` has passed, for costs not
 * smaller, without asking. (For a larger cost the wait told is then the least there can be.) When it has passed, and what is then
 * allowed leaves too little for the same again, the key is refused here for as long as that is certain: of a client that asks for
 * more than it may have, the store hears of what it grants. Exact as long as nobody gives units back elsewhere: a refund or reset
 * in this process drops the denial, one in another process shows only when the denial ends, or at once where stores tell each
 * other of resets.
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
    // What is over stays, as the sign of a key in demand.
    if (isOver(denial, elapsedMs) || cost < denial.cost) return undefined
    const verdicts = denial.verdicts.map(verdict => later(verdict, Math.floor(elapsedMs), cost))
    return decide(key, cost, verdicts, 'deny-cache')
  }

  /** The store has refused. */
  remember(key: LimiterKey, policy: Policy, { cost, verdicts, retryAfterMs }: Decision): void {
    const text = textOf(key)
    if (this.#denials.size >= this.maxKeys && !this.#denials.has(text)) {
      for (const oldest of this.#denials.keys()) {
        this.#denials.delete(oldest)
        break
      }
    }
    if (typeof key !== 'string') this.#records++
    this.#put(text, { policy, cost, verdicts, retryAfterMs, deniedAt: this.clock.now() })
  }

  /** The store has spent for a key: if it was refused until now, it may be known when the next is due. */
  renew(key: LimiterKey, policy: Policy, { cost, verdicts }: Decision): void {
    if (this.#denials.size === 0 || cost === 0) return
    const text = textOf(key)
    const denial = this.#denials.get(text)
    if (denial === undefined || denial.policy !== policy) return
    const deniedAt = this.clock.now()
    if (!isOver(denial, deniedAt - denial.deniedAt)) return
    const retryAfterMs = verdicts.length === 1 ? refusedAfter(verdicts[0], cost) : undefined
    if (retryAfterMs) {
      const refusal = { ...verdicts[0], allowed: false, retryAfterMs, delayMs: 0 }
      this.#put(text, { policy, cost, verdicts: [refusal], retryAfterMs, deniedAt })
    } else this.#denials.delete(text)
  }

  /** As the newest: the oldest ones go first when there are too many. */
  #put(text: string, denial: Denial): void {
    this.#denials.delete(text)
    this.#denials.set(ownCopy(text), denial)
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

/** Time that ran back would make a denial last longer than promised. */
function isOver({ retryAfterMs }: Denial, elapsedMs: number): boolean {
  return elapsedMs < 0 || elapsedMs >= retryAfterMs
}

/** The text by which a key is kept, short however long the key is. The colon is there so that a text and a record never meet. */
function textOf(key: LimiterKey): string {
  return shortKey(typeof key === 'string' ? `:${key}` : JSON.stringify(key))
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

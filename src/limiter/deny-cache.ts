import { refusedAfter } from './algorithms/registry.js'
import { type Clock, monotonicClock } from './core/clock.js'
import type { Decision, Verdict } from './core/decision.js'
import type { Policy } from './core/limit.js'
import { BoundedMap, getOrMake } from './core/maps.js'
import { ownCopy, shortKey } from './core/short-key.js'
import type { LimiterKey } from './key.js'
import { decisionOf } from './settlement.js'
import type { Store } from './store.js'

interface Denial {
  readonly policy: Policy
  /** The cost that was refused; larger costs are refused too. */
  readonly cost: number
  readonly verdicts: readonly Verdict[]
  readonly retryAfterMs: number
  readonly deniedAt: number
  /** Whether the store's answer may determine when larger costs fit. */
  readonly determines: boolean
}

/** What another process changes counts here within this time. */
const LONGEST_MS = 1000

/**
 * Remembers denials: a key that the store refused is refused here, without asking the store, until its `retryAfterMs`
 * has passed, for a second at most, for the same and larger costs; for larger costs only where the store's answer
 * determines when they fit. If a later allowed request leaves too little for the same cost, the key is refused here
 * again for as long as that is certain: so of a client that asks for more than its limit, the store receives the
 * requests that it allows, and one other a second. A refund, reset or block in this process drops the denial; one in
 * another process counts when the second is over.
 */
export class DenyCache {
  readonly #denials: BoundedMap<string, Denial>
  /** Whether a denial of a record of keys may be remembered: a change of any key may affect it. */
  #hasRecords = false

  private constructor(
    readonly clock: Clock,
    maxKeys: number,
  ) {
    this.#denials = new BoundedMap(maxKeys)
  }

  /** The cache of a store and a limiter's name, shared by all limiters that share counts. */
  static of(store: Store, limiter: string, maxKeys: number): DenyCache {
    const caches = getOrMake(CACHES, store, () => new Map())
    const cache = getOrMake(caches, limiter, () => new DenyCache(store.clock ?? monotonicClock, maxKeys))
    cache.#denials.max = Math.max(cache.#denials.max, maxKeys)
    return cache
  }

  /** The denial that still holds for this key, cost and policy, with its present times. */
  find(key: LimiterKey, cost: number, policy: Policy): Decision | undefined {
    if (this.#denials.size === 0) return undefined
    const denial = this.#denials.get(cacheKeyOf(key))
    if (denial === undefined || denial.policy !== policy) return undefined
    const elapsedMs = this.clock.now() - denial.deniedAt
    // An ended denial stays, as a sign that the key is in demand.
    if (isOver(denial, elapsedMs)) return undefined
    const verdicts = verdictsOf(denial, elapsedMs, cost)
    return verdicts && decisionOf(key, cost, verdicts, 'deny-cache')
  }

  /** The store refused a decision. `determines`: whether its answer may determine when larger costs fit. */
  remember(key: LimiterKey, policy: Policy, { cost, verdicts, retryAfterMs }: Decision, determines: boolean): void {
    const text = cacheKeyOf(key)
    const deniedAt = this.clock.now()
    const known = this.#denials.get(text)
    // The denial of a smaller cost refuses more.
    if (known?.policy === policy && known.cost < cost && !isOver(known, deniedAt - known.deniedAt)) return
    if (typeof key !== 'string') this.#hasRecords = true
    this.#put(text, { policy, cost, verdicts, retryAfterMs, deniedAt, determines })
  }

  /** The store allowed a decision: if the key was refused before, the time of its next unit may be known. */
  renew(key: LimiterKey, policy: Policy, { cost, verdicts }: Decision): void {
    if (this.#denials.size === 0 || cost === 0) return
    const text = cacheKeyOf(key)
    const denial = this.#denials.get(text)
    if (denial === undefined || denial.policy !== policy) return
    const deniedAt = this.clock.now()
    if (!isOver(denial, deniedAt - denial.deniedAt)) return
    const retryAfterMs = verdicts.length === 1 ? refusedAfter(verdicts[0], cost) : undefined
    if (retryAfterMs) {
      const refusals = [{ ...verdicts[0], allowed: false, retryAfterMs, delayMs: 0 }]
      this.#put(text, { policy, cost, verdicts: refusals, retryAfterMs, deniedAt, determines: true })
    } else this.#denials.delete(text)
  }

  /** Inserts as the newest entry: the oldest are removed when there are too many. */
  #put(text: string, denial: Denial): void {
    this.#denials.delete(text)
    this.#denials.set(ownCopy(text), denial)
  }

  /** Drops the denials that may no longer hold for this key. For records of keys, that may be any of them. */
  drop(key: LimiterKey): void {
    if (typeof key === 'string' && !this.#hasRecords) {
      this.#denials.delete(cacheKeyOf(key))
      return
    }
    this.#denials.clear()
    this.#hasRecords = false
  }
}

/** By store and the limiter's name. */
const CACHES = new WeakMap<Store, Map<string, DenyCache>>()

/** After the clock was set back, a denial would last longer than promised. */
function isOver({ retryAfterMs }: Denial, elapsedMs: number): boolean {
  return elapsedMs < 0 || elapsedMs >= retryAfterMs || elapsedMs >= LONGEST_MS
}

/**
 * The text that stands for a key in the cache, short for keys of any length. The colon keeps texts and records apart.
 */
function cacheKeyOf(key: LimiterKey): string {
  return shortKey(typeof key === 'string' ? `:${key}` : JSON.stringify(key))
}

/** The verdicts on a cost after some time without change; undefined if the store's answer does not determine them. */
function verdictsOf(denial: Denial, elapsedMs: number, cost: number): Verdict[] | undefined {
  if (cost < denial.cost || (cost > denial.cost && !denial.determines)) return undefined
  const verdicts: Verdict[] = []
  for (const verdict of denial.verdicts) {
    const waitMs = cost === denial.cost ? verdict.retryAfterMs : refusedAfter(verdict, cost)
    if (waitMs === undefined) return undefined
    verdicts.push(later(verdict, Math.max(waitMs, verdict.retryAfterMs), Math.floor(elapsedMs)))
  }
  return verdicts
}

function later(verdict: Verdict, waitMs: number, elapsedMs: number): Verdict {
  const retryAfterMs = Math.max(0, waitMs - elapsedMs)
  return {
    ...verdict,
    allowed: retryAfterMs === 0,
    retryAfterMs,
    resetAfterMs: Math.max(0, verdict.resetAfterMs - elapsedMs),
  }
}

import { refusedAfter } from './algorithms/registry.js'
import { type Clock, monotonicClock } from './core/clock.js'
import type { Decision, Verdict } from './core/decision.js'
import type { Policy } from './core/limit.js'
import { BoundedMap, getOrMake } from './core/maps.js'
import { ownCopy, shortKey } from './core/short-key.js'
import type { LimiterKey } from './key.js'
import { offersOf } from './offers.js'
import { decisionOf } from './settlement.js'
import type { Store } from './store.js'

interface Denial {
  readonly policy: Policy
  /** The cost that was refused; larger costs are refused too. */
  readonly cost: number
  readonly verdicts: readonly Verdict[]
  readonly retryAfterMs: number
  readonly deniedAt: number
  /** It ends then, if that is before `retryAfterMs`: changes in other processes may not have been heard. */
  readonly endsAfterMs: number
  /** Whether the store's answer may determine when larger costs fit. */
  readonly determines: boolean
  /** Later denials of larger costs by the store. */
  readonly larger: readonly Denial[]
}

/** A change in another process ends a remembered denial within this time. */
const LATE_MS = 1000
/** Most larger costs of a key to remember beside the smallest. */
const MAX_LARGER = 4

/**
 * Remembers denials: a key that the store refused is refused here, without asking the store, until its `retryAfterMs`
 * has passed, for the same and larger costs; for larger costs only where the store's answer determines when they fit.
 * If a later allowed request leaves too little for the same cost, the key is refused here again for as long as that is
 * certain: so from a client that asks for more than its limit, the store only receives the requests that it allows. A
 * refund or reset in this process drops the denial; one in another process does so if the store reports it
 * (`Store.onReset`), else the denial stays until it ends.
 */
export class DenyCache {
  readonly #denials: BoundedMap<string, Denial>
  /** The longest time for which a denial is remembered. */
  readonly #lastMs: number
  /** The epoch of the last drop, at an index from the key's hash; several keys share an index. */
  readonly #droppedIn = new Float64Array(DROP_BUCKETS)
  #allDroppedIn = 0
  /** Grows with every change. An answer is remembered only if its key has not changed since the request. */
  epoch = 0
  /** How many cached denials are of records of keys, which a reset of any key may affect. */
  #records = 0

  private constructor(
    readonly store: Store,
    readonly clock: Clock,
    maxKeys: number,
  ) {
    this.#denials = new BoundedMap(maxKeys)
    this.#lastMs = offersOf(store)?.denialsLastMs ?? Number.POSITIVE_INFINITY
  }

  // Held here, because the store does not keep its listeners alive.
  readonly #onReset = (key: string | undefined) => (key === undefined ? this.#shorten() : this.drop(key))

  /** The cache of a store and a limiter's name, shared by all limiters that share counts. */
  static of(store: Store, limiter: string, maxKeys: number): DenyCache {
    const caches = cachesOf(store)
    let cache = caches.byLimiter.get(limiter)
    if (cache === undefined) {
      cache = new DenyCache(store, store.clock ?? monotonicClock, maxKeys)
      caches.byLimiter.set(limiter, cache)
      store.onReset?.(cache.#onReset)
    }
    cache.#denials.max = Math.max(cache.#denials.max, maxKeys)
    caches.users++
    return cache
  }

  /** Called once when a limiter closes. After the last one of the store it need not listen for resets. */
  leave(): void {
    if (--cachesOf(this.store).users === 0) this.store.hearResets?.(0)
  }

  /** The denial that still holds for this key, cost and policy, with its present times. */
  find(key: LimiterKey, cost: number, policy: Policy): Decision | undefined {
    if (this.#denials.size === 0) return undefined
    const denial = this.#denials.get(cacheKeyOf(key))
    if (denial === undefined || denial.policy !== policy) return undefined
    const now = this.clock.now()
    const elapsedMs = now - denial.deniedAt
    // An ended denial stays, as a sign that the key is in demand.
    if (isOver(denial, elapsedMs) || cost < denial.cost) return undefined
    this.store.hearResets?.(denial.retryAfterMs - elapsedMs)
    for (const one of [denial, ...denial.larger]) {
      const verdicts = verdictsOf(one, now - one.deniedAt, cost)
      if (verdicts !== undefined) return decisionOf(key, cost, verdicts, 'deny-cache')
    }
    return undefined
  }

  /**
   * The store refused a decision that was requested in `epoch`. `determines`: whether its answer may determine when
   * larger costs fit.
   */
  remember(
    key: LimiterKey,
    policy: Policy,
    { cost, verdicts, retryAfterMs }: Decision,
    epoch: number,
    determines: boolean,
  ): void {
    if (this.#wasDroppedSince(epoch, key)) return
    const text = cacheKeyOf(key)
    const deniedAt = this.clock.now()
    const denial: Denial = {
      policy,
      cost,
      verdicts,
      retryAfterMs,
      deniedAt,
      endsAfterMs: this.#lastMs,
      determines,
      larger: [],
    }
    const known = this.#denials.get(text)
    if (known?.policy === policy && known.cost < cost && !isOver(known, deniedAt - known.deniedAt)) {
      const others = known.larger.filter(one => one.cost !== cost)
      this.#put(text, { ...known, larger: [...others.slice(1 - MAX_LARGER), denial] })
      return
    }
    if (typeof key !== 'string') this.#records++
    this.#put(text, denial)
    this.store.hearResets?.(retryAfterMs)
  }

  /**
   * The store allowed a decision that was requested in `epoch`: if the key was refused before, the time of its next
   * unit may be known.
   */
  renew(key: LimiterKey, policy: Policy, { cost, verdicts }: Decision, epoch: number): void {
    if (this.#denials.size === 0 || cost === 0 || this.#wasDroppedSince(epoch, key)) return
    const text = cacheKeyOf(key)
    const denial = this.#denials.get(text)
    if (denial === undefined || denial.policy !== policy) return
    const deniedAt = this.clock.now()
    if (!isOver(denial, deniedAt - denial.deniedAt)) return
    const retryAfterMs = verdicts.length === 1 ? refusedAfter(verdicts[0], cost) : undefined
    if (retryAfterMs) {
      const refusals = [{ ...verdicts[0], allowed: false, retryAfterMs, delayMs: 0 }]
      const until = { retryAfterMs, deniedAt, endsAfterMs: this.#lastMs }
      this.#put(text, { policy, cost, verdicts: refusals, ...until, determines: true, larger: [] })
    } else this.#denials.delete(text)
  }

  /** Inserts as the newest entry: the oldest are removed when there are too many. */
  #put(text: string, denial: Denial): void {
    this.#denials.delete(text)
    this.#denials.set(ownCopy(text), denial)
  }

  /** Drops the denials that may no longer hold for this key. For records of keys, that may be any of them. */
  drop(key: LimiterKey): void {
    if (typeof key !== 'string' || this.#records > 0) {
      this.#clear()
      return
    }
    this.#denials.delete(cacheKeyOf(key))
    this.#droppedIn[bucketOf(key)] = ++this.epoch
  }

  /**
   * Messages of other processes may have been lost, for example because listening has only just begun: a message counts
   * as lost when it is a second late.
   */
  #shorten(): void {
    const now = this.clock.now()
    for (const [text, denial] of this.#denials) {
      const ageMs = now - denial.deniedAt
      if (ageMs < 0 || ageMs >= LATE_MS) this.#denials.delete(text)
      else this.#denials.set(text, { ...denial, endsAfterMs: LATE_MS })
    }
    this.#allDroppedIn = ++this.epoch
  }

  #clear(): void {
    this.#denials.clear()
    this.#records = 0
    this.#allDroppedIn = ++this.epoch
  }

  /** Keys may share an index: then an answer is not remembered although it could be. */
  #wasDroppedSince(epoch: number, key: LimiterKey): boolean {
    if (this.epoch === epoch) return false
    if (this.#allDroppedIn > epoch) return true
    if (typeof key === 'string') return this.#droppedIn[bucketOf(key)] > epoch
    return true
  }
}

const DROP_BUCKETS = 1024

/** FNV-1a of the key's first 64 characters. */
function bucketOf(key: string): number {
  let hash = 0x811c9dc5
  const length = Math.min(key.length, 64)
  for (let i = 0; i < length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash >>> 0) % DROP_BUCKETS
}

/** The caches of one store, by the limiter's name, and the number of limiters that use them. */
interface StoreCaches {
  readonly byLimiter: Map<string, DenyCache>
  users: number
}

const CACHES = new WeakMap<Store, StoreCaches>()

function cachesOf(store: Store): StoreCaches {
  return getOrMake(CACHES, store, () => ({ byLimiter: new Map(), users: 0 }))
}

/** After the clock was set back, a denial would last longer than promised. */
function isOver({ retryAfterMs, endsAfterMs }: Denial, elapsedMs: number): boolean {
  return elapsedMs < 0 || elapsedMs >= retryAfterMs || elapsedMs >= endsAfterMs
}

/**
 * The text that stands for a key in the cache, short for keys of any length. The colon keeps texts and records apart.
 */
function cacheKeyOf(key: LimiterKey): string {
  return shortKey(typeof key === 'string' ? `:${key}` : JSON.stringify(key))
}

/** The verdicts on a cost after some time without change; undefined if the store's answer does not determine them. */
function verdictsOf(denial: Denial, elapsedMs: number, cost: number): Verdict[] | undefined {
  if (isOver(denial, elapsedMs) || cost < denial.cost || (cost > denial.cost && !denial.determines)) return undefined
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

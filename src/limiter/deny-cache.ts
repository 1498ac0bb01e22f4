import { refusedAfter } from '../algorithms/refused-after.js'
import { type Clock, monotonicClock } from '../core/clock.js'
import type { Decision, Verdict } from '../core/decision.js'
import type { Policy } from '../core/limit.js'
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
  /** What the store said of larger costs since. */
  readonly larger: readonly Denial[]
}

/** So many larger costs of a key are remembered beside the smallest. */
const MOST_LARGER = 4

/**
 * Denials that still hold: a key that the store refused is refused here until its `retryAfterMs` has passed, for costs not
 * smaller, without asking: for larger ones where what the store said tells when they fit. When it has passed, and what is then
 * allowed leaves too little for the same again, the key is refused here for as long as that is certain: of a client that asks for
 * more than it may have, the store hears of what it grants. A refund or reset in this process drops the denial; one in another
 * process does where the store hears of it (`Store.onReset`), else the denial lasts until it ends.
 */
export class DenyCache {
  readonly #denials = new Map<string, Denial>()
  /** Of some keys: the epoch in which they were last dropped, at a place that the key's hash gives. */
  readonly #droppedIn = new Float64Array(DROP_PLACES)
  #allDroppedIn = 0
  #epoch = 0
  /** How many limiters use it. */
  #users = 0
  /** How many of them were of keys by limit, of which a change elsewhere may concern any. */
  #records = 0

  private constructor(
    readonly store: Store,
    readonly clock: Clock,
    private maxKeys: number,
  ) {}

  // The store does not keep its listeners alive.
  readonly #onReset = (key: string | undefined) => (key === undefined ? this.#clear() : this.drop(key))

  /** The one cache of a store and a limiter's name: all limiters that share counts share what is known of them. */
  static of(store: Store, limiter: string, maxKeys: number): DenyCache {
    let caches = CACHES.get(store)
    if (caches === undefined) {
      caches = new Map()
      CACHES.set(store, caches)
    }
    let cache = caches.get(limiter)
    if (cache === undefined) {
      cache = new DenyCache(store, store.clock ?? monotonicClock, maxKeys)
      caches.set(limiter, cache)
      store.onReset?.(cache.#onReset)
    }
    cache.maxKeys = Math.max(cache.maxKeys, maxKeys)
    cache.#users++
    return cache
  }

  /** A limiter is closed. After the last one the store need not listen to resets. */
  leave(): void {
    this.#users--
    if (this.#users === 0) this.store.hearResets?.(0)
  }

  /** Grows with every change. An answer is only remembered if the key was not changed since this was asked for. */
  get epoch(): number {
    return this.#epoch
  }

  /** The denial that still holds for this key, cost and policy, as it stands now. */
  find(key: LimiterKey, cost: number, policy: Policy): Decision | undefined {
    const denial = this.#denials.get(textOf(key))
    if (denial === undefined || denial.policy !== policy) return undefined
    const now = this.clock.now()
    const elapsedMs = now - denial.deniedAt
    // What is over stays, as the sign of a key in demand.
    if (isOver(denial, elapsedMs) || cost < denial.cost) return undefined
    this.store.hearResets?.(denial.retryAfterMs - elapsedMs)
    for (const one of [denial, ...denial.larger]) {
      const verdicts = verdictsOf(one, now - one.deniedAt, cost)
      if (verdicts !== undefined) return decide(key, cost, verdicts, 'deny-cache')
    }
    return undefined
  }

  /** The store has refused a decision that was asked for in `epoch`. */
  remember(key: LimiterKey, policy: Policy, { cost, verdicts, retryAfterMs }: Decision, epoch: number): void {
    if (this.#wasDroppedSince(epoch, key)) return
    const text = textOf(key)
    const deniedAt = this.clock.now()
    const denial: Denial = { policy, cost, verdicts, retryAfterMs, deniedAt, larger: [] }
    const known = this.#denials.get(text)
    if (known?.policy === policy && known.cost < cost && !isOver(known, deniedAt - known.deniedAt)) {
      const others = known.larger.filter(one => one.cost !== cost)
      this.#put(text, { ...known, larger: [...others.slice(1 - MOST_LARGER), denial] })
      return
    }
    if (this.#denials.size >= this.maxKeys && !this.#denials.has(text)) {
      for (const oldest of this.#denials.keys()) {
        this.#denials.delete(oldest)
        break
      }
    }
    if (typeof key !== 'string') this.#records++
    this.#put(text, denial)
    this.store.hearResets?.(retryAfterMs)
  }

  /** The store has spent for a key, as was asked for in `epoch`: if the key was refused before, it may be known when the next unit is due. */
  renew(key: LimiterKey, policy: Policy, { cost, verdicts }: Decision, epoch: number): void {
    if (this.#denials.size === 0 || cost === 0 || this.#wasDroppedSince(epoch, key)) return
    const text = textOf(key)
    const denial = this.#denials.get(text)
    if (denial === undefined || denial.policy !== policy) return
    const deniedAt = this.clock.now()
    if (!isOver(denial, deniedAt - denial.deniedAt)) return
    const retryAfterMs = verdicts.length === 1 ? refusedAfter(verdicts[0], cost) : undefined
    if (retryAfterMs) {
      const refusal = { ...verdicts[0], allowed: false, retryAfterMs, delayMs: 0 }
      this.#put(text, { policy, cost, verdicts: [refusal], retryAfterMs, deniedAt, larger: [] })
    } else this.#denials.delete(text)
  }

  /** As the newest: the oldest ones go first when there are too many. */
  #put(text: string, denial: Denial): void {
    this.#denials.delete(text)
    this.#denials.set(ownCopy(text), denial)
  }

  /** Forgets what may no longer hold for this key. Where limits have keys of their own, that may be anything. */
  drop(key: LimiterKey): void {
    if (typeof key !== 'string' || this.#records > 0) {
      this.#clear()
      return
    }
    this.#denials.delete(textOf(key))
    this.#droppedIn[placeOf(key)] = ++this.#epoch
  }

  #clear(): void {
    this.#denials.clear()
    this.#records = 0
    this.#allDroppedIn = ++this.#epoch
  }

  /** Some keys share a place: then an answer is forgotten which could have been remembered. */
  #wasDroppedSince(epoch: number, key: LimiterKey): boolean {
    if (this.#epoch === epoch) return false
    if (this.#allDroppedIn > epoch) return true
    if (typeof key === 'string') return this.#droppedIn[placeOf(key)] > epoch
    return true
  }
}

const DROP_PLACES = 1024

/** FNV-1a of the key's first 64 characters. */
function placeOf(key: string): number {
  let hash = 0x811c9dc5
  const length = Math.min(key.length, 64)
  for (let i = 0; i < length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash >>> 0) % DROP_PLACES
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

/** The verdicts on a cost after some time without change; undefined if what the store said does not tell them. */
function verdictsOf(denial: Denial, elapsedMs: number, cost: number): Verdict[] | undefined {
  if (isOver(denial, elapsedMs) || cost < denial.cost) return undefined
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

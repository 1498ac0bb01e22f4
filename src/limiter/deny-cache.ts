import { type Clock, monotonicClock } from './core/clock.js'
import { strictest, type Verdict } from './core/decision.js'
import type { Limit } from './core/limit.js'
import { BoundedMap, getOrMake } from './core/maps.js'
import { ownCopy, shortKey } from './core/short-key.js'
import type { BoundPolicy, Change, Counts, DecidesNow, Keys, Origin, Reply, Verb } from './port.js'
import { refusedAfter } from './refused-after.js'
import type { ChargedAt } from './store.js'

interface Denial {
  readonly limits: readonly Limit[]
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
  static of(counts: Counts, limiter: string, maxKeys: number): DenyCache {
    const caches = getOrMake(CACHES, counts, () => new Map())
    const cache = getOrMake(caches, limiter, () => new DenyCache(counts.clock ?? monotonicClock, maxKeys))
    cache.#denials.max = Math.max(cache.#denials.max, maxKeys)
    return cache
  }

  /** The denial that still holds for these keys, this cost and these limits, with its present times. */
  find(keys: Keys, cost: number, limits: readonly Limit[]): readonly Verdict[] | undefined {
    if (this.#denials.size === 0) return undefined
    const denial = this.#denials.get(cacheKeyOf(keys))
    if (denial === undefined || denial.limits !== limits) return undefined
    const elapsedMs = this.#now() - denial.deniedAt
    // An ended denial stays, as a sign that the key is in demand.
    if (isOver(denial, elapsedMs)) return undefined
    return verdictsOf(denial, elapsedMs, cost)
  }

  /** The store refused a decision. `determines`: whether its answer may determine when larger costs fit. */
  remember(
    keys: Keys,
    limits: readonly Limit[],
    cost: number,
    verdicts: readonly Verdict[],
    determines: boolean,
  ): void {
    const text = cacheKeyOf(keys)
    const deniedAt = this.#now()
    const known = this.#denials.get(text)
    // The denial of a smaller cost refuses more.
    if (known?.limits === limits && known.cost < cost && !isOver(known, deniedAt - known.deniedAt)) return
    if (typeof keys !== 'string') this.#hasRecords = true
    const { retryAfterMs } = strictest(verdicts)
    this.#put(text, { limits, cost, verdicts, retryAfterMs, deniedAt, determines })
  }

  /** The store allowed a decision: if the key was refused before, the time of its next unit may be known. */
  renew(keys: Keys, limits: readonly Limit[], cost: number, verdicts: readonly Verdict[]): void {
    if (this.#denials.size === 0 || cost === 0) return
    const text = cacheKeyOf(keys)
    const denial = this.#denials.get(text)
    if (denial === undefined || denial.limits !== limits) return
    const deniedAt = this.#now()
    if (!isOver(denial, deniedAt - denial.deniedAt)) return
    const retryAfterMs = verdicts.length === 1 ? refusedAfter(verdicts[0], cost) : undefined
    if (retryAfterMs) {
      const refusals = [{ ...verdicts[0], allowed: false, retryAfterMs, delayMs: 0 }]
      this.#put(text, { limits, cost, verdicts: refusals, retryAfterMs, deniedAt, determines: true })
    } else this.#denials.delete(text)
  }

  /** NaN while a user's clock fails: then no denial holds. */
  #now(): number {
    try {
      return this.clock.now()
    } catch {
      return Number.NaN
    }
  }

  /** Inserts as the newest entry: the oldest are removed when there are too many. */
  #put(text: string, denial: Denial): void {
    this.#denials.delete(text)
    this.#denials.set(ownCopy(text), denial)
  }

  /** Drops the denials that may no longer hold for these keys. For records of keys, that may be any of them. */
  drop(keys: Keys): void {
    if (typeof keys === 'string' && !this.#hasRecords) {
      this.#denials.delete(cacheKeyOf(keys))
      return
    }
    this.#denials.clear()
    this.#hasRecords = false
  }
}

const REMEMBERED: Origin = { source: 'deny-cache' }

/** A policy whose denials are remembered. */
export class DenyingPolicy implements BoundPolicy {
  readonly now: DecidesNow | undefined
  readonly isLeased: true | undefined

  constructor(
    readonly policy: BoundPolicy,
    readonly cache: DenyCache,
    /** Denials hold for these, as one object. */
    readonly limits: readonly Limit[],
  ) {
    this.now = policy.now
    this.isLeased = policy.isLeased
  }

  decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    const denied = this.cache.find(keys, cost, this.limits)
    if (denied === undefined) this.policy.decide(verb, keys, cost, new RememberingReply(this, verb, keys, cost, reply))
    else reply.resolve(denied, performance.now(), undefined, REMEMBERED)
  }

  /**
   * Drops the denial twice: before, so that no request is refused meanwhile; after, because an old answer may have been
   * remembered during the change.
   */
  async change(change: Change, keys: Keys): Promise<void> {
    this.cache.drop(keys)
    try {
      await this.policy.change(change, keys)
    } finally {
      this.cache.drop(keys)
    }
  }

  async close(): Promise<void> {
    await this.policy.close?.()
  }
}

/** Remembers what the store has answered. */
class RememberingReply implements Reply {
  constructor(
    readonly denying: DenyingPolicy,
    readonly verb: Verb,
    readonly keys: Keys,
    readonly cost: number,
    readonly reply: Reply,
  ) {}

  resolve(verdicts: readonly Verdict[], answeredAt: number, chargedAt?: ChargedAt, origin?: Origin): void {
    const { denying, verb, keys, cost } = this
    const { cache, limits, isLeased } = denying
    // What another than the store has answered is known without the cache.
    if (origin === undefined) {
      if (!isAllowed(verdicts)) cache.remember(keys, limits, cost, verdicts, !isLeased)
      else if (verb === 'consume' && !isLeased) cache.renew(keys, limits, cost, verdicts)
    }
    this.reply.resolve(verdicts, answeredAt, chargedAt, origin)
  }

  reject(error: unknown): void {
    this.reply.reject(error)
  }
}

function isAllowed(verdicts: readonly Verdict[]): boolean {
  for (const { allowed } of verdicts) if (!allowed) return false
  return true
}

/** By store and the limiter's name. */
const CACHES = new WeakMap<Counts, Map<string, DenyCache>>()

/** After the clock was set back, a denial would last longer than promised. */
function isOver({ retryAfterMs }: Denial, elapsedMs: number): boolean {
  return !(elapsedMs >= 0) || elapsedMs >= retryAfterMs || elapsedMs >= LONGEST_MS
}

/**
 * The text that stands for a key in the cache, short for keys of any length. The colon keeps texts and records apart.
 */
function cacheKeyOf(keys: Keys): string {
  return shortKey(typeof keys === 'string' ? `:${keys}` : JSON.stringify(keys))
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

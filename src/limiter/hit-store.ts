import { type Clock, systemClock } from './core/clock.js'
import { blockedVerdict, type Verdict, verdictOf } from './core/decision.js'
import { PolicyError, StoreError, shown } from './core/errors.js'
import { keySegment } from './core/key-segment.js'
import type { Limit, Policy } from './core/limit.js'
import { getOrMake } from './core/maps.js'
import { emitWarning } from './core/warnings.js'
import { MemoryStore } from './memory/memory-store.js'
import { type Charge, type ChargeReceipt, DEFAULT_LIMITER, type Store } from './store.js'

/** The count of a key. */
interface Hits {
  /** Requests counted in the current window, refused ones included. */
  totalHits: number
  /** When counting starts anew; undefined if the store does not know. */
  resetTime: Date | undefined
}

/**
 * A store in the format of express-rate-limit (for Mongo, Memcached, Postgres, DynamoDB …): it counts hits, each in the
 * one window that `init` gave it, and knows no limit.
 */
export interface HitStore {
  /** Called once, before anything else, with `windowMs` and the limiter's other options. */
  init?(options: never): void | Promise<void>
  increment(key: string): Promise<Hits> | Hits
  decrement(key: string): Promise<void> | void
  resetKey(key: string): Promise<void> | void
  resetAll?(): Promise<void> | void
  get?(key: string): Promise<Hits | undefined> | Hits | undefined
}

/** The store format of express-rate-limit before version 6, with callbacks. */
export interface CallbackHitStore {
  incr(key: string, callback: (error: Error | undefined, totalHits: number, resetTime: Date | undefined) => void): void
  decrement(key: string): void
  resetKey(key: string): void
  resetAll?(): void
}

/** True for a store of express-rate-limit, old or new, by its shape. */
export function countsHits(store: unknown): store is HitStore | CallbackHitStore {
  const { increment, incr, decrement, resetKey, consume } = (store ?? {}) as Record<string, unknown>
  return consume === undefined && isFunction(increment ?? incr) && isFunction(decrement) && isFunction(resetKey)
}

export function callsBack(store: HitStore | CallbackHitStore): store is CallbackHitStore {
  return isFunction((store as Partial<CallbackHitStore>).incr) && !isFunction((store as Partial<HitStore>).increment)
}

/** Adapts a callback store to the format with promises. Callback stores have no `get`. */
export class PromisedHitStore implements HitStore {
  constructor(readonly store: CallbackHitStore) {}

  increment(key: string): Promise<Hits> {
    return new Promise((resolve, reject) => {
      this.store.incr(key, (error, totalHits, resetTime) => {
        if (error) reject(error)
        else resolve({ totalHits, resetTime })
      })
    })
  }

  async decrement(key: string): Promise<void> {
    return this.store.decrement(key)
  }

  async resetKey(key: string): Promise<void> {
    return this.store.resetKey(key)
  }

  async resetAll(): Promise<void> {
    return this.store.resetAll?.()
  }
}

function isFunction(value: unknown): boolean {
  return typeof value === 'function'
}

const ADAPTERS = new WeakMap<HitStore | CallbackHitStore, HitStoreAdapter>()

/**
 * Adapts a store of express-rate-limit to the `Store` interface, for policies that such a store can count: one limit, a
 * fixed window, the same window for all limiters on that store. Throws `PolicyError` for any other.
 */
export function adaptHitStore(store: HitStore | CallbackHitStore, policy: Policy): HitStoreAdapter {
  checkPolicy(store, policy)
  const adapter = getOrMake(ADAPTERS, store, () => new HitStoreAdapter(store, policy[0]))
  adapter.checkWindow(policy[0])
  return adapter
}

/**
 * Decides by the hit count of a store of express-rate-limit. Such a store counts first, so the hits of a refused
 * request are given back at once; meanwhile, other requests may be refused although they would have fitted, but none is
 * allowed that does not fit. A cost of n is n hits. To peek, a store without `get` has to count a hit and give it back.
 */
class HitStoreAdapter implements Store {
  readonly clock: Clock = systemClock
  readonly #store: HitStore
  readonly #windowMs: number
  /** Such a store has no blocks: this process keeps them, and what leads to them. */
  readonly #blocks = new MemoryStore({ clock: this.clock })

  constructor(store: HitStore | CallbackHitStore, limit: Limit) {
    this.#store = callsBack(store) ? new PromisedHitStore(store) : store
    this.#windowMs = limit.windowMs
    this.#init(limit)
  }

  /** Throws `PolicyError` for another window than that of the first limit. */
  checkWindow({ windowMs }: Limit): void {
    if (windowMs === this.#windowMs) return
    throw new PolicyError(
      `policy: the store ${shown(this.#store)} already counts in windows of ${this.#windowMs} ms, given one of ` +
        `${windowMs} ms: expected another instance of the store, with a prefix of its own`,
    )
  }

  async consume([charge]: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    const { limit } = charge
    if (cost === 0 || cost > limit.quota || this.#blockedMs(charge) > 0) return this.peek([charge], cost)
    const key = keyOf(charge)
    const hits = await this.#count(key, cost)
    const resetAfterMs = this.#resetAfterMs(hits)
    const left = limit.quota - hits.totalHits
    if (left >= 0) return [verdictOf(limit, left, 0, resetAfterMs)]
    // Not awaited: the refusal stands anyway, and a store that fails here only keeps the key refused a little longer.
    this.#giveBack(key, cost).catch(() => {})
    return [verdictOf(limit, left + cost, resetAfterMs, resetAfterMs)]
  }

  async peek([charge]: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    const verdict = await this.#peek(charge, cost)
    const blockedMs = this.#blockedMs(charge)
    if (blockedMs === 0) return [verdict]
    return [blockedVerdict(verdict.allowed ? await this.#peek(charge, 0) : verdict, blockedMs)]
  }

  async #peek(charge: Charge, cost: number): Promise<Verdict> {
    const { limit } = charge
    const hits = await this.#look(keyOf(charge))
    const left = limit.quota - (hits?.totalHits ?? 0)
    const resetAfterMs = hits && hits.totalHits > 0 ? this.#resetAfterMs(hits) : 0
    if (cost === 0 || cost <= left)
      return verdictOf(limit, left - cost, 0, cost > 0 ? resetAfterMs || limit.windowMs : resetAfterMs)
    return verdictOf(limit, left, cost > limit.quota ? Number.POSITIVE_INFINITY : resetAfterMs, resetAfterMs)
  }

  async refund([charge]: readonly Charge[], cost: number): Promise<void> {
    const key = keyOf(charge)
    // Many stores would count below 0 and then allow more than the limit.
    const most = this.#store.get === undefined ? cost : ((await this.#store.get(key))?.totalHits ?? 0)
    await this.#giveBack(key, Math.min(cost, most))
  }

  /** Within the window of the decision a hit is like any other; when that has ended, nothing of it counts. */
  async giveBack([receipt]: readonly ChargeReceipt[], units: number): Promise<void> {
    if (this.clock.now() < receipt.chargedAt + receipt.resetAfterMs) await this.refund([receipt], units)
  }

  async charge([charge]: readonly Charge[], cost: number): Promise<void> {
    if (cost > 0) await this.#count(keyOf(charge), cost)
  }

  async reset([charge]: readonly Charge[]): Promise<void> {
    await this.#store.resetKey(keyOf(charge))
  }

  block(charges: readonly Charge[], forMs: number): void {
    this.#blocks.block(charges, forMs)
  }

  #blockedMs(charge: Charge): number {
    const [{ blocked, retryAfterMs }] = this.#blocks.peek([charge], 0)
    return blocked ? retryAfterMs : 0
  }

  #init(limit: Limit): void {
    const options = { windowMs: limit.windowMs, limit: limit.quota }
    try {
      Promise.resolve(this.#store.init?.(options as never)).catch(warn)
    } catch (error) {
      warn(error)
    }
  }

  async #count(key: string, cost: number): Promise<Hits> {
    const all = await Promise.all(Array.from({ length: cost }, () => this.#store.increment(key)))
    const hits = all.reduce((most, one) => (one?.totalHits > most?.totalHits ? one : most))
    if (Number.isSafeInteger(hits?.totalHits) && hits.totalHits >= 1) return hits
    throw new StoreError(`the store counted ${shown(hits?.totalHits)} hits, expected an integer ≥ 1`)
  }

  async #look(key: string): Promise<Hits | undefined> {
    if (this.#store.get !== undefined) return this.#store.get(key)
    const { totalHits, resetTime } = await this.#count(key, 1)
    await this.#giveBack(key, 1)
    return { totalHits: totalHits - 1, resetTime }
  }

  async #giveBack(key: string, cost: number): Promise<void> {
    await Promise.all(Array.from({ length: cost }, () => this.#store.decrement(key)))
  }

  /** At least 1 ms: by the store's clock the window has not ended. */
  #resetAfterMs({ resetTime }: Hits): number {
    const atMs = resetTime === undefined ? Number.NaN : new Date(resetTime).getTime()
    return Number.isNaN(atMs) ? this.#windowMs : Math.max(1, Math.ceil(atMs - this.clock.now()))
  }
}

function checkPolicy(store: HitStore | CallbackHitStore, policy: Policy): void {
  const what = `policy: the store ${shown(store)} is one of express-rate-limit`
  if (policy.length !== 1) {
    throw new PolicyError(
      `${what}, which counts one window, given ${policy.length} limits: expected one, like "100/1m"`,
    )
  }
  const [{ algorithm }] = policy
  if (algorithm === 'fixed-window') return
  throw new PolicyError(`${what}, which counts fixed windows only, given ${algorithm}: expected "100/1m fixed-window"`)
}

/** Gives each limit and limiter separate counts in a shared store. */
function keyOf({ key, limit, limiter = DEFAULT_LIMITER }: Charge): string {
  return `${keySegment(limiter)}:${keySegment(limit.name)}:${key}`
}

/** As in express-rate-limit, `init` is not awaited: a store that could not start fails when it is asked. */
function warn(error: unknown): void {
  const text = `the store's init failed: ${(error as Error)?.message ?? error}`
  emitWarning('SPILLWAY_STORE_INIT', text)
}

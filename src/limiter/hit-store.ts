import { type Clock, systemClock } from './core/clock.js'
import { blockedVerdict, type Verdict, verdictOf } from './core/decision.js'
import { PolicyError, StoreError, shown } from './core/errors.js'
import { keySegment } from './core/key-segment.js'
import type { Limit } from './core/limit.js'
import { emitWarning } from './core/warnings.js'
import { countName } from './count-name.js'
import { MemoryStore } from './memory/memory-store.js'
import type { CountedLimit } from './port.js'
import { type Charge, type ChargeReceipt, DEFAULT_LIMITER, type Store } from './store.js'

/** The count of a key. */
export interface Hits {
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

/** The store itself, or one with promises over a store with callbacks, which have no `get`. */
export function promised<Given extends object>(store: Given | CallbackHitStore): Given | HitStore {
  const { incr, increment } = store as Partial<CallbackHitStore & HitStore>
  return isFunction(incr) && !isFunction(increment) ? new PromisedHitStore(store as CallbackHitStore) : (store as Given)
}

class PromisedHitStore implements HitStore {
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

/**
 * A store of express-rate-limit in the format of a `Store`, for what such a store can count: one limit, a fixed window,
 * the same window for all limiters on it.
 *
 * It counts first, so the hits of a refused request are given back at once; meanwhile, other requests may be refused
 * although they would have fitted, but none is allowed that does not fit. A cost of n is n hits. To peek, a store
 * without `get` has to count a hit and give it back.
 */
export class HitStoreAdapter implements Store {
  readonly clock: Clock = systemClock
  readonly #store: HitStore
  /** Undefined until a limiter uses it: then the store is given its window. */
  #windowMs: number | undefined
  /** Such a store has no blocks: this process keeps them. */
  readonly #blocks = new MemoryStore({ clock: this.clock })

  constructor(store: HitStore | CallbackHitStore) {
    this.#store = promised(store) as HitStore
  }

  /** A limiter uses it. Throws `PolicyError` for limits that such a store cannot count. */
  check(counted: readonly CountedLimit[]): void {
    const what = `policy: the store ${shown(this.#store)} is one of express-rate-limit`
    if (counted.length !== 1) {
      throw new PolicyError(
        `${what}, which counts one window, given ${counted.length} limits: expected one, like "100/1m"`,
      )
    }
    const [{ limit }] = counted
    const { algorithm, windowMs } = limit
    if (algorithm !== 'fixed-window') {
      throw new PolicyError(
        `${what}, which counts fixed windows only, given ${algorithm}: expected "100/1m fixed-window"`,
      )
    }
    if (this.#windowMs === undefined) this.#init(limit)
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
    // Others that are refused at this moment are counted, too, until they are given back.
    return [verdictOf(limit, Math.max(0, left + cost), resetAfterMs, resetAfterMs)]
  }

  async peek([charge]: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    const { limit } = charge
    const hits = await this.#look(keyOf(charge))
    const left = Math.max(0, limit.quota - (hits?.totalHits ?? 0))
    const resetAfterMs = hits && hits.totalHits > 0 ? this.#resetAfterMs(hits) : 0
    const fits = cost === 0 || cost <= left
    const retryAfterMs = cost > limit.quota ? Number.POSITIVE_INFINITY : resetAfterMs
    const blockedMs = this.#blockedMs(charge)
    if (blockedMs > 0) return [blockedVerdict(verdictOf(limit, left, fits ? 0 : retryAfterMs, resetAfterMs), blockedMs)]
    if (!fits) return [verdictOf(limit, left, retryAfterMs, resetAfterMs)]
    return [verdictOf(limit, left - cost, 0, cost > 0 ? resetAfterMs || limit.windowMs : resetAfterMs)]
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

  /** As in express-rate-limit, `init` is not awaited: a store that could not start fails when it is asked. */
  async #init({ windowMs, quota }: Limit): Promise<void> {
    this.#windowMs = windowMs
    try {
      await this.#store.init?.({ windowMs, limit: quota } as never)
    } catch (error) {
      emitWarning('SPILLWAY_STORE_INIT', `the store's init failed: ${(error as Error)?.message ?? error}`)
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
    return Number.isNaN(atMs) ? this.#windowMs! : Math.max(1, Math.ceil(atMs - this.clock.now()))
  }
}

/** Limits that do not share their counts have keys of their own in a shared store. */
function keyOf(charge: Charge): string {
  const { key, limiter = DEFAULT_LIMITER } = charge
  return `${keySegment(limiter)}:${keySegment(countName(charge))}:${key}`
}

import type { Duration } from '../../limiter/core/duration.js'
import { getOrMake, MapSweeper } from '../../limiter/core/maps.js'
import { RateLimiter } from '../../limiter/rate-limiter.js'
import type { RedisClient } from '../../redis/client.js'
import { portOf } from '../../redis/clients.js'
import { storeOver } from '../client-store.js'

/** The result of counting a request. */
export interface Count {
  readonly allowed: boolean
  /** Requests left, ≥ 0. */
  readonly remaining: number
  /** The ms until a request fits again, > 0. */
  readonly resetAfterMs: number
  /** That moment, ms since 1970, by the counting clock. */
  readonly resetAt: number
  readonly total: number
}

/** Counts requests by the sender's id. */
export interface Counter {
  count(id: string): Count | Promise<Count>
}

/** A window in the user's Map, in the format of koa-ratelimit: both may share a Map, and users may read it. */
export interface MemoryEntry {
  readonly id: string
  /** When the window ends, in seconds since 1970, with fractions. */
  readonly reset: number
  /** Requests left before the newest one was counted; 0: that one was refused. */
  remaining: number
  readonly total: number
}

/** Counts in a Map: fixed windows, each from a key's first request on. Refused requests spend nothing. */
export class MemoryCounter implements Counter {
  readonly #db: Map<string, MemoryEntry>
  readonly #sweeper: MapSweeper<MemoryEntry>
  readonly #prefix: string
  readonly #max: number
  readonly #durationMs: number

  constructor(db: Map<string, MemoryEntry>, namespace: string, max: number, durationMs: number) {
    this.#db = db
    this.#sweeper = sweeperOf(db)
    this.#prefix = `${namespace}:`
    this.#max = max
    this.#durationMs = durationMs
  }

  count(id: string): Count {
    const key = this.#prefix + id
    const now = Date.now()
    let entry = this.#db.get(key)
    if (entry === undefined || endOf(entry) <= now) {
      this.#sweeper.inserting(now)
      this.#sweeper.start()
      entry = { id, reset: (now + this.#durationMs) / 1000, remaining: this.#max, total: this.#max }
      this.#db.set(key, entry)
    } else if (entry.remaining > 0) entry.remaining--
    const { remaining, total } = entry
    const resetAt = endOf(entry)
    return {
      allowed: remaining > 0,
      remaining: Math.max(0, remaining - 1),
      resetAfterMs: resetAt - now,
      resetAt,
      total,
    }
  }
}

/** When the window of an entry ends, in ms. */
function endOf({ reset }: MemoryEntry): number {
  return Math.round(reset * 1000)
}

/** One for each Map, however many middlewares use it. What a user keeps there besides windows stays. */
function sweeperOf(db: Map<string, MemoryEntry>): MapSweeper<MemoryEntry> {
  return getOrMake(SWEEPERS, db, () => new MapSweeper(db, entry => (isWindow(entry) ? endOf(entry) : undefined)))
}

function isWindow(value: MemoryEntry | undefined): boolean {
  return typeof value?.reset === 'number' && typeof value.remaining === 'number'
}

const SWEEPERS = new WeakMap<object, MapSweeper<MemoryEntry>>()

/**
 * Counts in Redis by spillway's own limiter: at most `max` in any span of the duration, for all processes together.
 * While Redis fails, each process counts alone.
 */
export class RedisCounter implements Counter {
  readonly #limiter: RateLimiter
  readonly #durationMs: number
  readonly #total: number

  /** Throws `PolicyError` for what is no client. */
  constructor(client: RedisClient, namespace: string, max: number, durationMs: number, deadline: Duration | undefined) {
    portOf(client, 'koa-ratelimit: db')
    this.#limiter = new RateLimiter({
      policy: { quota: max, window: `${Math.ceil(durationMs)}ms`, algorithm: 'sliding-window', name: 'requests' },
      name: `koa-ratelimit:${namespace}`,
      store: storeOver(client),
      deadline,
    })
    this.#durationMs = durationMs
    this.#total = max
  }

  async count(id: string): Promise<Count> {
    const { allowed, remaining, retryAfterMs, resetAfterMs } = await this.#limiter.consume(id)
    // A limit of 0 never lets a request in.
    const ms = allowed ? resetAfterMs : Math.min(retryAfterMs, this.#durationMs)
    return { allowed, remaining, resetAfterMs: ms, resetAt: Date.now() + ms, total: this.#total }
  }
}

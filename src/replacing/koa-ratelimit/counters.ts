import { getOrMake, MapSweeper } from '../../limiter/core/maps.js'
import type { RedisClient } from '../../redis/client.js'
import { portOf } from '../../redis/clients.js'
import { koaRatelimit } from '../../redis/scripts.js'
import { KeyedScript } from '../keyed-script.js'

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
 * Counts in Redis, under the key and in the form of koa-ratelimit: at most `max` in any span of the duration, for all
 * processes together.
 */
export class RedisCounter implements Counter {
  readonly #script: KeyedScript
  readonly #prefix: string
  readonly #total: number
  readonly #rule: string

  constructor(client: RedisClient, namespace: string, max: number, durationMs: number) {
    this.#script = KeyedScript.of(portOf(client, 'koa-ratelimit: db'), koaRatelimit)
    this.#prefix = `${namespace}:`
    this.#total = max
    this.#rule = `${durationMs} ${max}`
  }

  /** Rejects with `StoreError` if Redis fails, is not connected or has not answered within 5 s. */
  count(id: string): Promise<Count> {
    return new Promise((resolve, reject) =>
      this.#script.ask(this.#prefix + id, this.#rule, {
        resolve: (left, resetAt, now) =>
          resolve({
            allowed: left >= 0,
            remaining: Math.max(0, left),
            resetAfterMs: resetAt - now,
            resetAt,
            total: this.#total,
          }),
        reject,
      }),
    )
  }
}

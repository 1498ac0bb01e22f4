import { MapSweeper } from '../../limiter/core/maps.js'

/** The points of a key and their expiry, ms since 1970; null: never. */
export interface Counter {
  value: number
  expiresAt: number | null
}

/** Counters in memory. Expired ones are removed. */
export class Counters {
  readonly #all = new Map<string, Counter>()
  readonly #sweeper = new MapSweeper(this.#all, ({ expiresAt }) => expiresAt ?? undefined)

  get(key: string, now: number): Counter | undefined {
    const counter = this.#all.get(key)
    return counter !== undefined && isOver(counter, now) ? undefined : counter
  }

  set(key: string, value: number, expiresAt: number | null, now: number): void {
    const counter = this.#all.get(key)
    if (counter !== undefined) {
      counter.value = value
      counter.expiresAt = expiresAt
    } else {
      this.#sweeper.inserting(now)
      this.#all.set(key, { value, expiresAt })
    }
    if (expiresAt !== null) this.#sweeper.start()
  }

  /** False if there is none. */
  delete(key: string, now: number): boolean {
    const counter = this.get(key, now)
    this.#all.delete(key)
    return counter !== undefined
  }

  clear(): void {
    this.#all.clear()
  }

  *entries(now: number): Generator<readonly [key: string, Readonly<Counter>]> {
    for (const entry of this.#all) if (!isOver(entry[1], now)) yield entry
  }
}

function isOver({ expiresAt }: Counter, now: number): boolean {
  return expiresAt !== null && expiresAt <= now
}

/** Keys that are refused without asking the store. */
export class BlockedKeys {
  readonly #until = new Counters()

  block(key: string, ms: number): void {
    const now = Date.now()
    if (ms > 0) this.#until.set(key, 0, now + ms, now)
  }

  /** For how many ms more; 0: not at all. */
  msLeft(key: string): number {
    const now = Date.now()
    const until = this.#until.get(key, now)?.expiresAt
    return until == null ? 0 : until - now
  }

  delete(key: string): void {
    this.#until.delete(key, 0)
  }

  clear(): void {
    this.#until.clear()
  }
}

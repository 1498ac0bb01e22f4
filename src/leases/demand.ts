import { HITS_PER_TTL } from './terms.js'

/** Above this number of keys in one ttl, counting starts anew. */
const MOST_KEYS = 10_000

/** Finds keys that are busy enough to be leased: counts their hits per ttl. */
export class BusyKeys {
  readonly #hits = new Map<string, number>()
  #span = 0

  constructor(readonly ttlMs: number) {}

  /** Counts a hit. True if the key is busy now. */
  hit(key: string, now: number): boolean {
    const span = Math.floor(now / this.ttlMs)
    if (span !== this.#span || this.#hits.size >= MOST_KEYS) {
      this.#span = span
      this.#hits.clear()
    }
    const hits = (this.#hits.get(key) ?? 0) + 1
    this.#hits.set(key, hits)
    return hits >= HITS_PER_TTL
  }
}

/** The demand for a key, measured over half a ttl or more. */
export class Demand {
  /** Hits and units since `#since`. The book increments them itself, because it does so for every decision. */
  hits = 0
  units = 0
  #since: number
  #hitsPerMs: number
  #unitsPerMs: number

  constructor(
    readonly ttlMs: number,
    now: number,
  ) {
    this.#since = now
    this.#hitsPerMs = HITS_PER_TTL / ttlMs
    this.#unitsPerMs = HITS_PER_TTL / ttlMs
  }

  /** Whether the key is used often enough to be leased. */
  isHigh(now: number): boolean {
    this.#measure(now)
    return this.#hitsPerMs * this.ttlMs >= HITS_PER_TTL
  }

  /** The units expected in the next `ms`. */
  expected(ms: number, now: number): number {
    this.#measure(now)
    return Math.ceil(this.#unitsPerMs * ms)
  }

  /**
   * So many units were spent sooner than was expected: more are wanted, at most twice as many, because a few requests
   * at once are no rate yet.
   */
  exceed(units: number, inMs: number): void {
    const most = 2 * this.#unitsPerMs
    this.#unitsPerMs = Math.max(this.#unitsPerMs, inMs > 0 ? Math.min(most, units / inMs) : most)
  }

  #measure(now: number): void {
    const elapsedMs = now - this.#since
    if (elapsedMs < 0) this.#since = now
    if (elapsedMs < this.ttlMs / 2) return
    // Halves old counts, so that recent demand decides.
    const weight = elapsedMs > 2 * this.ttlMs ? 1 : 0.5
    this.#hitsPerMs += weight * (this.hits / elapsedMs - this.#hitsPerMs)
    this.#unitsPerMs += weight * (this.units / elapsedMs - this.#unitsPerMs)
    this.hits = 0
    this.units = 0
    this.#since = now
  }
}

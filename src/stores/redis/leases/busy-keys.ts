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

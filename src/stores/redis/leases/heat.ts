import { HITS_PER_TTL } from './terms.js'

const PLACES = 4096

/**
 * Finds keys that are busy enough to be leased: counts hits a ttl, at a place that the key's hash gives. Keys that share a place may be taken
 * for busy too soon; their demand is measured exactly then.
 */
export class Heat {
  readonly #hits = new Uint16Array(PLACES)
  readonly #spans = new Float64Array(PLACES).fill(-1)

  constructor(readonly ttlMs: number) {}

  /** Counts a hit. True if the key is busy now. */
  hit(key: string, now: number): boolean {
    const place = placeOf(key)
    const span = Math.floor(now / this.ttlMs)
    if (this.#spans[place] !== span) {
      this.#spans[place] = span
      this.#hits[place] = 0
    }
    return ++this.#hits[place] >= HITS_PER_TTL
  }
}

/** FNV-1a of the key's last 64 characters. */
function placeOf(key: string): number {
  let hash = 0x811c9dc5
  for (let i = Math.max(0, key.length - 64); i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash >>> 0) % PLACES
}

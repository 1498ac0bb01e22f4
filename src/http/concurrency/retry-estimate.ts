/** The weight of one request in the mean, which about the last ten requests determine. */
const WEIGHT = 0.2
const MOST_KEYS = 10_000
/** Before any request has been seen to its end. */
const UNKNOWN_MS = 1000

/** How long requests have been taking, for each key: a mean that forgets (after the smoothed round trip of RFC 6298). */
export class RetryEstimate {
  readonly #meanMs = new Map<string, number>()

  took(key: string, ms: number): void {
    const mean = this.#meanMs.get(key)
    this.#meanMs.delete(key)
    this.#meanMs.set(key, mean === undefined ? ms : mean + (ms - mean) * WEIGHT)
    if (this.#meanMs.size > MOST_KEYS) this.#meanMs.delete(this.#meanMs.keys().next().value as string)
  }

  /** When one of so many at once has probably ended and `ahead` others have had their turn, in ms. */
  nextFreeMs(key: string, permits: number, ahead: number): number {
    return ((this.#meanMs.get(key) ?? UNKNOWN_MS) * (ahead + 1)) / Math.max(1, permits)
  }
}

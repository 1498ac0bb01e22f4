/** The weight of one request in the mean, which about the last ten requests determine. */
const WEIGHT = 0.2
const MOST_KEYS = 10_000
/** The estimate before the first request has finished. */
const UNKNOWN_MS = 1000

/** The recent duration of requests, for each key: an exponential moving average (as the smoothed round trip of RFC 6298). */
export class RetryEstimate {
  readonly #meanMs = new Map<string, number>()

  took(key: string, ms: number): void {
    const mean = this.#meanMs.get(key)
    this.#meanMs.delete(key)
    this.#meanMs.set(key, mean === undefined ? ms : mean + (ms - mean) * WEIGHT)
    if (this.#meanMs.size > MOST_KEYS) this.#meanMs.delete(this.#meanMs.keys().next().value as string)
  }

  /** When a place is probably free after `ahead` others have had theirs, with `permits` places, in ms. */
  nextFreeMs(key: string, permits: number, ahead: number): number {
    return ((this.#meanMs.get(key) ?? UNKNOWN_MS) * (ahead + 1)) / Math.max(1, permits)
  }
}

/** A message taken in advance should begin within this time, by the recent duration of the handler. */
const AHEAD_MS = 2
/** Most messages taken in advance. */
const MOST_AHEAD = 8
/** Weight of the latest duration in the mean. */
const WEIGHT = 0.2

/**
 * Measures how long a handler takes. A fast handler gets some messages in advance, so that one call to Redis brings several; a slow one gets none,
 * because another process may be idle.
 */
export class HandlerTime {
  #meanMs = Number.POSITIVE_INFINITY

  /** One handler has ended after `ms`. */
  took(ms: number): void {
    this.#meanMs = this.#meanMs === Number.POSITIVE_INFINITY ? ms : this.#meanMs + (ms - this.#meanMs) * WEIGHT
  }

  /** The handler was slower than expected: no messages in advance until it has been fast for a while. */
  disappoint(): void {
    this.#meanMs = Math.max(this.#meanMs, AHEAD_MS * 10)
  }

  get ahead(): number {
    return Math.min(MOST_AHEAD, Math.floor(AHEAD_MS / this.#meanMs))
  }
}

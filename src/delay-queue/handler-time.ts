/** A message taken ahead must begin within this time, judged by how long the handler has taken lately. */
const AHEAD_MS = 2
/** Most deliveries ahead. */
const MOST_AHEAD = 8
/** Weight of the latest duration in the mean. */
const WEIGHT = 0.2

/**
 * How long a handler takes. A quick handler may be given some messages ahead, so that one call to Redis brings several; a slow one none,
 * because another process may be idle.
 */
export class HandlerTime {
  #meanMs = Number.POSITIVE_INFINITY

  /** One handler has ended, after `ms`. */
  took(ms: number): void {
    this.#meanMs = this.#meanMs === Number.POSITIVE_INFINITY ? ms : this.#meanMs + (ms - this.#meanMs) * WEIGHT
  }

  /** It was slower than expected: no messages ahead until it has been quick again for a while. */
  disappoint(): void {
    this.#meanMs = Math.max(this.#meanMs, AHEAD_MS * 10)
  }

  get ahead(): number {
    return Math.min(MOST_AHEAD, Math.floor(AHEAD_MS / this.#meanMs))
  }
}

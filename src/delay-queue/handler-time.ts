/** What lies ready for a handler shall begin within so long, by what the handler has needed lately. */
const AHEAD_MS = 2
/** So many deliveries ahead at most. */
const MOST_AHEAD = 8
/** The weight of the latest. */
const WEIGHT = 0.2

/**
 * How quick a handler is. Of messages that are due, a quick one may be given some ahead, so that a call to Redis brings more than one;
 * a slow one nothing, because somebody else may be idle.
 */
export class HandlerTime {
  #meanMs = Number.POSITIVE_INFINITY

  /** One handler has ended, after so long. */
  took(ms: number): void {
    this.#meanMs = this.#meanMs === Number.POSITIVE_INFINITY ? ms : this.#meanMs + (ms - this.#meanMs) * WEIGHT
  }

  /** It was not as quick as it had been: nothing ahead until it has shown that it is again. */
  disappoint(): void {
    this.#meanMs = Math.max(this.#meanMs, AHEAD_MS * 10)
  }

  get ahead(): number {
    return Math.min(MOST_AHEAD, Math.floor(AHEAD_MS / this.#meanMs))
  }
}

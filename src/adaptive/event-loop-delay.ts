const EVERY_MS = 50

/**
 * How late a timer rings. Not `monitorEventLoopDelay`: in Node it loses the delay that follows each reset, in Deno those of a loop that never rests, and in Bun a reset
 * by one user takes it from all.
 */
export class EventLoopDelay {
  #dueAt = performance.now() + EVERY_MS
  #longestMs = 0
  readonly #timer = setInterval(() => {
    this.#longestMs = this.#sofarMs()
    this.#dueAt = performance.now() + EVERY_MS
  }, EVERY_MS).unref()

  /** The longest delay since it was asked last. Of at most twenty a second that is the 99th percentile. */
  takeMs(): number {
    const longestMs = this.#sofarMs()
    this.#longestMs = 0
    return longestMs
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** The timer may be due and not have rung. */
  #sofarMs(): number {
    return Math.max(this.#longestMs, performance.now() - this.#dueAt)
  }
}

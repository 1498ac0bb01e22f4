const FIRST_MS = 50
const LONGEST_MS = 1000

/** The delay before the next attempt: 50 ms, then twice as long each time, at most 1 s. */
export class RetryDelay {
  #ms = FIRST_MS

  /** In ms. */
  next(): number {
    const ms = this.#ms
    this.#ms = Math.min(LONGEST_MS, ms * 2)
    return ms
  }

  /** The attempt succeeded: the next failure starts with the shortest delay. */
  reset(): void {
    this.#ms = FIRST_MS
  }
}

const FIRST_MS = 50
const LONGEST_MS = 1000

/** How long to wait before trying again: 50 ms, then twice as long each time, 1 s at most. */
export class RetryDelay {
  #ms = FIRST_MS

  /** In ms. */
  next(): number {
    const ms = this.#ms
    this.#ms = Math.min(LONGEST_MS, ms * 2)
    return ms
  }

  /** It worked. */
  reset(): void {
    this.#ms = FIRST_MS
  }
}

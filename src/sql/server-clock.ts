/** For so long an answer says what the server's clock shows: in this time clocks drift apart by less than one ms. */
const TRUSTED_MS = 5000

/**
 * The server's clock: the local monotonic clock plus the smallest difference of the last seconds between an answer's
 * time and the moment of asking. It is never behind the server at the moment of asking; and ahead of it on arrival only
 * if this trip is the quickest of all, which the server then refuses.
 */
export class ServerClock {
  /** With rising differences: the first is the smallest. */
  readonly #samples: Array<{ readonly sentAt: number; readonly ahead: number }> = []
  #last = Number.NEGATIVE_INFINITY

  learn(sentAt: number, serverMs: number): void {
    const ahead = serverMs - sentAt
    while (this.#samples.length > 0 && this.#samples[this.#samples.length - 1].ahead >= ahead) this.#samples.pop()
    this.#samples.push({ sentAt, ahead })
    // The latest answer's, not the greatest: after the clock was set back, everything would stop until it is there
    // again.
    this.#last = Math.floor(serverMs)
  }

  /** Whole ms; undefined if there is no answer of the last seconds. */
  now(): number | undefined {
    const now = performance.now()
    while (this.#samples.length > 0 && now - this.#samples[0].sentAt > TRUSTED_MS) this.#samples.shift()
    if (this.#samples.length === 0) return undefined
    return Math.max(Math.floor(now + this.#samples[0].ahead), this.#last)
  }

  /** The server's clock was set, or it is another server. */
  forget(): void {
    this.#samples.length = 0
  }
}

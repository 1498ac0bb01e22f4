/** After this long an estimate is replaced by the next answer. */
const RENEW_AFTER_MS = 30_000
/** In five minutes clocks drift apart by some 30 ms. */
const TRUST_FOR_MS = 300_000

/**
 * What the server's clock shows, as far as its answers tell. An answer is a little older than it looks, so an estimate is never
 * ahead of the server unless the server's clock was set back; an answer that contradicts the estimate replaces it.
 */
export class ServerClock {
  #offsetMs: number | undefined
  #learntAt = 0

  /**
   * An answer just came, and was given when the server's clock showed `serverNowMs`. `sentAt`, by `performance.now()`, is when its
   * question was sent: it shows that the server's clock was set back.
   */
  learn(serverNowMs: number, sentAt = Number.NEGATIVE_INFINITY): void {
    const now = performance.now()
    const offsetMs = serverNowMs - now
    const known = this.#offsetMs
    const holds = known !== undefined && offsetMs <= known && known <= serverNowMs + 1 - sentAt
    if (holds && now - this.#learntAt < RENEW_AFTER_MS) return
    this.#offsetMs = offsetMs
    this.#learntAt = now
  }

  /** What it shows at a moment of `performance.now()`; undefined while that is not known to some 30 ms. */
  at(moment: number): number | undefined {
    if (this.#offsetMs === undefined || performance.now() - this.#learntAt > TRUST_FOR_MS) return undefined
    return Math.floor(moment + this.#offsetMs)
  }

  /** The moment of `performance.now()` at which it shows `serverMs`, or a little after; undefined before the first answer. */
  momentOf(serverMs: number): number | undefined {
    return this.#offsetMs === undefined ? undefined : serverMs - this.#offsetMs
  }

  /** The server's clock was set, or it is another server: what was learnt is worth nothing. */
  forget(): void {
    this.#offsetMs = undefined
  }
}

/** An estimate older than this is replaced by the next answer. */
const RENEW_AFTER_MS = 30_000
/** Within five minutes clocks drift apart by about 30 ms. */
const TRUST_FOR_MS = 300_000

/**
 * Estimates the server's clock from its answers. An answer is slightly older than its arrival, so an estimate is never
 * ahead of the server unless the server's clock was set back; an answer that contradicts the estimate replaces it.
 */
export class ServerClock {
  #offsetMs: number | undefined
  #learntAt = 0

  /**
   * An answer arrived that was given when the server's clock showed `serverNowMs`. `sentAt`, by `performance.now()`, is when the
   * request was sent: it reveals that the server's clock was set back.
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

  /** The server's time at a moment of `performance.now()`; undefined while it is not known to about 30 ms. */
  at(moment: number): number | undefined {
    if (this.#offsetMs === undefined || performance.now() - this.#learntAt > TRUST_FOR_MS) return undefined
    return Math.floor(moment + this.#offsetMs)
  }

  /** The moment of `performance.now()` at which the server's clock shows `serverMs`, or slightly later; undefined before the first answer. */
  momentOf(serverMs: number): number | undefined {
    return this.#offsetMs === undefined ? undefined : serverMs - this.#offsetMs
  }

  /** The server's clock was set, or it is another server: drops the estimate. */
  forget(): void {
    this.#offsetMs = undefined
  }
}

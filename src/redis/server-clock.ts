/** Half a minute: longer than any clock drifts noticeably, shorter than anybody remembers a step. */
const FORGET_AFTER_MS = 30_000

/**
 * What the server's clock shows, as far as its answers tell. An answer is never younger than it looks, so of two estimates the
 * later time is the better one; now and then they are forgotten, because the server's clock may be set.
 */
export class ServerClock {
  #offsetMs: number | undefined
  #learntAt = 0

  /** An answer just came, and was given when the server's clock showed `serverNowMs`. */
  learn(serverNowMs: number): void {
    const now = performance.now()
    const offsetMs = serverNowMs - now
    if (this.#offsetMs !== undefined && offsetMs <= this.#offsetMs && now - this.#learntAt < FORGET_AFTER_MS) return
    this.#offsetMs = offsetMs
    this.#learntAt = now
  }

  /** What it shows in `ms` from now; undefined before the first answer. */
  in(ms: number): number | undefined {
    return this.#offsetMs === undefined ? undefined : Math.ceil(performance.now() + this.#offsetMs + ms)
  }

  /** The moment of `performance.now()` at which it shows `serverMs`, or a little after; undefined before the first answer. */
  momentOf(serverMs: number): number | undefined {
    return this.#offsetMs === undefined ? undefined : serverMs - this.#offsetMs
  }

  /** The server's clock was set: what was learnt is worth nothing. */
  forget(): void {
    this.#offsetMs = undefined
  }
}

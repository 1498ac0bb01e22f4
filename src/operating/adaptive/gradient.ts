/** The measurements of one sampling window. */
interface Sample {
  /** The mean duration of requests, ms. */
  readonly rttMs: number
  /** The most that were inside at once. */
  readonly inFlight: number
  /** The limit was reached at some moment: requests may have waited for each other. */
  readonly usedUp: boolean
}

/** How many requests may queue without the limit falling. */
const QUEUE = 4
const SMOOTHING = 0.2
/** How many times the long average a short time may be. */
const TOLERANCE = 1.5
/** How many samples the long average remembers, and how many of the first make a plain mean. */
const LONG_SAMPLES = 600
const WARMUP = 10

/**
 * Finds how many requests should be inside at once from how long they take: Gradient2 of Netflix's concurrency-limits
 * (https://github.com/Netflix/concurrency-limits, Apache-2.0), with its constants. Compares the time of the last sample
 * with a long average, and keeps the limit where the two differ by at most `TOLERANCE`.
 *
 * Unlike the source, the long average stands still while the limit is used up: then requests wait for each other, and
 * an average that followed them would take our own line for the service (in ten minutes of overload times would rise to
 * five times what they were). So the unloaded time is known only if there was little load at first, or is now and then.
 */
export class Gradient {
  #longMs = 0
  #samples = 0

  /** The next limit, after the present one and a sample; not bounded, may have a fraction. */
  next(limit: number, { rttMs, inFlight, usedUp }: Sample): number {
    if (!usedUp || this.#samples < WARMUP) this.#remember(rttMs)
    // A service that has recovered: the average comes down quickly.
    if (this.#longMs / rttMs > 2) this.#longMs *= 0.95
    // With few requests, nothing is known about a higher limit.
    if (inFlight < limit / 2) return limit
    const gradient = Math.max(0.5, Math.min(1, (TOLERANCE * this.#longMs) / rttMs))
    return limit * (1 - SMOOTHING) + (limit * gradient + QUEUE) * SMOOTHING
  }

  #remember(rttMs: number): void {
    this.#samples++
    const weight = this.#samples <= WARMUP ? 1 / this.#samples : 2 / (LONG_SAMPLES + 1)
    this.#longMs += (rttMs - this.#longMs) * weight
  }
}

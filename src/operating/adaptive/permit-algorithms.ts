/** The measurements of one sampling window. */
interface Sample {
  /** The mean duration of requests, ms. */
  readonly rttMs: number
  /** The most that were inside at once. */
  readonly inFlight: number
  /** The limit was reached at some moment: requests may have waited for each other. */
  readonly usedUp: boolean
}

/**
 * Finds how many requests should be inside at once from how long they take. After Netflix's concurrency-limits
 * (https://github.com/Netflix/concurrency-limits, Apache-2.0), with its constants. Not bounded: see `AdaptivePermits`.
 */
export interface PermitAlgorithm {
  /** The next limit, after the present one and a sample; may have a fraction. */
  next(limit: number, sample: Sample): number
}

const BACKOFF = 0.9
/** Slower requests count as lost. */
const TIMEOUT_MS = 5000

/**
 * AIMD of Netflix's concurrency-limits: one permit more for each sample while at least half of them are used, a tenth
 * less when requests take longer than five seconds.
 */
export class Aimd implements PermitAlgorithm {
  next(limit: number, { rttMs, inFlight }: Sample): number {
    if (rttMs > TIMEOUT_MS) return limit * BACKOFF
    return inFlight * 2 >= limit ? limit + 1 : limit
  }
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
 * Gradient2 of Netflix's concurrency-limits: compares the time of the last sample with a long average, and keeps the
 * limit where the two differ by at most `TOLERANCE`.
 *
 * Unlike the source, the long average stands still while the limit is used up: then requests wait for each other, and
 * an average that followed them would take our own line for the service (in ten minutes of overload times would rise to
 * five times what they were). So the unloaded time is known only if there was little load at first, or is now and then.
 */
export class Gradient implements PermitAlgorithm {
  #longMs = 0
  #samples = 0

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

/** After about so many samples for each permit, the time without load is measured anew. */
const PROBE = 30

/**
 * Vegas of Netflix's concurrency-limits, after TCP Vegas: estimates how many requests queue, limit × (1 − least time ÷
 * time), and keeps that number between 3 and 6 times log10 of the limit.
 *
 * Unlike the source, the least time is not measured anew while the limit is used up: that would take our own line for
 * the service.
 */
export class Vegas implements PermitAlgorithm {
  #leastMs = 0
  #samples = 0
  #jitter = 0.75

  next(limit: number, { rttMs, inFlight, usedUp }: Sample): number {
    this.#samples++
    const probes = !usedUp && this.#samples >= this.#jitter * PROBE * limit
    if (probes) {
      this.#samples = 0
      this.#jitter = 0.5 + Math.random() / 2
    }
    if (this.#leastMs === 0 || rttMs < this.#leastMs || probes) {
      this.#leastMs = rttMs
      return limit
    }
    if (inFlight * 2 < limit) return limit
    const queue = Math.ceil(limit * (1 - this.#leastMs / rttMs))
    const step = Math.max(1, Math.log10(limit))
    if (queue <= step) return limit + 6 * step
    if (queue < 3 * step) return limit + step
    if (queue > 6 * step) return limit - step
    return limit
  }
}

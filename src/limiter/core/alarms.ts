import { afterIo, LONGEST_TIMER_MS } from './clock.js'

/**
 * One timer that is set to a moment of `performance.now()` and never rings before it. (A timer of Node may fire up to a
 * millisecond early, and at once for delays above 24 days.) It keeps the process alive while it is set, if `keepsAlive`
 * is true. Postponing it is cheap: its timer stays, and is set anew when it fires.
 */
export class Alarm {
  #timer: ReturnType<typeof setTimeout> | undefined
  /** When the timer fires at the latest. */
  #firesAt = Number.POSITIVE_INFINITY
  #at = Number.POSITIVE_INFINITY

  constructor(
    readonly ring: () => void,
    readonly keepsAlive = true,
  ) {}

  /** Rings at `at` instead of the moment set before; `Infinity`: never. */
  set(at: number): void {
    if (at === this.#at) return
    this.#at = at
    if (at >= this.#firesAt && at < Number.POSITIVE_INFINITY) return
    clearTimeout(this.#timer)
    this.#firesAt = Number.POSITIVE_INFINITY
    if (at < Number.POSITIVE_INFINITY) this.#arm()
  }

  /** Rings at `at`, or at the moment set before if that is earlier. */
  ringBy(at: number): void {
    if (at < this.#at) this.set(at)
  }

  clear(): void {
    this.set(Number.POSITIVE_INFINITY)
  }

  #arm(): void {
    const ms = Math.min(LONGEST_TIMER_MS, Math.max(1, Math.ceil(this.#at - performance.now())))
    this.#firesAt = this.#at
    this.#timer = setTimeout(() => {
      this.#firesAt = Number.POSITIVE_INFINITY
      if (performance.now() < this.#at) {
        this.#arm()
        return
      }
      this.#at = Number.POSITIVE_INFINITY
      this.ring()
    }, ms)
    if (!this.keepsAlive) this.#timer.unref?.()
  }
}

/** A timer that is set to a moment, and rings once. */
export interface Ringing {
  /** Rings at `at` instead of at the moment set before; `Infinity`: never. */
  set(at: number): void
  clear(): void
}

/** The clock and timers of a waiting line. Tests replace them to control every step. */
export interface Timing {
  /** In ms, monotonic. */
  now(): number
  /** `keepsAlive`: whether a set alarm keeps the process alive. */
  alarm(ring: () => void, keepsAlive?: boolean): Ringing
  /** Runs after all input that has arrived by now has been read. */
  nextTurn(run: () => void): void
}

export const realTiming: Timing = {
  now: () => performance.now(),
  alarm: (ring, keepsAlive) => new Alarm(ring, keepsAlive),
  nextTurn: afterIo,
}

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

import type { Clock } from './core/clock.js'
import { PolicyError, shown } from './core/errors.js'

/**
 * A clock that stands still until it is told to move: give it to a `MemoryStore` or a `RedisStore` and tests never wait.
 * It may also be set back, as real clocks are.
 */
export class ManualClock implements Clock {
  #nowMs: number

  /** Starts at `nowMs`, ms since the epoch; default 0. */
  constructor(nowMs = 0) {
    this.#nowMs = finite(nowMs)
  }

  /** The time in ms: as it was set. */
  now(): number {
    return this.#nowMs
  }

  /** Moves by `ms`; a negative number moves back. Throws `PolicyError` for a number that is not finite. */
  advance(ms: number): void {
    this.#nowMs += finite(ms)
  }

  /** Sets the time, in ms since the epoch; earlier than now sets it back. Throws `PolicyError` for a number that is not finite. */
  set(nowMs: number): void {
    this.#nowMs = finite(nowMs)
  }
}

function finite(ms: number): number {
  if (Number.isFinite(ms)) return ms
  throw new PolicyError(`ManualClock: ${shown(ms)} is no time: expected a finite number of milliseconds, like 60_000`)
}

import type { Clock } from './clock.js'
import { PolicyError, shown } from './errors.js'

/**
 * A clock that moves only when told to: give it to a `MemoryStore` or a `RedisStore`, and tests need not wait.
 * It can also be set back, as real clocks can. What waits for its turn (`acquire`) waits in real time all the same.
 *
 * @example
 * const clock = new ManualClock()
 * const limiter = new RateLimiter({ policy: '1/1m', store: new MemoryStore({ clock }) })
 * await limiter.consume('ann')
 * const { allowed, retryAfterMs } = await limiter.consume('ann') // false, 60000
 * clock.advance(retryAfterMs)
 * await limiter.consume('ann') // allowed
 */
export class ManualClock implements Clock {
  #nowMs: number

  /** Starts at `nowMs`, ms since the epoch; default 0. */
  constructor(nowMs = 0) {
    this.#nowMs = finite(nowMs)
  }

  /** The current time in ms. */
  now(): number {
    return this.#nowMs
  }

  /** Moves by `ms`; a negative number moves back. Throws `PolicyError` for a number that is not finite. */
  advance(ms: number): void {
    this.#nowMs += finite(ms)
  }

  /**
   * Sets the time, in ms since the epoch; earlier than now sets it back. Throws `PolicyError` for a number that is not
   * finite.
   */
  set(nowMs: number): void {
    this.#nowMs = finite(nowMs)
  }
}

function finite(ms: number): number {
  if (Number.isFinite(ms)) return ms
  throw new PolicyError(
    `ManualClock: ${shown(ms)} is not a time: expected a finite number of milliseconds, like 60_000`,
  )
}

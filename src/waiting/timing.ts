import { Alarm } from './alarm.js'

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
  nextTurn: run => {
    setImmediate(run)
  },
}

import { Alarm } from './alarm.js'

/** A timer that is set to a moment, and rings once. */
export interface Ringing {
  /** Rings at `at` instead of at the moment set before; `Infinity`: never. */
  set(at: number): void
  clear(): void
}

/** Time as a waiting line sees it. Tests give one of their own, and then nothing happens but at their word. */
export interface Timing {
  /** In ms, monotonic. */
  now(): number
  /** `keepsAlive`: whether the process lives on while it is set. */
  alarm(ring: () => void, keepsAlive?: boolean): Ringing
  /** Runs after whatever has arrived by now has been read. */
  nextTurn(run: () => void): void
}

export const realTiming: Timing = {
  now: () => performance.now(),
  alarm: (ring, keepsAlive) => new Alarm(ring, keepsAlive),
  nextTurn: run => {
    setImmediate(run)
  },
}

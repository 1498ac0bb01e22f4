/** The source of the current time. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may be fractional. */
  now(): number
}

/** The process's own time. Reads the global `Date` at each call, so that fake timers in users' tests take effect. */
export const systemClock: Clock = { now: () => Date.now() }

/** Time that never steps. Measures spans inside the process (deadlines, caches); its values are not moments. */
export const monotonicClock: Clock = { now: () => performance.now() }

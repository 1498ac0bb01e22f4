/** The source of the current time. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may be fractional. */
  now(): number
}

/** The process's own time. Reads the global `Date` at each call, so that fake timers in users' tests take effect. */
export const systemClock: Clock = { now: () => Date.now() }

/**
 * Grows by the time for which the machine was suspended: the monotonic clock stands still meanwhile, the wall clock does not. Steps of the wall clock change it as well. A lease
 * that another machine counts, too, ends by whichever of the two clocks says so first.
 */
export const wallOffset = (): number => Date.now() - performance.now()

/**
 * For how many ms, at most, the machine was suspended since `wallOffset` was this, as far as a look at the monotonic clock that showed `now` has not seen it. The wall clock counts whole
 * ms: a difference of less than one says nothing. It is read last: a process that is interrupted between its looks finds that it has less time left, and not more.
 */
export function suspendedMs(offset: number, now = performance.now()): number {
  const ms = Date.now() - now - offset
  return ms < 1 ? 0 : ms + 1
}

/** Time that never steps. Measures spans inside the process (deadlines, caches); its values are not moments. */
export const monotonicClock: Clock = { now: () => performance.now() }

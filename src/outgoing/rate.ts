import { TimeoutError } from '../core/errors.js'
import type { Patience } from '../waiting/wait.js'

/** At most `rate` calls in any interval of a partner. */
export interface RateLimit {
  readonly rate: number
  readonly intervalMs: number
}

/** One call's part of a partner's rate. */
export interface Unit {
  /** The answer has come, or the call has failed: the unit is free again one interval from now. */
  answered(): void
  /** The call does not leave after all: the unit is free at once. */
  unused(): void
}

/**
 * A partner's rate. A unit counts from before its call leaves until one interval after its answer came: the partner counts the call when it
 * arrives, which lies between the two. So no interval of the partner sees more than `rate` calls.
 */
export interface Rate {
  /**
   * Waits for a unit, first come, first served. Rejects with `TimeoutError` at once if the turn would come after the timeout, with the signal's
   * reason, and with `StoreError` if Redis fails.
   */
  take(patience: Patience): Promise<Unit>
  /** True if no unit counts and nobody waits. */
  readonly idle: boolean
  close(): Promise<void>
}

/** A slower answer counts as if it had come after this time. */
export function longestAnswerMs(intervalMs: number): number {
  return Math.min(250, Math.floor(intervalMs / 5))
}

/** The refusal of a wait that would be too long. */
export function tooLong(partner: string, waitMs: number): TimeoutError {
  const wait = Math.ceil(waitMs)
  return new TimeoutError(`politeFetch: ${partner}: the call could leave in ${wait} ms, which is longer than maxWait`, {
    retryAfterMs: wait,
  })
}

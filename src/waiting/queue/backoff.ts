import { type Duration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { checkOptions } from '../../limiter/core/options.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import { textOf } from './record.js'

/**
 * How long a message waits after a failed delivery, in whole ms or as a `Duration`.
 *
 * - 'fixed': `delay` each time. 'exponential': `delay` after the first, twice as long after each further one, at most
 *   `max` (default: no bound). More than 400 years counts as 400 years.
 * - `jitter`: 0.2 makes it delay × (0.8 to 1.2), so that messages that failed together do not return together. 0 to 1,
 *   default 0.
 * - A function receives the number of the failed delivery, from 1, and the error. It returns ms ≥ 0, rounded; 0: at
 *   once; Infinity: 400 years. If it throws or returns anything else, the default backoff applies, with a process
 *   warning (`SPILLWAY_BACKOFF`) at most once a minute.
 */
export type Backoff =
  | {
      /** `fixed`: the same delay each time. `exponential`: twice as long after each further failure. */
      type: 'fixed' | 'exponential'
      /** After the first failure; more than 0. */
      delay: Duration
      /** Longest delay; more than 0. Default: 400 years. */
      max?: Duration
      /** 0 to 1, default 0: 0.2 makes it delay × (0.8 to 1.2). */
      jitter?: number
    }
  | ((attempt: number, error: unknown) => number)

/** In whole ms, at least 0. */
export type BackoffMs = (attempt: number, error: unknown) => number

/** 400 years: long enough to mean never, and the most that a queue can count. */
export const LONGEST_DELAY_MS = 400 * 366 * 86_400_000

const BACKOFF_OPTIONS = { type: true, delay: true, max: true, jitter: true } as const
const DEFAULT: Backoff = { type: 'exponential', delay: '1s', max: '5m', jitter: 0.2 }

/** Checks a backoff: `PolicyError`, which begins with `user`. Default: exponential from 1 s, max 5 m, jitter 0.2. */
export function parseBackoff(backoff: Backoff = DEFAULT, user: string): BackoffMs {
  if (typeof backoff === 'function') return guarded(backoff, user)
  const { type, delay, max, jitter = 0 } = backoff ?? {}
  if (type !== 'fixed' && type !== 'exponential') {
    throw new PolicyError(
      `${user}: backoff ${shown(backoff)}: expected a type "fixed" or "exponential", like { type: ` +
        '"exponential", delay: "1s", max: "5m" }, or a function',
    )
  }
  checkOptions(`${user}: backoff`, backoff, BACKOFF_OPTIONS, '{ type: "exponential", delay: "1s", max: "5m" }')
  if (!(typeof jitter === 'number' && jitter >= 0 && jitter <= 1)) {
    throw new PolicyError(`${user}: backoff.jitter ${shown(jitter)}: expected a number from 0 to 1, like 0.2`)
  }
  const delayMs = parseOption(delay, `${user}: backoff.delay`)
  const maxMs = max === undefined ? LONGEST_DELAY_MS : parseOption(max, `${user}: backoff.max`)
  return attempt => {
    const ms = Math.min(maxMs, type === 'fixed' ? delayMs : delayMs * 2 ** (attempt - 1))
    return Math.round(Math.min(LONGEST_DELAY_MS, ms * (1 + jitter * (2 * Math.random() - 1))))
  }
}

const WARN_EVERY_MS = 60_000

/** The given function; where it throws or returns no valid ms, the default backoff and a warning. */
function guarded(backoff: (attempt: number, error: unknown) => number, user: string): BackoffMs {
  const otherwise = parseBackoff(DEFAULT, user)
  let warnedAt = Number.NEGATIVE_INFINITY
  return (attempt, error) => {
    let fault: string
    try {
      const ms: unknown = backoff(attempt, error)
      if (typeof ms === 'number' && ms >= 0) return Math.min(LONGEST_DELAY_MS, Math.round(ms))
      fault = `returned ${shown(ms)}: expected milliseconds ≥ 0, like 1000`
    } catch (thrown) {
      fault = `threw ${textOf(thrown)}`
    }
    if (performance.now() - warnedAt >= WARN_EVERY_MS) {
      warnedAt = performance.now()
      const text = `${user}: backoff ${fault}; the default backoff applies instead`
      emitWarning('SPILLWAY_BACKOFF', text)
    }
    return otherwise(attempt, error)
  }
}

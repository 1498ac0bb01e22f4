import { type Duration, parseOption } from '../core/duration.js'
import { PolicyError, shown } from '../core/errors.js'
import { checkOptions } from '../core/option-names.js'

/**
 * How long a message waits after a failed delivery. `delay` after the first; 'exponential' doubles it with each further one, up to
 * `max` (default: no bound). `jitter` 0.2 makes it delay × (0.8 to 1.2), so that what failed together does not return together;
 * 0 to 1, default 0. A function is given the number of the delivery that failed, from 1, and the error; it gives ms ≥ 0.
 */
export type Backoff =
  | { type: 'fixed' | 'exponential'; delay: Duration; max?: Duration; jitter?: number }
  | ((attempt: number, error: unknown) => number)

/** In whole ms, 0 at least. */
export type BackoffMs = (attempt: number, error: unknown) => number

/** Four hundred years: longer is as good as never, and more than a queue can count. */
export const LONGEST_DELAY_MS = 400 * 366 * 86_400_000

const NAMES = { type: true, delay: true, max: true, jitter: true } as const
const DEFAULT: Backoff = { type: 'exponential', delay: '1s', max: '5m', jitter: 0.2 }

/** Checks a backoff: `PolicyError`, which begins with `user`. Default: exponential from 1 s, max 5 m, jitter 0.2. */
export function parseBackoff(backoff: Backoff = DEFAULT, user: string): BackoffMs {
  if (typeof backoff === 'function') return (attempt, error) => given(backoff(attempt, error), user)
  const { type, delay, max, jitter = 0 } = backoff ?? {}
  if (type !== 'fixed' && type !== 'exponential') {
    throw new PolicyError(
      `${user}: backoff ${shown(backoff)}: expected a type "fixed" or "exponential", like { type: "exponential", delay: "1s", max: "5m" }, or a function`,
    )
  }
  checkOptions(`${user}: backoff`, backoff, NAMES, '{ type: "exponential", delay: "1s", max: "5m" }')
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

function given(ms: number, user: string): number {
  if (typeof ms === 'number' && ms >= 0) return Math.min(LONGEST_DELAY_MS, Math.round(ms))
  throw new PolicyError(`${user}: backoff gave ${shown(ms)}: expected milliseconds ≥ 0, like 1000`)
}

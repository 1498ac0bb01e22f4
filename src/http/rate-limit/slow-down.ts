import type { Decision } from '../../core/decision.js'
import { type Duration, parseOption } from '../../core/duration.js'
import { PolicyError, shown } from '../../core/errors.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'

/** Requests that have to wait before they are refused. */
export interface SlowDownOptions {
  /** Units of a window that nobody waits for; integer ≥ 0. */
  after: number
  /** How much longer each unit above them waits; more than 0. */
  by: Duration
  /** The longest wait; more than 0. */
  max: Duration
}

const OPTIONS: OptionNames<SlowDownOptions> = { after: true, by: true, max: true }
const EXAMPLE = '{ after: 50, by: "100ms", max: "2s" }'

/** Beyond so many requests that wait in this process, a request that would have to wait is refused. */
const MOST_WAITING = 10_000
let waiting = 0

/** How long an allowed request waits: the n-th unit above `after` waits n × `by`, at most `max`. */
export class SlowDown {
  readonly #after: number
  readonly #byMs: number
  readonly #maxMs: number

  /** Checks the options: `PolicyError`. */
  constructor(options: SlowDownOptions) {
    if (typeof options !== 'object' || options === null) {
      throw new PolicyError(`rateLimit: slowDown ${shown(options)}: expected an object, like ${EXAMPLE}`)
    }
    checkOptions('rateLimit: slowDown', options, OPTIONS, EXAMPLE)
    const { after, by, max } = options
    if (!(Number.isSafeInteger(after) && after >= 0)) {
      throw new PolicyError(`rateLimit: slowDown: after ${shown(after)}: expected an integer ≥ 0, like ${EXAMPLE}`)
    }
    this.#after = after
    this.#byMs = parseOption(by, 'rateLimit: slowDown: by')
    this.#maxMs = parseOption(max, 'rateLimit: slowDown: max')
  }

  /** The delay of the request of this decision, ms. */
  delayMs({ cost, limit, remaining }: Decision): number {
    // A decision spends from what fits at once: that is the burst, where an algorithm has one.
    const used = limit.burst - remaining
    return cost === 0 ? 0 : Math.min(this.#maxMs, Math.max(0, used - this.#after) * this.#byMs)
  }
}

/** The decision on a request that would have to wait where too many do. */
export function refusedInstead(decision: Decision, delayMs: number): Decision {
  const { limit, remaining, resetAfterMs, key, cost, verdicts, source, degraded, shadow } = decision
  const refused = { allowed: false, retryAfterMs: delayMs, delayMs: 0 }
  return { limit, remaining, resetAfterMs, key, cost, verdicts, source, degraded, shadow, ...refused }
}

/** Counts a request that waits; false if too many do. Call `doneWaiting` when it ends. */
export function mayWait(): boolean {
  if (waiting >= MOST_WAITING) return false
  waiting++
  return true
}

export function doneWaiting(): void {
  waiting--
}

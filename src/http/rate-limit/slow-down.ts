import { type Decision, strictest, type Verdict } from '../../limiter/core/decision.js'
import { type Duration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { checkInteger, checkOptions, type OptionNames } from '../../limiter/core/options.js'

/** Delays requests before they are refused. */
export interface SlowDownOptions {
  /** Units of a window without a delay; integer ≥ 0. Each limit of a policy counts its own; the longest delay holds. */
  after: number
  /** The additional delay of each unit above `after`; more than 0. */
  by: Duration
  /** The longest delay; more than 0. */
  max: Duration
}

const OPTIONS: OptionNames<SlowDownOptions> = { after: true, by: true, max: true }
const EXAMPLE = '{ after: 50, by: "100ms", max: "2s" }'

/** If this many requests wait in this process, further requests that would have to wait are refused. */
const MOST_WAITING = 10_000
let waiting = 0

/** The delay of an allowed request: the n-th unit above `after` waits n × `by`, at most `max`. */
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
    checkInteger(after, 'rateLimit: slowDown: after', EXAMPLE, 0)
    this.#after = after
    this.#byMs = parseOption(by, 'rateLimit: slowDown: by')
    this.#maxMs = parseOption(max, 'rateLimit: slowDown: max')
  }

  /** The delay of the request of this decision, ms: the longest that one of its limits asks for. */
  delayMs({ cost, verdicts }: Decision): number {
    let longest = 0
    if (cost > 0) for (const verdict of verdicts) longest = Math.max(longest, this.#delayUnder(verdict))
    return longest
  }

  /**
   * The denial of a request that would have to wait while too many others wait: by the limit that makes it wait. Its
   * units are given back, so that it has spent none.
   */
  refusedInstead(decision: Decision): Decision {
    const { key, cost, source, degraded, shadow } = decision
    const delayMs = this.delayMs(decision)
    const slowest = decision.verdicts.find(verdict => this.#delayUnder(verdict) === delayMs)
    const verdicts = decision.verdicts.map(verdict => {
      const unspent = { ...verdict, remaining: Math.min(verdict.limit.burst, verdict.remaining + cost), delayMs: 0 }
      return verdict === slowest ? { ...unspent, allowed: false, retryAfterMs: delayMs } : unspent
    })
    return { ...strictest(verdicts), key, cost, verdicts, source, degraded, shadow }
  }

  #delayUnder({ limit, remaining }: Verdict): number {
    // A decision spends from what fits at once: that is the burst, if the algorithm has one.
    const used = limit.burst - remaining
    return Math.min(this.#maxMs, Math.max(0, used - this.#after) * this.#byMs)
  }
}

/** Counts a waiting request; false if there are too many. Call `doneWaiting` when it ends. */
export function mayWait(): boolean {
  if (waiting >= MOST_WAITING) return false
  waiting++
  return true
}

export function doneWaiting(): void {
  waiting--
}

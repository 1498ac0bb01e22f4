import { formatDuration } from '../limiter/core/duration.js'
import { TimeoutError } from '../limiter/core/errors.js'
import { Spent } from './spent.js'

/** A partner's budget, checked. */
export interface CheckedBudget {
  readonly rate: number
  readonly intervalMs: number
  /** Unique for a partner. */
  readonly name: string
  /**
   * Under which it is counted over all processes: the name that its owner has given, else its place among the others,
   * so that its counts survive a change of its rate.
   */
  readonly id: string
  readonly cost: ((url: URL, init?: RequestInit) => number | Promise<number>) | undefined
  readonly settle:
    | ((response: Response, estimated: number) => number | undefined | Promise<number | undefined>)
    | undefined
}

/** The name of a budget without one, like "500-per-1m". */
export function nameOfRate(rate: number, intervalMs: number): string {
  return `${rate}-per-${formatDuration(intervalMs)}`
}

/** A slower answer counts as if it had come after this time. */
function longestAnswerMs(intervalMs: number): number {
  return Math.min(250, Math.floor(intervalMs / 5))
}

/**
 * Ends of units are rounded up to a thousandth of the interval, so that a budget keeps about a thousand of them however
 * many calls it counts.
 */
function grainMs(intervalMs: number): number {
  return Math.max(1, Math.floor(intervalMs / 1000))
}

/** The refusal of a wait that would be too long. `what` would make the call wait: a partner, or one of its budgets. */
export function tooLong(what: string, waitMs: number): TimeoutError {
  const wait = Math.ceil(waitMs)
  return new TimeoutError(`politeFetch: ${what}: the call could leave in ${wait} ms, which is longer than maxWait`, {
    retryAfterMs: wait,
  })
}

/** What this process counts of one budget: units, and when they end. Moments are those of `performance.now()`. */
export class Account {
  /** For errors, like 'https://api.example.com: budget "tokens"'. */
  readonly subject: string
  readonly spent = new Spent()
  readonly #grainMs: number
  #told = { used: 0, at: Number.NEGATIVE_INFINITY }
  /** The units of the calls that wait, by their urgency. */
  readonly #waiting: number[] = []

  constructor(
    readonly partner: string,
    readonly budget: CheckedBudget,
  ) {
    this.subject = `${partner}: budget ${JSON.stringify(budget.name)}`
    this.#grainMs = grainMs(budget.intervalMs)
  }

  /** More than the rate after a settlement, or after calls that were allowed elsewhere. */
  get used(): number {
    return this.spent.sum
  }

  /** Over Redis so many units of all processes were used at this moment. */
  heard(used: number, now: number): void {
    this.#told = { used, at: now }
  }

  /** The units that are used as far as is known: over Redis those of all processes. */
  usedByAll(now: number): number {
    this.update(now)
    const { used, at } = this.#told
    return now - at < this.budget.intervalMs ? Math.max(used, this.used) : this.used
  }

  /** Ends the units whose time is over. */
  update(now: number): void {
    this.spent.update(now)
  }

  /** Whether so many units are free, whoever waits. */
  fits(units: number): boolean {
    return units === 0 || this.used + units <= this.budget.rate
  }

  /** In how many ms, at least, so many units fit behind the units of others who go first. */
  waitMs(now: number, ahead: number, units: number): number {
    const { rate, intervalMs } = this.budget
    // The turn comes when this many units have ended, if units that others take meanwhile end after an interval.
    const needed = units === 0 ? 0 : this.used + ahead + units - rate
    if (needed <= 0) return 0
    const intervals = Math.max(0, Math.ceil((needed - this.used) / rate))
    const nth = needed - intervals * rate
    // Those that are held end an interval from now at the earliest.
    const end = nth <= 0 ? now : (this.spent.endOf(nth) ?? this.endAfter(now))
    return end + intervals * intervalMs - now
  }

  /** When a call that leaves now stops to count, if its answer comes late. */
  lastEnd(now: number): number {
    const { intervalMs } = this.budget
    return this.endAfter(now + longestAnswerMs(intervalMs))
  }

  /** When a call stops to count whose answer has come at this moment. */
  endAfter(answeredAt: number): number {
    return Math.ceil((answeredAt + this.budget.intervalMs) / this.#grainMs) * this.#grainMs
  }

  /** The units of calls that wait and are as urgent as this or more. */
  waiting(urgency: number): number {
    let sum = 0
    for (let at = urgency; at < this.#waiting.length; at++) sum += this.#waiting[at] ?? 0
    return sum
  }

  wait(urgency: number, units: number): void {
    this.#waiting[urgency] = (this.#waiting[urgency] ?? 0) + units
  }
}

/** The places of a partner: how many calls to it may be under way at once. */
export class Places {
  /** Those of this process: each is held. */
  readonly spent = new Spent()

  constructor(
    readonly partner: string,
    readonly permits: number,
  ) {}

  get inUse(): number {
    return this.spent.sum
  }

  fits(): boolean {
    return this.inUse < this.permits
  }
}

import type { Retry } from '../../limiter/algorithms/algorithm.js'
import { algorithmOf, measure, type State, spend } from '../../limiter/algorithms/registry.js'
import type { Verdict } from '../../limiter/core/decision.js'
import type { Limit } from '../../limiter/core/limit.js'

/** Units of one deferred message. Moments are ms of the schedule's clock. */
export interface Departure {
  /** When the limit spends them. */
  readonly at: number
  /** When the message is due: `at`, or later under a leaky bucket, which delays allowed requests. */
  readonly dueAt: number
  readonly cost: number
}

/** When a request fits: from `at` on, after waiting `delayMs` more (leaky bucket). */
interface Fit {
  readonly at: number
  readonly delayMs: number
}

/** The fields of a schedule as they are stored. */
export interface StoredSchedule {
  /** null: as if never used. */
  readonly state: State | null
  readonly departures: ReadonlyArray<readonly [at: number, dueAt: number, cost: number]>
}

/**
 * What one limit counts for one key while messages of that key are deferred: units spent so far, and units that leave
 * later. All arithmetic is the algorithm's own, applied at the moments when the units leave.
 */
export class LimitSchedule {
  readonly #limit: Limit
  #state: State | undefined
  /** In the order of `at`; departures that are already spent stay until their message is due. */
  readonly #departures: Departure[]
  #spent: number

  constructor(limit: Limit, state: State | undefined, departures: readonly Departure[], nowMs: number) {
    this.#limit = limit
    this.#state = state
    this.#departures = departures.filter(({ at, dueAt }) => at > nowMs || dueAt > nowMs)
    for (const { at, cost } of departures) if (at <= nowMs) this.#spend(at, cost)
    this.#spent = this.#departures.findIndex(({ at }) => at > nowMs)
    if (this.#spent < 0) this.#spent = this.#departures.length
  }

  /** The number of messages that are not due yet. */
  get waiting(): number {
    return this.#departures.length
  }

  /** The moment from which a request comes behind all waiting messages; -Infinity if none waits. */
  get lastAt(): number {
    return this.#departures.at(-1)?.at ?? Number.NEGATIVE_INFINITY
  }

  /**
   * Whether `cost` can be spent at a moment without delaying a scheduled message: returns the fit at that moment, else
   * the next moment worth trying, which is Infinity if the cost can never fit.
   */
  fit(at: number, cost: number): Fit {
    let state = this.#state
    let next = this.#spent
    for (; next < this.#departures.length && this.#departures[next].at <= at; next++) {
      state = spend(this.#limit, state, this.#departures[next].at, this.#departures[next].cost)
    }
    const own = measure(this.#limit, state, at, cost)
    if (!own.verdict.allowed) return { at: at + own.verdict.retryAfterMs, delayMs: 0 }
    state = own.next
    for (; next < this.#departures.length; next++) {
      const departure = this.#departures[next]
      const { verdict, next: after } = measure(this.#limit, state, departure.at, departure.cost)
      if (!verdict.allowed || departure.at + verdict.delayMs > departure.dueAt) return { at: departure.at, delayMs: 0 }
      state = after
    }
    return { at, delayMs: own.verdict.delayMs }
  }

  /** A request that is allowed now. */
  admit(nowMs: number, cost: number): void {
    this.#spend(nowMs, cost)
  }

  add(departure: Departure): void {
    let place = this.#departures.length
    while (place > this.#spent && this.#departures[place - 1].at > departure.at) place--
    this.#departures.splice(place, 0, departure)
  }

  /** Takes back a departure whose message was not queued; units that are already spent stay spent. */
  remove({ at, dueAt, cost }: Departure): void {
    const place = this.#departures.findIndex(
      (other, i) => i >= this.#spent && other.at === at && other.dueAt === dueAt && other.cost === cost,
    )
    if (place >= 0) this.#departures.splice(place, 1)
  }

  /** How long the schedule matters: until the last message is due and its limit is as if never used, in ms from now. */
  lifetimeMs(nowMs: number): number {
    let state = this.#state
    let lastAt = nowMs
    let lastDueAt = nowMs
    this.#departures.forEach(({ at, dueAt, cost }, i) => {
      if (i >= this.#spent) state = spend(this.#limit, state, at, cost)
      lastAt = Math.max(lastAt, at)
      lastDueAt = Math.max(lastDueAt, dueAt)
    })
    const { resetAfterMs } = measure(this.#limit, state, lastAt, 0).verdict
    return Math.max(lastDueAt, lastAt + resetAfterMs) - nowMs
  }

  /** JSON-compatible. Departures whose units are spent omit `at`, so that they are not spent twice. */
  toJSON(): StoredSchedule {
    const algorithm = algorithmOf(this.#limit.algorithm)
    const state = this.#state && (algorithm.compact?.(this.#state) ?? this.#state)
    return {
      state: state ?? null,
      departures: this.#departures.map(({ at, dueAt, cost }, i) => [at, dueAt, i < this.#spent ? 0 : cost]),
    }
  }

  static parse(limit: Limit, { state, departures }: StoredSchedule, nowMs: number): LimitSchedule {
    const parsed = departures.map(([at, dueAt, cost]) => ({ at, dueAt, cost }))
    return new LimitSchedule(limit, state ?? undefined, parsed, nowMs)
  }

  #spend(at: number, cost: number): void {
    this.#state = spend(this.#limit, this.#state, at, cost)
  }
}

/**
 * The state of a limit, as far as a store reports it: `standing` is its verdict with nothing spent, `retries` tell when
 * increasing costs fit. The state never allows more than the store would.
 */
export function stateOf(standing: Verdict, retries: readonly Retry[], nowMs: number): State | undefined {
  if (standing.resetAfterMs === 0) return undefined
  return algorithmOf(standing.limit.algorithm).stateFrom(standing, retries, nowMs)
}

/** The earliest moment from `fromMs` on at which every schedule has room for the cost; Infinity if there is none. */
export function earliestFit(schedules: readonly LimitSchedule[], cost: number, fromMs: number): Fit {
  let at = fromMs
  for (;;) {
    const fits = schedules.map(schedule => schedule.fit(at, cost))
    const latest = Math.max(...fits.map(fit => fit.at))
    if (latest === at) return { at, delayMs: Math.max(...fits.map(fit => fit.delayMs)) }
    if (latest === Number.POSITIVE_INFINITY) return { at: latest, delayMs: 0 }
    at = latest
  }
}

import { TimeoutError } from '../core/errors.js'
import { Alarm } from '../waiting/alarms.js'
import { type Patience, Wait } from '../waiting/wait.js'

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

/** A partner's rate in this process alone. A call costs the same however many units count and however many calls wait. */
export class ProcessRate implements Rate {
  readonly #limit: RateLimit
  readonly #partner: string
  /** Units whose end is settled, in the order of their ends. */
  readonly #settled = new Line<CountedUnit>(unit => unit.isOver)
  /** Units that an answer may still end earlier, in the order of their last possible ends. These are later than those of all settled units. */
  readonly #unanswered = new Line<CountedUnit>(unit => unit.isOver)
  readonly #waiting = new Line<Wait<Unit>>(wait => wait.ended)
  readonly #alarm = new Alarm(() => this.#grant())

  constructor(limit: RateLimit, partner: string) {
    this.#limit = limit
    this.#partner = partner
  }

  get idle(): boolean {
    this.#update(performance.now())
    return this.#waiting.size === 0 && this.#counted === 0
  }

  async take(patience: Patience): Promise<Unit> {
    this.#update(performance.now())
    if (this.#waiting.size === 0 && this.#counted < this.#limit.rate) return this.occupy()
    const waitMs = this.#endOf(this.#waiting.size) - performance.now()
    if (waitMs > patience.timeoutMs) throw tooLong(this.#partner, waitMs)
    const leave = () => {
      this.#waiting.lose()
      this.#grant()
    }
    const timedOut = () => {
      queueMicrotask(leave)
      return tooLong(this.#partner, this.#endOf(0) - performance.now())
    }
    const wait = new Wait<Unit>(patience, timedOut, () => queueMicrotask(leave))
    this.#waiting.push(wait)
    this.#grant()
    return wait.promise
  }

  /** A unit for a call that was allowed elsewhere, whether or not one is free here. */
  occupy(): Unit {
    const { intervalMs } = this.#limit
    const takenAt = performance.now()
    this.#update(takenAt)
    const unit: CountedUnit = { endsAt: takenAt + longestAnswerMs(intervalMs) + intervalMs, isOver: false }
    this.#unanswered.push(unit)
    return {
      answered: () => {
        const now = performance.now()
        this.#update(now)
        if (unit.isOver || this.#isSettled(unit, now)) return
        this.#end(unit, now)
        this.#settled.push({ endsAt: now + intervalMs, isOver: false })
        this.#grant()
      },
      unused: () => {
        const now = performance.now()
        this.#update(now)
        if (unit.isOver) return
        this.#end(unit, now)
        this.#grant()
      },
    }
  }

  async close(): Promise<void> {
    this.#alarm.clear()
  }

  get #counted(): number {
    return this.#settled.size + this.#unanswered.size
  }

  /** Gives free units to waiters, and sets the alarm for the next one. */
  #grant(): void {
    this.#update(performance.now())
    while (this.#counted < this.#limit.rate) {
      const wait = this.#waiting.shift()
      if (wait === undefined) break
      wait.resolve(this.occupy())
    }
    this.#alarm.set(this.#waiting.first === undefined ? Number.POSITIVE_INFINITY : this.#endOf(0))
  }

  /** True if no answer ends the unit earlier any more: a slower one counts as if it had come at this moment. */
  #isSettled({ endsAt }: CountedUnit, now: number): boolean {
    return endsAt - this.#limit.intervalMs <= now
  }

  #update(now: number): void {
    for (let unit = this.#unanswered.first; unit && this.#isSettled(unit, now); unit = this.#unanswered.first) {
      this.#unanswered.shift()
      this.#settled.push(unit)
    }
    for (let unit = this.#settled.first; unit && unit.endsAt <= now; unit = this.#settled.first) {
      this.#settled.shift()
      unit.isOver = true
    }
  }

  #end(unit: CountedUnit, now: number): void {
    unit.isOver = true
    const line = this.#isSettled(unit, now) ? this.#settled : this.#unanswered
    line.lose()
  }

  /** When the unit for the waiter behind `ahead` others ends. Units that others will take count for at least one interval. */
  #endOf(ahead: number): number {
    const { rate, intervalMs } = this.#limit
    const counted = this.#counted
    const nth = Math.max(0, ahead + counted - rate)
    const intervals = nth < counted ? 0 : Math.floor((nth - counted) / rate) + 1
    const place = Math.max(0, nth - intervals * rate)
    const settled = this.#settled.size
    const unit = place < settled ? this.#settled.at(place) : this.#unanswered.at(place - settled)
    return (unit?.endsAt ?? performance.now()) + intervals * intervalMs
  }
}

interface CountedUnit {
  /** By `performance.now()`. */
  readonly endsAt: number
  isOver: boolean
}

/** First in, first out. Entries may be over before their turn. Every operation takes constant time on average. */
class Line<Entry> {
  readonly #isOver: (entry: Entry) => boolean
  #entries: Entry[] = []
  #head = 0
  #size = 0

  constructor(isOver: (entry: Entry) => boolean) {
    this.#isOver = isOver
  }

  /** Without those that are over. */
  get size(): number {
    return this.#size
  }

  get first(): Entry | undefined {
    while (this.#head < this.#entries.length && this.#isOver(this.#entries[this.#head])) this.#head++
    return this.#entries[this.#head]
  }

  /** The entry behind `ahead` others; while some of these are over, perhaps a later one. */
  at(ahead: number): Entry | undefined {
    if (this.first === undefined) return undefined
    const over = Math.max(0, this.#entries.length - this.#head - this.#size)
    return this.#entries[Math.min(this.#head + ahead + over, this.#entries.length - 1)]
  }

  push(entry: Entry): void {
    this.#entries.push(entry)
    this.#size++
  }

  shift(): Entry | undefined {
    const first = this.first
    if (first === undefined) return undefined
    this.#head++
    this.#size--
    this.#tidy()
    return first
  }

  /** An entry is over before its turn. */
  lose(): void {
    this.#size--
    this.#tidy()
  }

  /** Once most entries are over they are removed. */
  #tidy(): void {
    if (this.#entries.length <= 2 * this.#size + 32) return
    this.#entries = this.#entries.slice(this.#head).filter(entry => !this.#isOver(entry))
    this.#head = 0
  }
}

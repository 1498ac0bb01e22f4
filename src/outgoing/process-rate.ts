import { Alarm } from '../waiting/alarm.js'
import { type Patience, Wait } from '../waiting/wait.js'
import { longestAnswerMs, type Rate, type RateLimit, tooLong, type Unit } from './rate.js'

/** A partner's rate in this process alone. */
export class ProcessRate implements Rate {
  readonly #limit: RateLimit
  readonly #partner: string
  /** When units end, by their state: without an answer so far, and answered; each in the order of their ends. */
  readonly #unanswered = new Map<Unit, number>()
  readonly #answered = new Map<Unit, number>()
  readonly #waiting = new Set<Wait<Unit>>()
  readonly #alarm = new Alarm(() => this.#grant())

  constructor(limit: RateLimit, partner: string) {
    this.#limit = limit
    this.#partner = partner
  }

  get idle(): boolean {
    this.#expire()
    return this.#waiting.size === 0 && this.#counted === 0
  }

  async take(patience: Patience): Promise<Unit> {
    this.#expire()
    if (this.#waiting.size === 0 && this.#counted < this.#limit.rate) return this.occupy()
    const waitMs = this.#endOf(this.#waiting.size) - performance.now()
    if (waitMs > patience.timeoutMs) throw tooLong(this.#partner, waitMs)
    const left = () => {
      this.#waiting.delete(wait)
      this.#grant()
    }
    const timedOut = () => {
      left()
      return tooLong(this.#partner, this.#endOf(0) - performance.now())
    }
    const wait = new Wait<Unit>(patience, timedOut, () => queueMicrotask(left))
    if (!wait.ended) this.#waiting.add(wait)
    this.#grant()
    return wait.promise
  }

  /** A unit for a call that was allowed elsewhere, whether or not one is free here. */
  occupy(): Unit {
    const { intervalMs } = this.#limit
    const endAtLatest = performance.now() + longestAnswerMs(intervalMs) + intervalMs
    const unit: Unit = {
      answered: () => {
        const end = performance.now() + intervalMs
        if (end >= endAtLatest || !this.#unanswered.delete(unit)) return
        this.#answered.set(unit, end)
        this.#grant()
      },
      unused: () => {
        if (this.#unanswered.delete(unit)) this.#grant()
      },
    }
    this.#unanswered.set(unit, endAtLatest)
    return unit
  }

  async close(): Promise<void> {
    this.#alarm.clear()
  }

  get #counted(): number {
    return this.#unanswered.size + this.#answered.size
  }

  /** Gives free units to waiters, and sets the alarm for the next one. */
  #grant(): void {
    this.#expire()
    for (const wait of this.#waiting) {
      if (this.#counted >= this.#limit.rate) break
      this.#waiting.delete(wait)
      if (!wait.ended) wait.resolve(this.occupy())
    }
    this.#alarm.set(this.#waiting.size === 0 ? Number.POSITIVE_INFINITY : this.#endOf(0))
  }

  #expire(): void {
    const now = performance.now()
    for (const units of [this.#unanswered, this.#answered]) {
      for (const [unit, end] of units) {
        if (end > now) break
        units.delete(unit)
      }
    }
  }

  /** When the unit for the waiter behind `ahead` others ends. Units that others will take count for at least one interval. */
  #endOf(ahead: number): number {
    const { rate, intervalMs } = this.#limit
    const ends = [...this.#unanswered.values(), ...this.#answered.values()].sort((a, b) => a - b)
    const free = rate - ends.length
    const nth = Math.max(0, ahead - free)
    return (ends[nth % rate] ?? performance.now()) + Math.floor(nth / rate) * intervalMs
  }
}

import { notify, type Observer } from '../core/observer.js'

/** Reports to an observer how long a store took: once for all decisions of one answer. */
export class AnswerWatch {
  #decisions = 0
  #askedAt = 0
  #answeredAt = 0

  private constructor(readonly observer: Observer) {}

  /** Undefined without an observer of `storeAnswered`. */
  static of(observer: Observer | undefined): AnswerWatch | undefined {
    return observer?.storeAnswered === undefined ? undefined : new AnswerWatch(observer)
  }

  /** One decision was answered. The decisions of one answer are reported at the same moment, the earliest asked first. */
  decided(askedAt: number, answeredAt: number): void {
    if (this.#decisions > 0 && answeredAt === this.#answeredAt) {
      this.#decisions++
      return
    }
    if (this.#decisions > 0) this.#report()
    else queueMicrotask(() => this.#report())
    this.#decisions = 1
    this.#askedAt = askedAt
    this.#answeredAt = answeredAt
  }

  /** A call without decisions was answered. */
  answered(askedAt: number, answeredAt: number): void {
    notify(this.observer, 'storeAnswered', { durationMs: Math.max(0, answeredAt - askedAt), decisions: 0 })
  }

  #report(): void {
    if (this.#decisions === 0) return
    const event = { durationMs: Math.max(0, this.#answeredAt - this.#askedAt), decisions: this.#decisions }
    this.#decisions = 0
    notify(this.observer, 'storeAnswered', event)
  }
}

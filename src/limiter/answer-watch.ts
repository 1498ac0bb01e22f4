import { notify, type Observer } from '../core/observer.js'

/** Tells an observer how long a store took: once for all decisions that one answer brought. */
export class AnswerWatch {
  #decisions = 0
  #askedAt = 0
  #answeredAt = 0

  private constructor(readonly observer: Observer) {}

  /** Undefined where nobody wants to know. */
  static of(observer: Observer | undefined): AnswerWatch | undefined {
    return observer?.storeAnswered === undefined ? undefined : new AnswerWatch(observer)
  }

  /** One decision was answered. Those of one answer come at one moment, the longest asked first. */
  decided(askedAt: number, answeredAt: number): void {
    if (this.#decisions > 0 && answeredAt === this.#answeredAt) {
      this.#decisions++
      return
    }
    if (this.#decisions > 0) this.#tell()
    else queueMicrotask(() => this.#tell())
    this.#decisions = 1
    this.#askedAt = askedAt
    this.#answeredAt = answeredAt
  }

  /** A question was answered that held no decision. */
  answered(askedAt: number, answeredAt: number): void {
    notify(this.observer, 'storeAnswered', { durationMs: Math.max(0, answeredAt - askedAt), decisions: 0 })
  }

  #tell(): void {
    if (this.#decisions === 0) return
    const event = { durationMs: Math.max(0, this.#answeredAt - this.#askedAt), decisions: this.#decisions }
    this.#decisions = 0
    notify(this.observer, 'storeAnswered', event)
  }
}

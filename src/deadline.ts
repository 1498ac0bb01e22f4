import { StoreError } from './errors.js'

interface Pending {
  readonly endsAt: number
  settled: boolean
  expire(): void
}

/**
 * Holds promises to a deadline, measured from the moment of asking by a monotonic clock. One timer serves all: they end in the
 * order in which they were asked.
 */
export class Deadline {
  #queue: Pending[] = []
  #head = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(readonly ms: number) {}

  /** What `answer` resolves or rejects with, or a `StoreError` when the time is over; a later answer changes nothing. */
  hold<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const pending: Pending = {
        endsAt: performance.now() + this.ms,
        settled: false,
        expire: () => reject(new StoreError(`the store did not answer within ${this.ms} ms`)),
      }
      this.#queue.push(pending)
      this.#timer ??= setTimeout(() => this.#expire(), this.ms)
      answer.then(
        value => {
          pending.settled = true
          resolve(value)
        },
        error => {
          pending.settled = true
          reject(error)
        },
      )
    })
  }

  #expire(): void {
    this.#timer = undefined
    const now = performance.now()
    while (this.#head < this.#queue.length) {
      const pending = this.#queue[this.#head]
      // A timer may fire a fraction of a ms early.
      if (!pending.settled && pending.endsAt > now + 0.5) {
        this.#timer = setTimeout(() => this.#expire(), Math.ceil(pending.endsAt - now))
        break
      }
      if (!pending.settled) {
        pending.settled = true
        pending.expire()
      }
      this.#head++
    }
    this.#queue = this.#queue.slice(this.#head)
    this.#head = 0
  }
}

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
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `onLate` is told when an answer comes after its deadline. */
  constructor(
    readonly ms: number,
    readonly onLate: () => void = () => {},
  ) {}

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
          if (pending.settled) this.onLate()
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
    let done = 0
    for (const pending of this.#queue) {
      if (!pending.settled) {
        if (pending.endsAt > now) break
        pending.settled = true
        pending.expire()
      }
      done++
    }
    this.#queue = this.#queue.slice(done)
    const next = this.#queue[0]
    if (next !== undefined) this.#timer = setTimeout(() => this.#expire(), Math.max(1, Math.ceil(next.endsAt - now)))
  }
}

import { StoreError } from './errors.js'

// Not imported: this module also runs where there is nothing of Node. Node's own module, because a test may put another function in the global's place.
const { setImmediate = (act: () => void) => setTimeout(act, 0) } =
  globalThis.process?.getBuiltinModule?.('node:timers') ?? globalThis

/** Longer delays make `setTimeout` fire at once. */
const LONGEST_MS = 2 ** 31 - 1

/** A call that waits for its answer. */
export interface Pending {
  /** By `performance.now()`; the deadline sets it. */
  endsAt: number
  /** True when it was answered or has expired. */
  settled: boolean
  /** Called when the time is over: an answer that comes later does not count. */
  expire(error: StoreError): void
  /** Its answer came after the deadline. */
  late?(): void
}

/** Callbacks for a call that was not answered in time. */
export interface PendingOutcome {
  /** The deadline has passed without an answer. */
  silent?(): void
  /** The answer came after the deadline. */
  late?(): void
}

/**
 * Holds calls to a deadline, measured from the moment of asking by a monotonic clock. One timer serves all, because they end in the
 * order in which they were asked.
 */
export class Deadline {
  #queue: Pending[] = []
  /** Everything before this place in the queue is settled. */
  #head = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  /**
   * `onLate` is told when an answer comes after its deadline; `onSilence` when a deadline passes without one, once for all that
   * end together.
   */
  constructor(
    readonly ms: number,
    readonly onLate: () => void = () => {},
    readonly onSilence: () => void = () => {},
  ) {}

  /** Settles as `answer` does, or rejects with `StoreError` when the time is over; a later answer changes nothing. */
  hold<T>(answer: Promise<T>, outcome?: PendingOutcome): Promise<T> {
    return new Promise((resolve, reject) => {
      const pending: Pending = {
        endsAt: 0,
        settled: false,
        expire: error => {
          outcome?.silent?.()
          reject(error)
        },
        late: outcome?.late,
      }
      this.start(pending)
      answer.then(
        value => {
          if (this.answered(pending)) resolve(value)
        },
        error => {
          if (this.failed(pending)) reject(error)
        },
      )
    })
  }

  /** Starts the deadline of a call that is made now. */
  start(pending: Pending): void {
    pending.endsAt = performance.now() + this.ms
    this.#queue.push(pending)
    if (this.#timer === undefined) this.#timer = this.#startTimer(this.ms)
    else if (this.#queue.length === 1) this.#timer.ref?.()
  }

  /** True if the answer that has come still counts. */
  answered(pending: Pending): boolean {
    if (pending.settled) {
      this.onLate()
      pending.late?.()
    }
    return this.failed(pending)
  }

  /** True if the failure that has come still counts. */
  failed(pending: Pending): boolean {
    if (pending.settled) return false
    pending.settled = true
    this.#advance()
    return true
  }

  // A process that was busy for longer than the deadline finds the timer due and answers unread: it reads them first.
  #startTimer(ms: number): ReturnType<typeof setTimeout> {
    return setTimeout(() => setImmediate(() => this.#expire()), Math.min(ms, LONGEST_MS))
  }

  #expire(): void {
    this.#timer = undefined
    const now = performance.now()
    if (this.#head < this.#queue.length && this.#queue[this.#head].endsAt <= now) this.onSilence()
    for (let pending = this.#queue[this.#head]; pending !== undefined && pending.endsAt <= now; ) {
      pending.settled = true
      pending.expire(new StoreError(`the store did not answer within ${this.ms} ms`))
      this.#advance()
      pending = this.#queue[this.#head]
    }
    const next = this.#queue[this.#head]
    if (next === undefined) return
    // A caller that was rejected may have asked again at once, which started a timer.
    clearTimeout(this.#timer)
    this.#timer = this.#startTimer(Math.max(1, Math.ceil(next.endsAt - now)))
  }

  /** Forgets settled calls: under load those of a whole deadline would fill the heap. */
  #advance(): void {
    while (this.#head < this.#queue.length && this.#queue[this.#head].settled) this.#head++
    if (this.#head === this.#queue.length) {
      this.#queue.length = 0
      // The timer stays for the next call, but keeps no process alive meanwhile.
      this.#timer?.unref?.()
    } else if (this.#head < 1024 || this.#head * 2 < this.#queue.length) return
    else this.#queue.splice(0, this.#head)
    this.#head = 0
  }
}

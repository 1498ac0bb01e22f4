import { StoreError } from './errors.js'

/** The source of the current time. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may be fractional. */
  now(): number
}

/** The process's own time. Reads the global `Date` at each call, so that fake timers in users' tests take effect. */
export const systemClock: Clock = { now: () => Date.now() }

/** A clock that never throws: while the given one does, the time goes on from what it showed last. */
export function goingOn(clock: Clock): Clock {
  let offsetMs = wallOffset()
  return {
    now() {
      try {
        const nowMs = clock.now()
        offsetMs = nowMs - performance.now()
        return nowMs
      } catch {
        return performance.now() + offsetMs
      }
    },
  }
}

/**
 * Grows by the time for which the machine was suspended: the monotonic clock stands still meanwhile, the wall clock
 * does not. Steps of the wall clock change it as well. A lease that another machine counts, too, ends by whichever of
 * the two clocks says so first.
 */
export const wallOffset = (): number => Date.now() - performance.now()

/**
 * For how many ms, at most, the machine was suspended since `wallOffset` was this, as far as a look at the monotonic
 * clock that showed `now` has not seen it. The wall clock counts whole ms: a difference of less than one says nothing.
 * It is read last: a process that is interrupted between its looks finds that it has less time left, and not more.
 */
export function suspendedMs(offset: number, now = performance.now()): number {
  const ms = Date.now() - now - offset
  return ms < 1 ? 0 : ms + 1
}

/** Time that never steps. Measures spans inside the process (deadlines, caches); its values are not moments. */
export const monotonicClock: Clock = { now: () => performance.now() }

// Read from the global object instead of imported: this module also runs where Node's modules do not exist. In Node,
// `node:timers` is used because tests may replace the global function.
const { setImmediate = (act: () => void) => setTimeout(act, 0) } =
  globalThis.process?.getBuiltinModule?.('node:timers') ?? globalThis

/**
 * False in Workers of Cloudflare: there a timer or a promise belongs to the request in which it was made, and is
 * dropped with it, and no timer may be set while a program loads. So no request may wait for a timer or a turn of
 * another one, and no flag may say for longer than a moment that such a thing is under way.
 */
export const timersLast =
  (globalThis as { navigator?: { userAgent?: string } }).navigator?.userAgent !== 'Cloudflare-Workers'

/**
 * Calls back at the end of this turn of the event loop, when all sockets are read; where timers belong to requests, at
 * the end of the request's own turn.
 */
export const afterIo: (act: () => void) => unknown = timersLast ? setImmediate : act => queueMicrotask(act)

/** How much later than its deadline a change may still be carried out, ms. */
export const GRACE_MS = 50

/** A timer that does not keep the process alive. */
export function quietTimer(act: () => void, ms: number): ReturnType<typeof setTimeout> {
  const timer = setTimeout(act, ms)
  timer.unref?.()
  return timer
}

/** Longer delays make `setTimeout` and `setInterval` fire at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

/** A call that waits for its answer. */
export interface Pending {
  /** When the deadline passes, by `performance.now()`; set by `Deadline`. */
  endsAt: number
  /** When the call was made; set by `Deadline`. */
  startedAt?: number
  /** True when the call was answered or has expired. */
  settled: boolean
  /** Of a call that may take longer than the others; set by `Deadline`. */
  timer?: ReturnType<typeof setTimeout>
  /** Called when the deadline passes: a later answer does not count. */
  expire(error: StoreError): void
  /** Called when the answer comes after the deadline. */
  late?(): void
}

/**
 * Rejects calls at a deadline, measured from the start of each call by a monotonic clock. One timer serves all calls
 * that have the same time, because they expire in the order in which they started; each that may take longer has its
 * own.
 */
export class Deadline {
  #queue: Pending[] = []
  /** All calls before this index of the queue are settled. */
  #head = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(readonly ms: number) {}

  /** Settles as `answer` does, or rejects with `StoreError` at the deadline; a later answer has no effect. */
  hold<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const pending: Pending = { endsAt: 0, settled: false, expire: reject }
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

  /** Starts the deadline of a call that is made now. `until`: a moment before which it does not pass. */
  start(pending: Pending, until = 0): void {
    const now = performance.now()
    const endsAt = Math.max(until, now + this.ms)
    pending.startedAt = now
    pending.endsAt = endsAt
    if (endsAt > now + this.ms) {
      // Those in the queue must not wait for its end.
      pending.timer = setTimeout(() => afterIo(() => this.#over(pending)), Math.min(endsAt - now, LONGEST_TIMER_MS))
      return
    }
    this.#queue.push(pending)
    if (this.#timer === undefined) this.#timer = this.#startTimer(pending.endsAt - now)
    else if (this.#queue.length === 1) this.#timer.ref?.()
  }

  /** True if the answer came in time and counts. */
  answered(pending: Pending): boolean {
    if (!pending.settled) return this.failed(pending)
    pending.late?.()
    return false
  }

  /** True if the failure came in time and counts. */
  failed(pending: Pending): boolean {
    if (pending.settled) return false
    pending.settled = true
    clearTimeout(pending.timer)
    this.#advance()
    return true
  }

  // If the process was busy for longer than the deadline, the timer is due before the answers that have arrived were
  // read: read them first.
  #startTimer(ms: number): ReturnType<typeof setTimeout> {
    return setTimeout(() => afterIo(() => this.#expire()), Math.min(ms, LONGEST_TIMER_MS))
  }

  #expire(): void {
    this.#timer = undefined
    const now = performance.now()
    for (let pending = this.#queue[this.#head]; pending !== undefined && pending.endsAt <= now; ) {
      this.#over(pending)
      this.#advance()
      pending = this.#queue[this.#head]
    }
    const next = this.#queue[this.#head]
    if (next === undefined) return
    // A rejected caller may have made a new call at once, which started a timer.
    clearTimeout(this.#timer)
    this.#timer = this.#startTimer(Math.max(1, Math.ceil(next.endsAt - now)))
  }

  #over(pending: Pending): void {
    if (pending.settled) return
    pending.settled = true
    const ms = Math.round(pending.endsAt - (pending.startedAt ?? pending.endsAt - this.ms))
    pending.expire(new StoreError(`the store did not answer within ${ms} ms`))
  }

  /** Drops settled calls: under load the calls of a whole deadline would fill the heap. */
  #advance(): void {
    while (this.#head < this.#queue.length && this.#queue[this.#head].settled) this.#head++
    if (this.#head === this.#queue.length) {
      this.#queue.length = 0
      // The timer stays for the next call, but does not keep the process alive meanwhile.
      this.#timer?.unref?.()
    } else if (this.#head < 1024 || this.#head * 2 < this.#queue.length) return
    else this.#queue.splice(0, this.#head)
    this.#head = 0
  }
}

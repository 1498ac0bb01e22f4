import { afterIo, LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import { StoreError } from '../../limiter/core/errors.js'
import type { ClientPort } from '../client.js'

/** What waits to be sent: a batch of decisions, or a call that must come after one. */
export interface Outgoing {
  /** How many callers wait for its answer. */
  readonly size: number
  /** By `performance.now()`: after this no caller waits. */
  readonly lastEndsAt: number
  /** Whether it is a batch with a decision about one of these keys. */
  holds(keys: readonly string[]): boolean
  send(): void
  /** Nothing of it was sent. */
  reject(error: StoreError): void
}

/** From this number of decisions on, two calls are better than one. */
const WORTH_TWO = 32
/** Most callers that wait for a first connection. */
const MOST_HELD = 10_000

/**
 * What a store sends at the end of this turn of the event loop, when all sockets are read; or, while no call is in
 * flight and waiting gains nothing, as soon as the running callback ends. Over HTTP always at the end of the turn.
 *
 * What is about one key is sent in the order in which it was asked for. While the client connects for the first time,
 * all waits until its deadline; a client that lost its connection is not asked.
 */
export class Outbox {
  #waiting: Outgoing[] = []
  /** Callers that wait. */
  #held = 0
  /** Whether calls wait. */
  #hasCalls = false
  /** The keys of the calls that came since `part` was raised last. */
  readonly #called = new Set<string>()
  /** Raised when a decision must come after the calls that wait: batches of a part before take no more. */
  part = 0
  #isScheduled = false
  #patience: ReturnType<typeof setTimeout> | undefined
  /** Calls without an answer so far. */
  #inFlight = 0
  /** Decisions that the running callback has answered. */
  #answered = 0
  readonly #end = () => {
    this.#isScheduled = false
    this.#flush()
  }

  readonly #forget = () => {
    this.#answered = 0
  }

  constructor(readonly port: ClientPort) {
    port.onReady(() => this.#flush())
    // Who waits for a first connection that was refused is rejected at once.
    port.onLost(() => this.#flush())
  }

  /** Why no more may wait; undefined if more may. */
  get refusal(): StoreError | undefined {
    if (this.#held < MOST_HELD || this.port.state() !== 'starting') return undefined
    return new StoreError('the Redis client has not connected yet, and too much waits for it', { settled: false })
  }

  /** One more decision is collected. */
  collects(): void {
    this.#held++
  }

  /** Whether a decision may have to come after a call that waits: then call `comesAfter`. */
  get hasCalled(): boolean {
    return this.#called.size > 0
  }

  /** Raises `part` if a decision about these keys must come after a call that waits. */
  comesAfter(keys: readonly string[]): void {
    if (!keys.some(key => this.#called.has(key))) return
    this.part++
    this.#called.clear()
  }

  /** Sends a new batch at the end of the turn. */
  add(batch: Outgoing): void {
    this.#waiting.push(batch)
    this.#schedule()
  }

  /** Sends a call about these keys at once, or after the decisions about them and the calls that wait. */
  call(keys: readonly string[], call: Outgoing): void {
    if (!this.#hasCalls && !this.#waiting.some(batch => batch.holds(keys))) {
      call.send()
      return
    }
    const { refusal } = this
    if (refusal !== undefined) {
      call.reject(refusal)
      return
    }
    this.#held++
    this.#hasCalls = true
    for (const key of keys) this.#called.add(key)
    this.add(call)
  }

  /** A batch is sent. */
  sent(): void {
    this.#inFlight++
  }

  answered(decisions: number): void {
    this.#inFlight--
    if (decisions === 1 || this.port.beforeSending !== undefined) return
    // By now, callers that ask again directly after their answer have done so.
    if (this.#answered === 0) process.nextTick(this.#forget)
    this.#answered += decisions
  }

  /**
   * How many decisions the next batch may hold. The first of a turn: half of the decisions just answered, if the same
   * callers ask again. With one call for all, the server would be idle while this process reads and asks, and this
   * process while the server decides.
   */
  get share(): number {
    const isFirst = this.#waiting.length === 0 && this.#inFlight === 0
    return isFirst && this.#answered >= WORTH_TWO ? this.#answered >> 1 : Number.POSITIVE_INFINITY
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    if (this.port.beforeSending !== undefined) this.port.beforeSending(this.#end)
    else if (this.#inFlight === 0) process.nextTick(this.#end)
    else afterIo(this.#end)
  }

  #flush(): void {
    clearTimeout(this.#patience)
    const waiting = this.#waiting
    this.#waiting = []
    if (this.port.state() === 'starting') {
      this.port.open()
      const patient = waiting.filter(one => !this.#gaveUp(one))
      // A rejected caller may have asked again at once.
      this.#waiting = [...patient, ...this.#waiting]
      this.#lookAgain()
      return
    }
    this.#held = 0
    this.#hasCalls = false
    this.#called.clear()
    for (const one of waiting) one.send()
  }

  /** Ends the wait for a first connection that neither comes nor fails. */
  #lookAgain(): void {
    if (this.#waiting.length === 0) return
    const endsAt = Math.min(...this.#waiting.map(one => one.lastEndsAt))
    this.#patience = setTimeout(() => this.#flush(), Math.min(LONGEST_TIMER_MS, endsAt - performance.now() + 1))
  }

  #gaveUp(one: Outgoing): boolean {
    if (performance.now() < one.lastEndsAt) return false
    this.#held -= one.size
    one.reject(new StoreError('the Redis client has not connected yet', { settled: false }))
    return true
  }
}

import { setImmediate } from 'node:timers'

/** From this number of decisions on, two calls are better than one. */
const WORTH_TWO = 32

/**
 * Decides when batchers send: at the end of the turn of the event loop, when all sockets are read; or, while no call is in
 * flight and waiting gains nothing, as soon as the running callback ends. Batches are sent in the order in which they were requested.
 */
export class SendScheduler {
  /** Calls without an answer so far. */
  #inFlight = 0
  /** Decisions that the running callback has answered. */
  #answered = 0
  #due: (() => void)[] = []
  readonly #end = () => {
    const due = this.#due
    this.#due = []
    for (const flush of due) flush()
  }

  readonly #forget = () => {
    this.#answered = 0
  }

  /** Calls `flush` at the end of this turn of the event loop. */
  schedule(flush: () => void): void {
    if (this.#due.push(flush) > 1) return
    if (this.#inFlight === 0) process.nextTick(this.#end)
    else setImmediate(this.#end)
  }

  sent(): void {
    this.#inFlight++
  }

  answered(decisions: number): void {
    this.#inFlight--
    if (decisions === 1) return
    // By now, callers that ask again directly after their answer have done so.
    if (this.#answered === 0) process.nextTick(this.#forget)
    this.#answered += decisions
  }

  /**
   * How many decisions the first call of this turn may hold: half of the decisions just answered, if the same callers ask again. With one call
   * for all, the server would be idle while this process reads and asks, and this process while the server decides.
   */
  get firstShare(): number {
    return this.#inFlight === 0 && this.#answered >= WORTH_TWO ? this.#answered >> 1 : Number.POSITIVE_INFINITY
  }
}

import { setImmediate } from 'node:timers'

/** So many decisions are worth two calls instead of one. */
const WORTH_TWO = 32

/**
 * When batchers send what they have gathered: at the end of the turn of the event loop, all sockets read; or, while no call of theirs is in
 * flight and so nothing is gained by waiting, as soon as the running callback ends. They send in the order in which they were asked.
 */
export class Turn {
  /** Calls that have not been answered yet. */
  #inFlight = 0
  /** Decisions that were answered in the running callback. */
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

  /** Calls `flush` at the end of this turn. */
  ends(flush: () => void): void {
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
    // Callers that ask again as soon as they are answered have done so when this is called.
    if (this.#answered === 0) process.nextTick(this.#forget)
    this.#answered += decisions
  }

  /**
   * How many decisions the first call of this turn may hold: half of what was just answered, if the same callers ask again. In one call for
   * all of them the server would stand still while this process reads and asks, and this process while the server decides.
   */
  get firstShare(): number {
    return this.#inFlight === 0 && this.#answered >= WORTH_TWO ? this.#answered >> 1 : Number.POSITIVE_INFINITY
  }
}

import { setImmediate } from 'node:timers'

/**
 * When batchers send what they have gathered: at the end of the turn of the event loop, all sockets read; or, while no call of theirs is in
 * flight and so nothing is gained by waiting, as soon as the running callback ends. They send in the order in which they were asked.
 */
export class Turn {
  /** Calls that have not been answered yet. */
  #inFlight = 0
  #due: (() => void)[] = []
  readonly #end = () => {
    const due = this.#due
    this.#due = []
    for (const flush of due) flush()
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

  answered(): void {
    this.#inFlight--
  }
}

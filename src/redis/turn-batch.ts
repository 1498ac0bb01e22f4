import { setImmediate } from 'node:timers'

/**
 * Gathers what is asked in one turn of the event loop, so that what is alike goes in one call. All goes in the order in which it was
 * asked, but for what is told to go first.
 */
export class TurnBatch<Ask> {
  #first: Ask[][] = []
  #rest: Ask[][] = []
  #scheduled = false

  /** `alike` of the last of a call and what is asked now; no call takes more than `most`. */
  constructor(
    readonly alike: (last: Ask, ask: Ask) => boolean,
    readonly most: number,
    readonly send: (asks: readonly Ask[]) => void,
  ) {}

  add(ask: Ask, first = false): void {
    if (!this.#scheduled) {
      this.#scheduled = true
      setImmediate(() => this.flush())
    }
    const calls = first ? this.#first : this.#rest
    const last = calls.at(-1)
    if (last !== undefined && last.length < this.most && this.alike(last[last.length - 1], ask)) last.push(ask)
    else calls.push([ask])
  }

  /** Sends now what has been gathered: before anything that must not overtake it. */
  flush(): void {
    if (!this.#scheduled) return
    this.#scheduled = false
    const calls = this.#first.length === 0 ? this.#rest : [...this.#first, ...this.#rest]
    this.#first = []
    this.#rest = []
    for (const asks of calls) this.send(asks)
  }
}

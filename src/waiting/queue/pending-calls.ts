import type { Pending } from '../../limiter/core/clock.js'
import type { Commands } from '../../redis/commands.js'

/** One of several calls that a command carries. */
interface PendingCall<Content, Answer> {
  readonly content: Content
  readonly call: Pending
  resolve(answer: Answer): unknown
  reject(error: unknown): unknown
}

/**
 * Calls that wait to be sent, in order: one command carries many. Each rejects with `StoreError` after five seconds,
 * that wait included.
 */
export class PendingCalls<Content, Answer> {
  readonly #commands: Commands
  #calls: PendingCall<Content, Answer>[] = []

  constructor(commands: Commands) {
    this.#commands = commands
  }

  get size(): number {
    return this.#calls.length
  }

  add(content: Content): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const call = this.#commands.begin(error => {
        // Calls expire in their order. This one is not sent any more, unless it is in flight.
        if (this.#calls[0]?.call === call) this.#calls.shift()
        reject(error)
      })
      this.#calls.push({
        content,
        call,
        resolve: answer => this.#commands.end(call) && resolve(answer),
        reject: error => this.#commands.end(call) && reject(error),
      })
    })
  }

  /** Takes out at most `most`, until `fits` is false for one of them that is not the first. */
  take(most: number, fits: (content: Content) => boolean = () => true): PendingCall<Content, Answer>[] {
    const end = this.#calls.findIndex(({ content }, i) => i === most || (!fits(content) && i > 0))
    return this.#calls.splice(0, end < 0 ? this.#calls.length : end)
  }
}

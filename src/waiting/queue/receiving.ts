import { type Patience, Wait } from '../../limiter/core/wait.js'
import type { Taken } from './fetch.js'
import type { Fetcher } from './fetcher.js'
import type { MessageReceiver } from './receivers.js'

const NOTHING = Symbol('nothing')

/** One `receive` in progress. */
export class Receiving<D> implements MessageReceiver {
  readonly #fetcher: Fetcher
  readonly stays: boolean
  readonly beginsLater = false
  readonly #count: number
  readonly #open: (taken: Taken) => D | undefined
  readonly #giveBack: (delivery: D) => void
  readonly #wait: Wait<void>
  readonly #deliveries: D[] = []

  constructor(
    fetcher: Fetcher,
    readonly visibilityMs: number,
    count: number,
    patience: Patience,
    open: (taken: Taken) => D | undefined,
    giveBack: (delivery: D) => void,
  ) {
    this.#fetcher = fetcher
    this.#count = count
    this.stays = patience.timeoutMs > 0
    this.#open = open
    this.#giveBack = giveBack
    // Without `wait` it asks once, and waits for the answer without a timeout.
    const asked = this.stays ? patience : { ...patience, timeoutMs: Number.POSITIVE_INFINITY }
    this.#wait = new Wait<void>(asked, () => NOTHING)
  }

  /** Rejects with the signal's reason; messages taken by then are put back. */
  async deliveries(): Promise<D[]> {
    if (!this.#wait.ended) {
      this.#fetcher.join(this)
      this.#fetcher.ask()
    }
    try {
      await this.#wait.promise
    } catch (error) {
      if (error !== NOTHING) {
        for (const delivery of this.#deliveries.splice(0)) this.#giveBack(delivery)
        throw error
      }
    } finally {
      this.#fetcher.leave(this)
    }
    return this.#deliveries
  }

  /** Ends it with the messages that it has. */
  end(): void {
    this.#wait.resolve()
  }

  room(): number {
    return this.#wait.ended ? 0 : this.#count - this.#deliveries.length
  }

  take(taken: readonly Taken[], more: boolean): void {
    for (const message of taken) {
      const delivery = this.#open(message)
      if (delivery === undefined) continue
      if (this.#wait.ended) this.#giveBack(delivery)
      else this.#deliveries.push(delivery)
    }
    if (more && this.room() > 0) return
    if (this.#deliveries.length > 0 || !this.stays) this.#wait.resolve()
  }

  failed(error: unknown): void {
    if (this.#deliveries.length > 0) this.#wait.resolve()
    else this.#wait.reject(error)
  }
}

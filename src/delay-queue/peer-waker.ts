import type { Commands } from '../redis/commands.js'
import { queueWakeMore } from '../redis/scripts.js'
import { OverflowWaker } from './overflow-waker.js'
import { WakeupCheck } from './wakeup-check.js'

/** Wakes other idle processes of the same queue. */
export class PeerWaker {
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #overflow: OverflowWaker
  readonly #check = new WakeupCheck(count => this.#run(count))

  /** `saturated`: messages are due and this process has no room. `passOn` wakes other processes for them. */
  constructor(commands: Commands, keys: readonly string[], saturated: () => boolean, passOn: () => void) {
    this.#commands = commands
    this.#keys = keys
    this.#overflow = new OverflowWaker(saturated, passOn)
  }

  /** Wakes others. Rejects with `StoreError`. */
  async wake(): Promise<void> {
    if (await this.#run(0)) this.woke()
  }

  /** A command has woken other processes: checks in a moment that one of them came. */
  woke(): void {
    this.#check.start()
  }

  /** This process has asked, so that no other process need come. */
  came(): void {
    this.#check.stop()
  }

  passOn(): void {
    this.#overflow.now()
  }

  passOnIfSaturated(): void {
    this.#overflow.ifSaturated()
  }

  close(): void {
    this.#check.close()
    this.#overflow.close()
  }

  /** 0: wakes other processes; else wakes `more` if none has come since. True if any were woken. */
  async #run(more: number): Promise<boolean> {
    return (await this.#commands.run(queueWakeMore, this.#keys, [String(more)])) === 1
  }
}

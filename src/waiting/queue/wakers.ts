import type { Commands } from '../../redis/commands.js'
import { queueWakeMore } from '../../redis/scripts.js'

/** Within this time the woken process has come, or else the second one, which is woken in case the first is stopped. */
const CHECK_MS = 200
const FIRST_MORE = 4
/** A process that stays saturated for this long wakes others. */
const SATURATED_MS = 2
/** While saturated, wake others at most once per interval. */
const INTERVAL_MS = 50

/**
 * Wakes other idle processes of the same queue. After that it checks that one of them came; if not, it wakes more: 4,
 * then 8, and so on, until one comes or no process is idle. It does not keep the process alive.
 */
export class PeerWaker {
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #saturated: () => boolean
  readonly #passOn: () => void
  #check: ReturnType<typeof setTimeout> | undefined
  #overflow: ReturnType<typeof setTimeout> | undefined
  #passedOnAt = Number.NEGATIVE_INFINITY
  #closed = false

  /** `saturated`: messages are due and this process has no room. `passOn` wakes other processes for them. */
  constructor(commands: Commands, keys: readonly string[], saturated: () => boolean, passOn: () => void) {
    this.#commands = commands
    this.#keys = keys
    this.#saturated = saturated
    this.#passOn = passOn
  }

  /** Wakes others. Rejects with `StoreError`. */
  async wake(): Promise<void> {
    if (await this.#run(0)) this.woke()
  }

  /** A command has woken other processes: checks in a moment that one of them came. */
  woke(): void {
    if (this.#check === undefined && !this.#closed) this.#checkLater(FIRST_MORE)
  }

  /** This process has asked, so that no other process need come. */
  came(): void {
    clearTimeout(this.#check)
    this.#check = undefined
  }

  passOn(): void {
    this.#passedOnAt = performance.now()
    this.#passOn()
  }

  /** Wakes others if this process is still saturated in a moment. */
  passOnIfSaturated(): void {
    if (this.#overflow !== undefined) return
    const ms = Math.max(SATURATED_MS, this.#passedOnAt + INTERVAL_MS - performance.now())
    this.#overflow = setTimeout(() => {
      this.#overflow = undefined
      if (this.#saturated()) this.passOn()
    }, ms)
    this.#overflow.unref?.()
  }

  close(): void {
    this.#closed = true
    this.came()
    clearTimeout(this.#overflow)
  }

  #checkLater(more: number): void {
    this.#check = setTimeout(async () => {
      this.#check = undefined
      const woken = await this.#run(more).catch(() => false)
      if (woken && this.#check === undefined && !this.#closed) this.#checkLater(more * 2)
    }, CHECK_MS)
    this.#check.unref?.()
  }

  /** 0: wakes other processes; else wakes `more` if none has come since. True if any were woken. */
  async #run(more: number): Promise<boolean> {
    return (await this.#commands.run(queueWakeMore, this.#keys, [String(more)])) === 1
  }
}

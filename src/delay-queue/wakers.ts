import type { Commands } from '../redis/commands.js'
import { queueWakeMore } from '../redis/scripts.js'

/** Within this time the woken process has come, or else the second one, which is woken in case the first is stopped. */
const CHECK_MS = 200
const FIRST_MORE = 4

/**
 * After this process has woken others, checks that one of them came; if not, wakes more: 4, then 8, and so on, until one comes or no process
 * is idle. It does not keep the process alive.
 */
class WakeupCheck {
  readonly #wakeMore: (count: number) => Promise<boolean>
  #timer: ReturnType<typeof setTimeout> | undefined
  #closed = false

  /** `wakeMore` resolves to true if none had come and more processes were woken. */
  constructor(wakeMore: (count: number) => Promise<boolean>) {
    this.#wakeMore = wakeMore
  }

  /** Processes were woken just now. */
  start(): void {
    if (this.#timer === undefined && !this.#closed) this.#arm(FIRST_MORE)
  }

  /** A process has come. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  close(): void {
    this.#closed = true
    this.stop()
  }

  #arm(more: number): void {
    this.#timer = setTimeout(async () => {
      this.#timer = undefined
      const woken = await this.#wakeMore(more).catch(() => false)
      if (woken && this.#timer === undefined && !this.#closed) this.#arm(more * 2)
    }, CHECK_MS)
    this.#timer.unref()
  }
}

/** A process that stays saturated for this long wakes others. */
const SATURATED_MS = 2
/** While saturated, wake others at most once per interval. */
const INTERVAL_MS = 50

/** Wakes other processes for messages that this one has no room for. */
class OverflowWaker {
  readonly #saturated: () => boolean
  readonly #wake: () => void
  #timer: ReturnType<typeof setTimeout> | undefined
  #wokenAt = Number.NEGATIVE_INFINITY

  /** `saturated`: messages are due and this process has no room for them. */
  constructor(saturated: () => boolean, wake: () => void) {
    this.#saturated = saturated
    this.#wake = wake
  }

  now(): void {
    this.#wokenAt = performance.now()
    this.#wake()
  }

  /** Wakes others if this process is still saturated in a moment. */
  ifSaturated(): void {
    if (this.#timer !== undefined) return
    const ms = Math.max(SATURATED_MS, this.#wokenAt + INTERVAL_MS - performance.now())
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#saturated()) this.now()
    }, ms)
    this.#timer.unref()
  }

  close(): void {
    clearTimeout(this.#timer)
  }
}

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

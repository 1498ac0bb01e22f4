/** Within this time the woken process has come, or else the second one, which is woken in case the first is stopped. */
const CHECK_MS = 200
const FIRST_MORE = 4

/**
 * After this process has woken others, checks that one of them came; if not, wakes more: 4, then 8, and so on, until one comes or no process
 * is idle. It does not keep the process alive.
 */
export class WakeupCheck {
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

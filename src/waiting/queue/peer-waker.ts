/** A process that stays saturated for this long wakes others. */
const SATURATED_MS = 2
/** While saturated, wake others at most once per interval. */
const INTERVAL_MS = 50

/** Wakes other idle processes for messages that this one cannot take. It does not keep the process alive. */
export class PeerWaker {
  readonly #wake: () => void
  readonly #isSaturated: () => boolean
  #timer: ReturnType<typeof setTimeout> | undefined
  #wokeAt = Number.NEGATIVE_INFINITY

  /** `isSaturated`: messages are due and this process has no room. */
  constructor(wake: () => void, isSaturated: () => boolean) {
    this.#wake = wake
    this.#isSaturated = isSaturated
  }

  wake(): void {
    this.#wokeAt = performance.now()
    this.#wake()
  }

  /** Wakes others if this process is still saturated in a moment. */
  wakeIfSaturated(): void {
    if (this.#timer !== undefined) return
    const ms = Math.max(SATURATED_MS, this.#wokeAt + INTERVAL_MS - performance.now())
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#isSaturated()) this.wake()
    }, ms)
    this.#timer.unref?.()
  }

  close(): void {
    clearTimeout(this.#timer)
  }
}

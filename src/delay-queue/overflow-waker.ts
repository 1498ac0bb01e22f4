/** A process that stays saturated for this long wakes others. */
const SATURATED_MS = 2
/** While saturated, wake others at most once per interval. */
const INTERVAL_MS = 50

/** Wakes other processes for messages that this one has no room for. */
export class OverflowWaker {
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

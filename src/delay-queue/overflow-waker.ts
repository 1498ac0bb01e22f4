/** A process that is saturated for so long wakes others. */
const PATIENCE_MS = 2
/** As long as it stays so, so often. */
const EVERY_MS = 50

/** Hands on what a process cannot take itself: somebody else is woken for it. */
export class OverflowWaker {
  readonly #saturated: () => boolean
  readonly #wake: () => void
  #timer: ReturnType<typeof setTimeout> | undefined
  #wokenAt = Number.NEGATIVE_INFINITY

  /** `saturated`: there is something to take and no room for it. */
  constructor(saturated: () => boolean, wake: () => void) {
    this.#saturated = saturated
    this.#wake = wake
  }

  now(): void {
    this.#wokenAt = performance.now()
    this.#wake()
  }

  /** Unless there is room again in a moment. */
  nextTick(): void {
    if (this.#timer !== undefined) return
    const ms = Math.max(PATIENCE_MS, this.#wokenAt + EVERY_MS - performance.now())
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#saturated()) this.now()
    }, ms)
    this.#timer.unref()
  }
}

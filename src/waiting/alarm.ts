/** Longer delays make `setTimeout` fire at once. */
const LONGEST_MS = 2 ** 31 - 1

/**
 * One timer that is set to a moment of `performance.now()` and never rings before it. (A timer of Node may fire up to a
 * millisecond early, and at once for more than 24 days.) It keeps the process alive while it is set, unless told not to.
 */
export class Alarm {
  #timer: ReturnType<typeof setTimeout> | undefined
  #at = Number.POSITIVE_INFINITY

  constructor(
    readonly ring: () => void,
    readonly keepsAlive = true,
  ) {}

  /** Rings at `at` instead of whenever it was set to; `Infinity`: never. */
  set(at: number): void {
    if (at === this.#at) return
    this.#at = at
    clearTimeout(this.#timer)
    if (at < Number.POSITIVE_INFINITY) this.#arm()
  }

  clear(): void {
    this.set(Number.POSITIVE_INFINITY)
  }

  #arm(): void {
    const ms = Math.min(LONGEST_MS, Math.max(1, Math.ceil(this.#at - performance.now())))
    this.#timer = setTimeout(() => {
      if (performance.now() < this.#at) {
        this.#arm()
        return
      }
      this.#at = Number.POSITIVE_INFINITY
      this.ring()
    }, ms)
    if (!this.keepsAlive) this.#timer.unref?.()
  }
}

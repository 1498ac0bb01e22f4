/** Redis keeps the last fetch of a process for this long, to repeat its answer. */
const KEPT_MS = 60_000

/**
 * Numbers the fetches. A fetch whose answer was lost is sent again under its number and gets the same messages, so that they
 * count as delivered only once.
 */
export class FetchNumber {
  #value = 1
  #unreadSince: number | undefined

  get value(): number {
    return this.#value
  }

  /** False before the first answered fetch: Redis keeps nothing until then. */
  get used(): boolean {
    return this.#value > 1
  }

  /** True if the answer to a fetch was lost and Redis may still keep it. */
  get unread(): boolean {
    return this.#unreadSince !== undefined && performance.now() - this.#unreadSince <= KEPT_MS
  }

  answered(): void {
    this.#value++
    this.#unreadSince = undefined
  }

  failed(): void {
    this.#unreadSince ??= performance.now()
  }
}

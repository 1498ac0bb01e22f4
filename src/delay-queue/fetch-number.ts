/** Redis keeps the last fetch of a process for this long, to answer it again. */
const KEPT_MS = 60_000

/**
 * The number of the next fetch. A fetch whose answer was not read is sent again under its number, and gets the same messages: so they
 * count as delivered once.
 */
export class FetchNumber {
  #value = 1
  #unreadSince: number | undefined

  get value(): number {
    return this.#value
  }

  /** False before the first fetch that was answered: then Redis keeps nothing. */
  get used(): boolean {
    return this.#value > 1
  }

  /** True while there is a fetch whose answer was not read, and Redis may still keep it. */
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

import { Counters } from './counters.js'

/** Keys that are refused without asking the store. */
export class BlockedKeys {
  readonly #until = new Counters()

  block(key: string, ms: number): void {
    const now = Date.now()
    if (ms > 0) this.#until.set(key, 0, now + ms, now)
  }

  /** For how many ms more; 0: not at all. */
  msLeft(key: string): number {
    const now = Date.now()
    const until = this.#until.get(key, now)?.expiresAt
    return until == null ? 0 : until - now
  }

  delete(key: string): void {
    this.#until.delete(key, 0)
  }

  clear(): void {
    this.#until.clear()
  }
}

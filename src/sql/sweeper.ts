import { afterIo } from '../limiter/core/clock.js'

/** How often a process that writes removes expired rows. */
const SWEEP_EVERY_MS = 5000
/** Rows that one statement looks at. */
const PAGE = 500

/**
 * Removes expired rows by walking over all keys, a page at a time: an index on the time of expiry would make every
 * write twice as slow. A process looks at twice as many rows as it adds, so that the table stays within about twice
 * what counts. A process that writes nothing sends nothing.
 */
export class RowSweeper {
  #timer: ReturnType<typeof setTimeout> | undefined
  #added = 0
  #after: string

  /** `sweep` looks at a page of keys after one, and gives the last of them; undefined at the end. */
  constructor(
    readonly first: string,
    readonly sweep: (after: string, most: number) => Promise<string | undefined>,
  ) {
    this.#after = first
  }

  /** So many rows were added to the table; 0: rows were written. */
  wrote(added: number): void {
    this.#added += added
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      const rows = Math.max(PAGE, 2 * this.#added)
      this.#added = 0
      void this.walk(rows).then(() => {
        this.#timer = undefined
      })
    }, SWEEP_EVERY_MS)
    // What has expired is no reason for a process to stay.
    this.#timer.unref?.()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Looks at so many rows. */
  async walk(rows: number): Promise<void> {
    try {
      for (let left = rows; left > 0; left -= PAGE) {
        const last = await this.sweep(this.#after, Math.min(PAGE, left))
        this.#after = last ?? this.first
        if (last === undefined) break
        // A sweep of SQLite is one synchronous call.
        if (left > PAGE) await new Promise<void>(resolve => void afterIo(resolve))
      }
    } catch {
      // Decisions report what is wrong with the database.
    }
  }
}

import { KeyRow, NO_VERSION } from './key-row.js'

/** Letters of all rows that are remembered: a row takes up to ten times as many bytes. */
const MOST_LETTERS = 8_000_000

/**
 * The rows that this process wrote or read last. A decision guesses that they have not changed since; the database
 * checks it.
 */
export class KnownRows {
  readonly #rows = new Map<string, KeyRow>()
  /**
   * Another process has written these since, so they are read before the next write: until a read finds the version
   * that is remembered.
   */
  readonly #foreign = new Set<string>()
  #letters = 0
  /** The share of rows nobody remembered that were there: if most were not, a row is guessed to be missing. */
  #foundShare = 1

  constructor(readonly most: number) {}

  /** The row as far as it is known; a guess. */
  get(key: string): KeyRow {
    return this.#rows.get(key) ?? KeyRow.none
  }

  /** Whether reading first is better than a guess. */
  isDoubtful(key: string): boolean {
    return this.#rows.has(key) ? this.#foreign.has(key) : this.#foundShare > 0.5
  }

  /**
   * A row was read: gives it, whether it will be remembered or not. Throws `StoreError` if its text is of another
   * format.
   */
  read(key: string, version: string, text: string): KeyRow {
    const known = this.#rows.get(key)
    if (known?.version === version) {
      this.#foreign.delete(key)
      return known
    }
    const row = KeyRow.decode(version, text)
    if (known === undefined) this.#note(version !== NO_VERSION)
    else this.#foreign.add(key)
    this.#put(key, row)
    return row
  }

  wrote(key: string, row: KeyRow): void {
    if (!this.#rows.has(key)) this.#note(false)
    this.#put(key, row)
  }

  /** Another process has written it. */
  lost(key: string): void {
    if (!this.#rows.has(key)) this.#note(true)
    this.#foreign.add(key)
    this.#put(key, this.get(key))
  }

  forget(key: string): void {
    const known = this.#rows.get(key)
    if (known === undefined) return
    this.#letters -= known.size
    this.#rows.delete(key)
    this.#foreign.delete(key)
  }

  /**
   * The oldest go when there are too many. A row that is written again stays as old as it was: moved to the end each
   * time, it would leave gaps that every look at the oldest walks over.
   */
  #put(key: string, row: KeyRow): void {
    this.#letters += row.size - this.get(key).size
    this.#rows.set(key, row)
    while (this.#rows.size > this.most || this.#letters > MOST_LETTERS) {
      const [oldest] = this.#rows.keys()
      this.forget(oldest)
    }
  }

  #note(isThere: boolean): void {
    this.#foundShare += ((isThere ? 1 : 0) - this.#foundShare) / 16
  }
}

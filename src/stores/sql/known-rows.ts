import { KeyRow, NO_VERSION } from './key-row.js'

/** What is remembered of a row. */
interface Known {
  readonly row: KeyRow
  /** Another process has written it since, so it is read before the next write: until a read finds the version that is remembered. */
  readonly isForeign: boolean
}

/** Letters of all rows that are remembered: a row takes up to ten times as many bytes. */
const MOST_LETTERS = 8_000_000

/** The rows that this process wrote or read last. A decision guesses that they have not changed since; the database checks it. */
export class KnownRows {
  readonly #rows = new Map<string, Known>()
  #letters = 0
  /** The share of rows nobody remembered that were there: if most were not, a row is guessed to be missing. */
  #foundShare = 1

  constructor(readonly most: number) {}

  /** The row as far as it is known; a guess. */
  get(key: string): KeyRow {
    return this.#rows.get(key)?.row ?? KeyRow.none
  }

  /** Whether reading first is better than a guess. */
  isDoubtful(key: string): boolean {
    return this.#rows.get(key)?.isForeign ?? this.#foundShare > 0.5
  }

  /** A row was read. Throws `StoreError` if its text is of another format. */
  read(key: string, version: string, text: string): void {
    const known = this.#rows.get(key)
    if (known?.row.version === version) {
      if (known.isForeign) this.#put(key, known.row, false)
      return
    }
    if (known === undefined) this.#note(version !== NO_VERSION)
    this.#put(key, KeyRow.decode(version, text), known !== undefined)
  }

  wrote(key: string, row: KeyRow): void {
    const known = this.#rows.get(key)
    if (known === undefined) this.#note(false)
    this.#put(key, row, known?.isForeign === true)
  }

  /** Another process has written it. */
  lost(key: string): void {
    if (!this.#rows.has(key)) this.#note(true)
    this.#put(key, this.get(key), true)
  }

  forget(key: string): void {
    const known = this.#rows.get(key)
    if (known === undefined) return
    this.#letters -= known.row.size
    this.#rows.delete(key)
  }

  /** The oldest go when there are too many. A row that is written again stays as old as it was: moved to the end each time, it would leave gaps that every look at the oldest walks over. */
  #put(key: string, row: KeyRow, isForeign: boolean): void {
    this.#letters += row.size - (this.#rows.get(key)?.row.size ?? 0)
    this.#rows.set(key, { row, isForeign })
    while (this.#rows.size > this.most || this.#letters > MOST_LETTERS) {
      const [oldest] = this.#rows.keys()
      this.forget(oldest)
    }
  }

  #note(isThere: boolean): void {
    this.#foundShare += ((isThere ? 1 : 0) - this.#foundShare) / 16
  }
}

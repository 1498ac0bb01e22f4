import { SpillwayError } from '../../core/errors.js'

/** The most entries of a `Map`. With more keys the process would run out of memory at about this point. */
export const MOST_KEYS = 2 ** 24 - 1

/** There are more different keys than can be counted. Earlier counts are valid. */
export class TooManyKeysError extends SpillwayError {
  override readonly code = 'SPILLWAY_TOO_MANY_KEYS'
}

/** Numbers the keys, so that a waiting line and a count each need a number instead of another string. */
export class KeyTable {
  readonly #ids = new Map<string, number>()
  readonly #keys: string[] = []

  constructor(readonly mostKeys = MOST_KEYS) {}

  get size(): number {
    return this.#keys.length
  }

  keyOf(id: number): string {
    return this.#keys[id]
  }

  /** The key itself if it is in the table. */
  known(key: string): string | undefined {
    return this.#ids.has(key) ? key : undefined
  }

  /** Throws `TooManyKeysError` for a new key when the table is full. */
  idOf(key: string): number {
    const known = this.#ids.get(key)
    if (known !== undefined) return known
    if (this.#keys.length >= this.mostKeys) {
      throw new TooManyKeysError(
        `more than ${this.mostKeys} different keys: expected fewer, like those of a part of the log, or of --by ip with an --ipv6-subnet`,
      )
    }
    const id = this.#keys.length
    this.#ids.set(key, id)
    this.#keys.push(key)
    return id
  }
}

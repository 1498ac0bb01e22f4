import { SpillwayError } from '../../core/errors.js'
import { atMost } from '../../dashboard/counts.js'

/** A key and how often each policy refused it. */
export interface RankedKey {
  readonly key: string
  readonly requests: number
  /** For each policy. */
  readonly denied: readonly number[]
}

/**
 * The first `most` of any number of keys: most refused first (by the policy that refused it most), then most requests, then
 * by key. Holds little more than twice as many as it keeps.
 */
export class Ranking<Key extends RankedKey = RankedKey> {
  #kept: Key[] = []
  /** The lowest entry of a full ranking: keys below it do not enter. */
  #last: Key | undefined

  constructor(readonly most: number) {}

  add(candidate: Key): void {
    if (this.#last !== undefined && compare(this.#last, candidate) < 0) return
    this.#kept.push(candidate)
    if (this.#kept.length >= 2 * this.most + 1000) this.#cut()
  }

  first(): readonly Key[] {
    this.#cut()
    return this.#kept
  }

  #cut(): void {
    this.#kept = this.#kept.sort(compare).slice(0, this.most)
    this.#last = this.#kept.length === this.most ? this.#kept.at(-1) : undefined
  }
}

function compare(a: RankedKey, b: RankedKey): number {
  return worst(b) - worst(a) || b.requests - a.requests || (a.key < b.key ? -1 : 1)
}

function worst({ denied }: RankedKey): number {
  let most = 0
  for (const count of denied) if (count > most) most = count
  return most
}

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

/** How long refused requests would have had to wait; Infinity: they never fit. In ms, exact to three digits; the longest is exact. */
export interface Waits {
  /** Half of the refused requests wait no longer. */
  readonly median: number
  /** Nine in ten wait no longer. */
  readonly ninth: number
  readonly longest: number
}

/** Counts waits in constant memory. */
export class WaitCounts {
  readonly #counts = new Map<number, number>()
  #longest = 0

  add(ms: number): void {
    const about = Number.isFinite(ms) ? Number(ms.toPrecision(3)) : ms
    this.#counts.set(about, (this.#counts.get(about) ?? 0) + 1)
    if (ms > this.#longest) this.#longest = ms
  }

  /** undefined if no request was refused. */
  sum(): Waits | undefined {
    if (this.#counts.size === 0) return undefined
    const within = (share: number) => Math.min(atMost(this.#counts, share) as number, this.#longest)
    return { median: within(0.5), ninth: within(0.9), longest: this.#longest }
  }
}

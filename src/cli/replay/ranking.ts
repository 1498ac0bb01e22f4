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

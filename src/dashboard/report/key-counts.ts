import { ownCopy, shortKey } from '../../core/short-key.js'

/** Counts keys in bounded memory: those that come most often are surely among them. */
export interface KeyCounts {
  add(key: string): void
  /** The most frequent, at most so many, the first the most. */
  top(count: number): ReadonlyArray<{ readonly key: string; readonly count: number }>
}

/** Space-Saving (Metwally et al., 2005): a new key takes the place of the rarest one and inherits its count. */
export class SpaceSaving implements KeyCounts {
  readonly #counts = new Map<string, number>()

  /** `capacity`: any key that is more than one in so many of all is surely found. */
  constructor(readonly capacity: number) {}

  add(given: string): void {
    const key = shortKey(given)
    const known = this.#counts.get(key)
    if (known !== undefined) {
      this.#counts.set(key, known + 1)
      return
    }
    if (this.#counts.size < this.capacity) {
      this.#counts.set(ownCopy(key), 1)
      return
    }
    let rarest = ''
    let least = Number.POSITIVE_INFINITY
    for (const [other, count] of this.#counts) {
      if (count >= least) continue
      rarest = other
      least = count
      if (least === 1) break
    }
    this.#counts.delete(rarest)
    this.#counts.set(ownCopy(key), least + 1)
  }

  top(count: number): ReadonlyArray<{ readonly key: string; readonly count: number }> {
    const all = [...this.#counts].map(([key, count]) => ({ key, count }))
    return all.sort((a, b) => b.count - a.count).slice(0, count)
  }
}

/** `over` is divided into at most this many parts. */
const MOST_PARTS = 60
const SHORTEST_PART_MS = 1000

/** What a part of a window adds up to. */
export interface WindowPart {
  clear(): void
}

/**
 * At least the last `overMs`, in parts: memory does not depend on the number of events. The oldest part expires as a whole, once all of it is
 * older than `overMs`, so up to one part more counts. Moments must not go back.
 */
export class TimeWindow<Part extends WindowPart> {
  readonly #parts: Part[]
  readonly #partMs: number
  #newest = Number.NEGATIVE_INFINITY

  constructor(overMs: number, make: () => Part, mostParts = MOST_PARTS) {
    this.#partMs = Math.max(SHORTEST_PART_MS, overMs / mostParts)
    this.#parts = Array.from({ length: Math.ceil(overMs / this.#partMs) + 1 }, make)
  }

  /** The part of a moment; what is too old has been cleared. */
  at(now: number): Part {
    const tick = Math.floor(now / this.#partMs)
    const count = this.#parts.length
    if (tick > this.#newest) {
      for (let passed = Math.min(count, tick - this.#newest); passed > 0; passed--) {
        this.#parts[modulo(tick - passed + 1, count)].clear()
      }
      this.#newest = tick
    }
    return this.#parts[modulo(tick, count)]
  }

  /** All parts that count at this moment. */
  all(now: number): readonly Part[] {
    this.at(now)
    return this.#parts
  }
}

/** Of clocks that show moments before 1970, too. */
function modulo(a: number, b: number): number {
  return ((a % b) + b) % b
}

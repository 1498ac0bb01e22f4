/**
 * Units that are spent, by the moment at which they end, by `performance.now()`. Those that end at infinity are held
 * until somebody gives them back.
 */
export class Spent {
  /** Rising. */
  readonly #ends: number[] = []
  readonly #units = new Map<number, number>()
  #sum = 0

  /** How many have not ended, as of the last `update`. */
  get sum(): number {
    return this.#sum
  }

  /** How many are held. */
  get held(): number {
    return this.#units.get(Number.POSITIVE_INFINITY) ?? 0
  }

  /** Ends the units whose time is over. */
  update(now: number): void {
    let count = 0
    for (; this.#ends[count] <= now; count++) this.giveBack(this.#ends[count], Number.POSITIVE_INFINITY)
    if (count > 0) this.#ends.splice(0, count)
  }

  /** Counts units until `end`. */
  add(end: number, units: number): void {
    if (units === 0) return
    this.#sum += units
    this.#units.set(end, (this.#units.get(end) ?? 0) + units)
    let at = this.#ends.length
    while (at > 0 && this.#ends[at - 1] > end) at--
    if (this.#ends[at - 1] !== end) this.#ends.splice(at, 0, end)
  }

  /** Gives back units that count until `end`, at most as many as still do: returns how many. */
  giveBack(end: number, most: number): number {
    const there = this.#units.get(end) ?? 0
    const units = Math.min(there, most)
    this.#sum -= units
    if (units === there) this.#units.delete(end)
    else this.#units.set(end, there - units)
    return units
  }

  /** When the unit ends that ends as `nth`; undefined: it is held, or there are not so many. */
  endOf(nth: number): number | undefined {
    let sum = 0
    for (const end of this.#ends) {
      sum += this.#units.get(end) ?? 0
      if (sum >= nth) return end === Number.POSITIVE_INFINITY ? undefined : end
    }
    return undefined
  }

  /** The moments, rising, with the units that end at each. */
  *[Symbol.iterator](): Iterator<readonly [end: number, units: number]> {
    for (const end of this.#ends) {
      const units = this.#units.get(end) ?? 0
      if (units > 0) yield [end, units]
    }
  }
}

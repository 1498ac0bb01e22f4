/** The result of a check against a rule. */
export interface Breach {
  /** Most units above what the policy allows; below 0: so many fewer. */
  readonly excess: number
  /** ms by the machine's clock. */
  readonly at: number
}

/**
 * What was spent when, by the machine's clock in ms. Of each unit it is known when it was asked for and when the answer
 * was there; it counts for a span only if both lie within.
 */
export class Spending {
  readonly #asked = new Map<number, number>()
  readonly #answered = new Map<number, number>()
  total = 0
  #first = Number.POSITIVE_INFINITY
  #last = Number.NEGATIVE_INFINITY

  add(askedAt: number, answeredAt: number, units: number): void {
    this.#asked.set(askedAt, (this.#asked.get(askedAt) ?? 0) + units)
    this.#answered.set(answeredAt, (this.#answered.get(answeredAt) ?? 0) + units)
    this.total += units
    this.#first = Math.min(this.#first, askedAt)
    this.#last = Math.max(this.#last, answeredAt)
  }

  get firstAt(): number {
    return this.#first
  }

  get lastAt(): number {
    return this.#last
  }

  /** Units by the moment of their answers, in order. */
  answers(): [at: number, units: number][] {
    return [...this.#answered].sort(([one], [other]) => one - other)
  }

  /** Units answered from one moment until before another. */
  between(from: number, until: number): number {
    let sum = 0
    for (const [at, units] of this.#answered) if (at >= from && at < until) sum += units
    return sum
  }

  /** In any span of the window. */
  inWindows(quota: number, windowMs: number): Breach {
    const { before, until } = this.#running()
    let worst = { excess: Number.NEGATIVE_INFINITY, at: 0 }
    for (let from = 0; from < before.length; from++) {
      const last = Math.min(until.length - 1, from + windowMs - 1)
      const excess = until[last] - before[from] - quota
      if (excess > worst.excess) worst = { excess, at: this.#first + from }
    }
    return worst
  }

  /** In any span: the burst, and what the rate gives in it. */
  inSpans(burst: number, quota: number, windowMs: number): Breach {
    const { before, until } = this.#running()
    let worst = { excess: Number.NEGATIVE_INFINITY, at: 0 }
    let least = Number.POSITIVE_INFINITY
    for (let to = 0; to < until.length; to++) {
      // Whole numbers: units x ms.
      least = Math.min(least, before[to] * windowMs - quota * to)
      const excess = (until[to] * windowMs - quota * to - least) / windowMs - burst
      if (excess > worst.excess) worst = { excess, at: this.#first + to }
    }
    return worst
  }

  /** In windows that begin at these moments. Throws if there are none: then nothing would be judged. */
  inOwnWindows(quota: number, windowMs: number, starts: readonly number[]): Breach {
    if (starts.length === 0) throw new Error('no start of a window is known')
    let worst = { excess: Number.NEGATIVE_INFINITY, at: 0 }
    const { before, until } = this.#running()
    for (const start of starts) {
      const excess = this.#inside(before, until, start, start + windowMs - 1) - quota
      if (excess > worst.excess) worst = { excess, at: start }
    }
    return worst
  }

  /** By two cells, aligned to the clock, of which the earlier one weighs as much as the window still overlaps it. */
  inCells(quota: number, windowMs: number): Breach {
    let worst = { excess: Number.NEGATIVE_INFINITY, at: 0 }
    const { before, until } = this.#running()
    for (let cell = this.#first - (this.#first % windowMs); cell <= this.#last; cell += windowMs) {
      const previous = this.#inside(before, until, cell - windowMs, cell - 1)
      for (let at = Math.max(cell, this.#first); at < cell + windowMs && at <= this.#last; at++) {
        if (!this.#answered.has(at)) continue
        const current = this.#inside(before, until, cell, at)
        const excess = current + Math.ceil((previous * (cell + windowMs - at)) / windowMs) - quota
        if (excess > worst.excess) worst = { excess, at }
      }
    }
    return worst
  }

  #inside(before: readonly number[], until: readonly number[], from: number, to: number): number {
    if (to < this.#first || from > this.#last) return 0
    const start = Math.max(0, from - this.#first)
    const end = Math.min(until.length - 1, to - this.#first)
    return Math.max(0, until[end] - before[start])
  }

  /** `before[i]`: units asked for before ms i of the record; `until[i]`: units answered by its end. */
  #running(): { before: number[]; until: number[] } {
    const length = this.#last - this.#first + 1
    const before = new Array<number>(length)
    const until = new Array<number>(length)
    let asked = 0
    let answered = 0
    for (let i = 0; i < length; i++) {
      before[i] = asked
      asked += this.#asked.get(this.#first + i) ?? 0
      answered += this.#answered.get(this.#first + i) ?? 0
      until[i] = answered
    }
    return { before, until }
  }
}

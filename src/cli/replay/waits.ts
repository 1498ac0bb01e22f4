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
  #total = 0
  #longest = 0

  add(ms: number): void {
    const about = Number.isFinite(ms) ? Number(ms.toPrecision(3)) : ms
    this.#counts.set(about, (this.#counts.get(about) ?? 0) + 1)
    this.#total++
    if (ms > this.#longest) this.#longest = ms
  }

  /** undefined if no request was refused. */
  sum(): Waits | undefined {
    if (this.#total === 0) return undefined
    const sorted = [...this.#counts].sort(([a], [b]) => a - b)
    const atMost = (share: number) => {
      let left = Math.ceil(this.#total * share)
      for (const [ms, count] of sorted) {
        left -= count
        if (left <= 0) return Math.min(ms, this.#longest)
      }
      return this.#longest
    }
    return { median: atMost(0.5), ninth: atMost(0.9), longest: this.#longest }
  }
}

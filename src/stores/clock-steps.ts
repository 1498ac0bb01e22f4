/**
 * The moments that a store's clock shows twice, because it stepped back. A charge at such a moment may belong to either
 * pass; settling it by its moment could give back units that others have spent.
 */
export class ClockSteps {
  /** The range of these moments, ms. */
  from = Number.POSITIVE_INFINITY
  until = Number.NEGATIVE_INFINITY
  #last = Number.NEGATIVE_INFINITY

  /** The clock shows `nowMs` now. */
  note(nowMs: number): void {
    if (nowMs < this.#last) this.step(this.#last, nowMs)
    this.#last = nowMs
  }

  /** The clock stepped back; for stores that compare moments themselves. */
  step(fromMs: number, toMs: number): void {
    this.from = Math.min(this.from, toMs)
    this.until = Math.max(this.until, fromMs)
  }

  /** Whether the moment of this charge occurred twice. */
  isDoubtful(chargedAt: number): boolean {
    return chargedAt >= this.from && chargedAt <= this.until
  }
}

/**
 * The moments that a store's clock shows twice, because it stepped back. Of a charge at such a moment it is not known on which
 * pass it was made: to settle it by its moment could give back what others have spent.
 */
export class ClockSteps {
  /** The first and the last of these moments, ms. */
  from = Number.POSITIVE_INFINITY
  until = Number.NEGATIVE_INFINITY
  #last = Number.NEGATIVE_INFINITY

  /** The clock shows this now. */
  note(nowMs: number): void {
    if (nowMs < this.#last) this.step(this.#last, nowMs)
    this.#last = nowMs
  }

  /** The clock stepped back: for whoever compares by himself. */
  step(fromMs: number, toMs: number): void {
    this.from = Math.min(this.from, toMs)
    this.until = Math.max(this.until, fromMs)
  }

  /** Whether a charge at this moment may be of another pass. */
  isDoubtful(chargedAt: number): boolean {
    return chargedAt >= this.from && chargedAt <= this.until
  }
}

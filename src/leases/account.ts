import type { Verdict } from '../limiter/core/decision.js'

/** What Redis has answered about a key under one limit: units that are left beside all that were leased until then. */
export type LimitAnswer = Pick<Verdict, 'remaining' | 'resetAfterMs'>

/**
 * What is left of a key in Redis, as far as this process knows.
 *
 * Redis carries out one call after another and answers in that order. So an answer covers those charges of settlements
 * whose answers were read before it, and no others. (The order in which calls are sent does not tell: one is sent again
 * if the server does not know its script.) Therefore each answer is accounted for when it is read, before any promise
 * of it is settled. A charge is subtracted when it is sent, and again from each answer that does not cover it.
 */
export class Account {
  /** Under each limit. */
  remaining: readonly number[] = []
  /** Of each limit, by the process's own clock, ms. */
  resetAt: readonly number[] = []
  #decidedAt = Number.NEGATIVE_INFINITY
  /** Units of charges without an answer so far. */
  #pending = 0
  /** Units of the other charges. */
  #charged = 0
  /**
   * How many of them the grants in the last answer to the line cover; undefined: another answer is newer than these
   * grants.
   */
  #coveredByGrants: number | undefined = 0

  /** `forgetMs`: if the server's clock shows an earlier moment than before by more than that, it was set back. */
  constructor(readonly forgetMs: number) {}

  /**
   * Redis has decided a request, or sold a lease. `decidedAt` is by the server's clock, `askedAt` by the process's own.
   */
  answered(limits: readonly LimitAnswer[], decidedAt: number, askedAt: number): void {
    this.#coveredByGrants = undefined
    this.#become(limits, decidedAt, askedAt, this.#charged)
  }

  /**
   * An answer to the line in which requests wait for the key was read. Its grants follow in this turn of the event
   * loop, but after promises.
   */
  lineAnswered(): void {
    this.#coveredByGrants = this.#charged
  }

  /** A request that waited in line was granted by the last answer to the line. */
  granted(limits: readonly LimitAnswer[], grantedAt: number, askedAt: number): void {
    if (this.#coveredByGrants !== undefined) this.#become(limits, grantedAt, askedAt, this.#coveredByGrants)
  }

  /** Whether charges are without an answer. */
  get isCharging(): boolean {
    return this.#pending > 0
  }

  /**
   * A settlement charges more units, whether they fit or not. Call the result once, when the answer is read; a charge
   * that fails may have been carried out.
   */
  charge(units: number): () => void {
    this.#pending += units
    this.remaining = this.remaining.map(left => Math.max(0, left - units))
    return () => {
      this.#pending -= units
      this.#charged += units
    }
  }

  #become(limits: readonly LimitAnswer[], decidedAt: number, askedAt: number, covered: number): void {
    // While a cluster moves a key, its two nodes may be heard in another order.
    const soonerMs = this.#decidedAt - decidedAt
    if (soonerMs > 0 && soonerMs < this.forgetMs) return
    const uncovered = this.#pending + this.#charged - covered
    this.remaining = limits.map(({ remaining }) => Math.max(0, remaining - uncovered))
    this.resetAt = limits.map(({ resetAfterMs }) => askedAt + resetAfterMs)
    this.#decidedAt = decidedAt
  }
}

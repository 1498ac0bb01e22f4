import type { Standing } from '../limiter/port.js'

/** What Redis has answered about a key under each limit: units that are left beside all that were leased until then. */
type Left = Standing['limits']

/**
 * What is left of a key in Redis, as far as this process knows: what the newest answer says, less the units that are
 * being charged.
 *
 * The newest answer is the one whose moment is the latest, by the server's clock: over HTTP, answers may cross. Of the
 * same moment it is the one that is read last, because a connection answers in the order in which Redis carries out.
 * (The order in which calls are sent does not tell: one is sent again if the server does not know its script.)
 * Therefore each answer is accounted for when it is read, before any promise of it is settled.
 */
export class Account {
  /** Under each limit. */
  remaining: readonly number[] = []
  /** Of each limit, by the process's own clock, ms. */
  resetAt: readonly number[] = []
  /** By the newest answer, less charges that failed since: they may have been carried out. */
  #left: readonly number[] = []
  #newestAt = Number.NEGATIVE_INFINITY
  /** Units of charges without an answer so far. */
  #pending = 0
  /** Whether no answer is newer than the last one to the line in which requests wait for the key. */
  #isOfLine = false

  /** `forgetMs`: if the server's clock shows an earlier moment than before by more than that, it was set back. */
  constructor(readonly forgetMs: number) {}

  /**
   * Redis has decided a request, or sold a lease. `decidedAt` is by the server's clock, `askedAt` by the process's own.
   */
  answered(limits: Left, decidedAt: number, askedAt: number): void {
    this.#isOfLine = false
    this.#become(limits, decidedAt, askedAt)
  }

  /**
   * An answer to the line in which requests wait for the key was read. Its grants follow in this turn of the event
   * loop, but after promises.
   */
  lineAnswered(): void {
    this.#isOfLine = true
  }

  /** A request that waited in line was granted by the last answer to the line. */
  granted(limits: Left, grantedAt: number, askedAt: number): void {
    if (this.#isOfLine) this.#become(limits, grantedAt, askedAt)
  }

  /** Whether charges are without an answer. */
  get isCharging(): boolean {
    return this.#pending > 0
  }

  /**
   * A settlement charges more units, whether they fit or not. Call the result once, when the answer is read, or without
   * one when the charge has failed. `askedAt`: by the process's own clock.
   */
  charge(units: number, askedAt: number): (standing?: Standing) => void {
    this.#pending += units
    this.#tell()
    return standing => {
      this.#pending -= units
      if (standing !== undefined) this.answered(standing.limits, standing.at, askedAt)
      else this.#left = this.#left.map(left => left - units)
      this.#tell()
    }
  }

  #become(limits: Left, decidedAt: number, askedAt: number): void {
    const soonerMs = this.#newestAt - decidedAt
    if (soonerMs > 0 && soonerMs < this.forgetMs) return
    this.#left = limits.map(({ remaining }) => remaining)
    this.resetAt = limits.map(({ resetAfterMs }) => askedAt + resetAfterMs)
    this.#newestAt = decidedAt
    this.#tell()
  }

  #tell(): void {
    this.remaining = this.#left.map(left => Math.max(0, left - this.#pending))
  }
}

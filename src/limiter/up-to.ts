import type { Verdict } from './core/decision.js'
import { CostError, StoreError, shown } from './core/errors.js'
import type { BoundPolicy, Keys, Reply, Verb } from './port.js'

/**
 * A request for as many of `most` units as fit. A store grants all units or none: it is asked for all of them, then for
 * as many as the refusal leaves, and finally for one.
 */
export class UpTo {
  /**
   * Units of the last attempt: the units spent, or 1 if not even one fits. Before the first attempt 1, because only a
   * remembered denial of one unit is an answer without an attempt.
   */
  cost = 1
  #next: number
  #attempts = 0

  /** Throws `CostError` for anything but an integer ≥ 1. */
  constructor(most: number) {
    if (!Number.isSafeInteger(most) || most < 1) {
      throw new CostError(`most ${shown(most)}: expected an integer ≥ 1, like 10`)
    }
    this.#next = most
  }

  /** The same policy, which decides as often as needed, whatever the cost. All attempts share one deadline. */
  over(policy: BoundPolicy): BoundPolicy {
    return {
      limits: policy.limits,
      isLeased: policy.isLeased,
      decide: (verb, keys, _, reply) => this.#decide(policy, verb, keys, reply),
      change: (...change) => policy.change(...change),
    }
  }

  #decide(policy: BoundPolicy, verb: Verb, keys: Keys, reply: Reply): void {
    const { endsAt = Number.POSITIVE_INFINITY } = reply
    this.cost = this.#next
    policy.decide(verb, keys, this.cost, {
      endsAt: reply.endsAt,
      movesTo: server => reply.movesTo?.(server),
      resolve: (verdicts, ...rest) => {
        if (!this.#isMore(verdicts)) reply.resolve(verdicts, ...rest)
        // A smaller cost would be spent for nobody. The failure policy may have decided meanwhile.
        else if (performance.now() >= endsAt) reply.reject(new StoreError('the store did not answer in time'))
        else {
          this.#become(verdicts)
          this.#decide(policy, verb, keys, reply)
        }
      },
      reject: error => reply.reject(error),
    })
  }

  /** True if a smaller cost is to be tried. */
  #isMore(verdicts: readonly Verdict[]): boolean {
    return this.cost > 1 && !verdicts.every(({ allowed }) => allowed)
  }

  /** The next attempt: what is left; if others took that meanwhile, half as much. */
  #become(verdicts: readonly Verdict[]): void {
    const left = Math.min(...verdicts.map(({ remaining }) => remaining))
    const most = this.#attempts++ === 0 ? this.cost - 1 : Math.floor(this.cost / 2)
    this.#next = Math.max(1, Math.min(left, most))
  }
}

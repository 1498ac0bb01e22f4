import type { Verdict } from './core/decision.js'
import { CostError, shown } from './core/errors.js'
import type { BoundPolicy, Keys, Reply, Verb } from './port.js'

/**
 * A request for as many of `most` units as fit. A store grants all units or none: it is asked for all of them, then for
 * as many as the refusal leaves, and finally for one.
 */
export class UpTo {
  /** Units of the last attempt: the units spent, or 1 if not even one fits. */
  cost: number
  #attempts = 0

  /** Throws `CostError` for anything but an integer ≥ 1. */
  constructor(most: number) {
    if (!Number.isSafeInteger(most) || most < 1) {
      throw new CostError(`most ${shown(most)}: expected an integer ≥ 1, like 10`)
    }
    this.cost = most
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
    policy.decide(verb, keys, this.cost, {
      endsAt: reply.endsAt,
      movesTo: server => reply.movesTo?.(server),
      resolve: (verdicts, ...rest) => {
        if (this.#goesOn(verdicts)) this.#decide(policy, verb, keys, reply)
        else reply.resolve(verdicts, ...rest)
      },
      reject: error => reply.reject(error),
    })
  }

  /** True if a smaller cost is to be tried: what is left; if others took that meanwhile, half as much. */
  #goesOn(verdicts: readonly Verdict[]): boolean {
    if (this.cost === 1 || verdicts.every(({ allowed }) => allowed)) return false
    const left = Math.min(...verdicts.map(({ remaining }) => remaining))
    const most = this.#attempts++ === 0 ? this.cost - 1 : Math.floor(this.cost / 2)
    this.cost = Math.max(1, Math.min(left, most))
    return true
  }
}

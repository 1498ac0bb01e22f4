import type { Decision, Verdict } from './core/decision.js'
import { CostError, shown } from './core/errors.js'
import type { StoreOffers } from './offers.js'
import type { Asker, Charge } from './store.js'

type Answer = Promise<readonly Verdict[]> | readonly Verdict[]

/**
 * A request for as many of `most` units as fit. A store grants all units or none: it is asked for all of them, then for
 * as many as the refusal leaves, and finally for one.
 */
export class PartialGrant {
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

  /** The answer of a store that is synchronous or returns a promise. */
  of(consume: (cost: number) => Answer): Answer {
    const answer = consume(this.cost)
    if (answer instanceof Promise)
      return answer.then(verdicts => (this.#goesOn(verdicts) ? this.of(consume) : verdicts))
    return Array.isArray(answer) && this.#goesOn(answer) ? this.of(consume) : answer
  }

  /** The same without promises; all attempts share the deadline of `asker`. */
  ask(store: StoreOffers, charges: readonly Charge[], asker: Asker): void {
    store.ask('consume', charges, this.cost, {
      endsAt: asker.endsAt,
      asks: server => asker.asks?.(server),
      resolve: (verdicts, ...rest) => {
        if (this.#goesOn(verdicts)) this.ask(store, charges, asker)
        else asker.resolve(verdicts, ...rest)
      },
      reject: error => asker.reject(error),
    })
  }

  /** The same for the failure policy. */
  decision(consume: (cost: number) => Decision): Decision {
    const decision = consume(this.cost)
    return this.#goesOn(decision.verdicts) ? this.decision(consume) : decision
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

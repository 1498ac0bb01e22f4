import type { Decision, Verdict } from '../core/decision.js'
import { CostError, shown } from '../core/errors.js'
import type { RedisStore } from '../stores/redis/redis-store.js'
import type { Asker, Charge } from '../stores/store.js'

type Answer = Promise<readonly Verdict[]> | readonly Verdict[]

/** A request that takes as much of `most` units as fits: asks for all, then for as many as the refusal leaves, and at last for one. */
export class PartialGrant {
  /** Units of the last attempt: those that were spent, or 1 where not even one fits. */
  cost: number
  #attempts = 0

  /** Throws `CostError` for anything but an integer ≥ 1. */
  constructor(most: number) {
    if (!Number.isSafeInteger(most) || most < 1) {
      throw new CostError(`most ${shown(most)}: expected an integer ≥ 1, like 10`)
    }
    this.cost = most
  }

  /** What a store says that answers at once or by a promise. */
  of(consume: (cost: number) => Answer): Answer {
    const answer = consume(this.cost)
    if (answer instanceof Promise)
      return answer.then(verdicts => (this.#goesOn(verdicts) ? this.of(consume) : verdicts))
    return Array.isArray(answer) && this.#goesOn(answer) ? this.of(consume) : answer
  }

  /** The same of a Redis store; all attempts share the deadline of `asker`. */
  ask(store: RedisStore, charges: readonly Charge[], asker: Asker): void {
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

  /** The same of the failure policy. */
  decision(consume: (cost: number) => Decision): Decision {
    const decision = consume(this.cost)
    return this.#goesOn(decision.verdicts) ? this.decision(consume) : decision
  }

  /** True if less is to be asked for: as much as is left; if that was taken meanwhile, half as much. */
  #goesOn(verdicts: readonly Verdict[]): boolean {
    if (this.cost === 1 || verdicts.every(({ allowed }) => allowed)) return false
    const left = Math.min(...verdicts.map(({ remaining }) => remaining))
    const most = this.#attempts++ === 0 ? this.cost - 1 : Math.floor(this.cost / 2)
    this.cost = Math.max(1, Math.min(left, most))
    return true
  }
}

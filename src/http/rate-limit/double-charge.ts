import type { Decision } from '../../limiter/core/decision.js'
import { countedSpan, type Limit } from '../../limiter/core/limit.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import type { LimiterKey } from '../../limiter/key.js'
import { offersOf } from '../../limiter/offers.js'
import type { RateLimiter } from '../../limiter/rate-limiter.js'
import type { Store } from '../../limiter/store.js'

/** The limiter that counts each limit. Each limiter parses its own limits, so a limit belongs to one. */
const OWNERS = new WeakMap<Limit, RateLimiter>()
/** The decisions made so far on a request that passes several limiters. */
const DECISIONS = new WeakMap<object, Decision[]>()

/** The keys of decisions whose limits have separate keys. */
const KEYS = new WeakMap<Decision, Exclude<LimiterKey, string>>()

/** Remembers the keys of a decision whose limits have separate keys. */
export function noteKeys(decision: Decision, keys: Exclude<LimiterKey, string>): void {
  KEYS.set(decision, keys)
}

/** Registers a limiter over HTTP, so that its decisions can be compared with those of others. */
export function ownLimits(limiter: RateLimiter): void {
  for (const limit of limiter.policy) OWNERS.set(limit, limiter)
}

/** Warns, once per middleware, when a request is charged twice for the same count. Both charges count. */
export class DoubleCharge {
  /** `sharesLimiter`: other middleware may use the same limiter with other keys. */
  readonly #sharesLimiter: boolean
  #warned = false

  constructor(sharesLimiter: boolean) {
    this.#sharesLimiter = sharesLimiter
  }

  /** Compares a decision with earlier decisions on the request; `before` is the one stored on it. */
  check(request: object, before: Decision, decision: Decision): void {
    const earlier = DECISIONS.get(request) ?? [before]
    DECISIONS.set(request, earlier)
    // A request that has waited for its turn comes here again.
    if (earlier.includes(decision)) return
    if (!this.#warned) for (const other of earlier) this.#compare(other, decision)
    earlier.push(decision)
  }

  #compare(earlier: Decision, decision: Decision): void {
    for (const { limit } of decision.verdicts) {
      const key = keyOf(decision, limit)
      if (!earlier.verdicts.some(other => this.#isDouble(other.limit, keyOf(earlier, other.limit), limit, key)))
        continue
      this.#warned = true
      emitWarning(
        'SPILLWAY_DOUBLE',
        `rateLimit: a request was charged twice for the limit "${limit.name}": the same middleware is passed ` +
          'twice, or two limiters count the same key under one name. Mount it once, or give one of them a name ' +
          'of its own, like rateLimit({ name: "uploads" })',
      )
      return
    }
  }

  #isDouble(earlier: Limit, earlierKey: string, limit: Limit, key: string): boolean {
    if (earlier === limit) return !this.#sharesLimiter || earlierKey === key
    return earlierKey === key && sameCount(earlier, limit)
  }
}

function keyOf(decision: Decision, limit: Limit): string {
  return KEYS.get(decision)?.[limit.name] ?? decision.key
}

/** Whether two limits of different limiters use the same count. */
function sameCount(a: Limit, b: Limit): boolean {
  const [owner, other] = [OWNERS.get(a), OWNERS.get(b)]
  if (owner === undefined || other === undefined) return false
  if (a.name !== b.name || a.algorithm !== b.algorithm || countedSpan(a) !== countedSpan(b)) return false
  const [one, two] = [owner.options, other.options]
  if (one.name !== two.name) return false
  return one.store === two.store || offersOf(one.store)?.sharesCountsWith(two.store as Store) === true
}

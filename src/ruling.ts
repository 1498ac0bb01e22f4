import { type Decision, type DecisionSource, strictest, type Verdict } from './decision.js'
import type { Limit } from './limit.js'
import type { LimiterKey } from './limiter-key.js'
import type { Charge, Store } from './store.js'

/** Who spends for a limiter: it knows where, and what a key is charged. */
export interface Spender {
  readonly store: Store
  /** If it spends for one decision whose limits have keys of their own; else the key is the decision's. */
  readonly key?: LimiterKey
  chargesOf(key: LimiterKey): readonly Charge[]
}

/** Where, when and of what a decision spent: what it takes to settle it later. */
export interface Spending {
  readonly key: LimiterKey
  readonly store: Store
  readonly charges: readonly Charge[]
  /** By the limiter's clock, ms. */
  readonly at: number
}

/**
 * The decision that a set of verdicts amounts to. `key` is that of all limits, or of each by its name. An allowed decision
 * carries the longest delay that any limit asks for, and remembers who spent, and when, by the limiter's clock.
 */
export function decide(
  key: LimiterKey,
  cost: number,
  verdicts: readonly Verdict[],
  source: DecisionSource,
  degraded = false,
  spender?: Spender,
  spentAt = 0,
): Decision {
  const strict = verdicts.length === 1 ? verdicts[0] : strictest(verdicts)
  return new Ruling(strict, key, cost, verdicts, source, degraded, spender, spentAt)
}

/** The same decision, but that it lets pass; its verdicts still tell what would have been. */
export function allowAnyway(decision: Decision): Decision {
  const { limit, remaining, resetAfterMs, key, cost, verdicts, source, degraded } = decision
  const permission = { limit, allowed: true, remaining, retryAfterMs: 0, resetAfterMs, delayMs: 0 }
  return new Ruling(permission, key, cost, verdicts, source, degraded, undefined, 0)
}

/** What the decision spent; it is told once, so that a decision is settled once. */
export function takeSpending(decision: Decision): Spending | undefined {
  return Ruling.takeSpending(decision)
}

/** A decision that keeps what it spent out of sight. Its fields are only declared: to define them first would take as long again. */
class Ruling implements Decision {
  declare readonly limit: Limit
  declare readonly allowed: boolean
  declare readonly remaining: number
  declare readonly retryAfterMs: number
  declare readonly resetAfterMs: number
  declare readonly delayMs: number
  declare readonly key: string
  declare readonly cost: number
  declare readonly verdicts: readonly Verdict[]
  declare readonly source: DecisionSource
  declare readonly degraded: boolean
  declare readonly blocked?: true
  // Not an object of their own: every decision would pay for it, and few are settled.
  #spender: Spender | undefined
  #spentAt: number

  constructor(
    strict: Verdict,
    key: LimiterKey,
    cost: number,
    verdicts: readonly Verdict[],
    source: DecisionSource,
    degraded: boolean,
    spender: Spender | undefined,
    spentAt: number,
  ) {
    this.limit = strict.limit
    this.allowed = strict.allowed
    this.remaining = strict.remaining
    this.retryAfterMs = strict.retryAfterMs
    this.resetAfterMs = strict.resetAfterMs
    this.delayMs = strict.allowed && verdicts.length > 1 ? longestDelay(verdicts) : strict.delayMs
    this.key = typeof key === 'string' ? key : (ownKey(key, strict.limit.name) ?? '')
    this.cost = cost
    this.verdicts = verdicts
    this.source = source
    this.degraded = degraded
    if (strict.blocked) this.blocked = true
    this.#spender = strict.allowed ? spender : undefined
    this.#spentAt = spentAt
  }

  static takeSpending(decision: Decision): Spending | undefined {
    if (!(#spender in decision) || decision.#spender === undefined) return undefined
    const { store, key = decision.key } = decision.#spender
    const charges = decision.#spender.chargesOf(key)
    decision.#spender = undefined
    return { key, store, charges, at: decision.#spentAt }
  }
}

function longestDelay(verdicts: readonly Verdict[]): number {
  let longest = 0
  for (const { delayMs } of verdicts) if (delayMs > longest) longest = delayMs
  return longest
}

/** A record's own key for a limit: limits may be called `constructor`, too. */
function ownKey(key: Exclude<LimiterKey, string>, name: string): string | undefined {
  return Object.hasOwn(key, name) ? key[name] : undefined
}

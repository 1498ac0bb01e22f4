import { type Decision, type DecisionSource, strictest, type Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import type { Charge, ChargedAt, Store } from '../stores/store.js'
import type { LimiterKey } from './key.js'

/** Who spends for a limiter: it knows where, and what a key is charged. */
export interface Spender {
  readonly store: Store
  /** If it spends for one decision whose limits have keys of their own; else the key is the decision's. */
  readonly key?: LimiterKey
  chargesOf(key: LimiterKey): readonly Charge[]
}

/** A lease that a decision has spent from. */
interface SpentLease {
  readonly of: object
  /** Gives units back to the lease, or to the store once that has ended. */
  settle(units: number, endsAt?: number): Promise<void>
}

/** Who spent, and when. */
export interface Spent {
  readonly spender: Spender
  /** If it spent from a lease. */
  readonly lease?: SpentLease
  /** By the clock of the store that decided, if it tells. */
  readonly chargedAt?: ChargedAt
  /** Else when it was asked, by the limiter's clock, ms. */
  readonly askedAt?: number
}

/** Gives all decisions of one instant the same `Spent`: a moment kept in each would cost a tenth of the decision. */
export class SpendingClock {
  #last: Spent

  constructor(readonly spender: Spender) {
    this.#last = { spender, chargedAt: 0 }
  }

  spentAt(chargedAt: ChargedAt): Spent {
    if (this.#last.chargedAt !== chargedAt) this.#last = { spender: this.spender, chargedAt }
    return this.#last
  }
}

/** Where, when and of what a decision spent: what it takes to settle it later. */
export interface Spending {
  readonly key: LimiterKey
  readonly store: Store
  readonly charges: readonly Charge[]
  /** As of `Spent`. */
  readonly chargedAt?: ChargedAt
  readonly askedAt?: number
  readonly lease?: SpentLease
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
  spent?: Spent,
): Decision {
  const strict = verdicts.length === 1 ? verdicts[0] : strictest(verdicts)
  const own = typeof key === 'string' ? key : (ownKey(key, strict.limit.name) ?? '')
  const delayMs = strict.allowed && verdicts.length > 1 ? longestDelay(verdicts) : strict.delayMs
  return new SettleableDecision(strict, own, cost, verdicts, source, degraded, delayMs, spent, false)
}

/** The same decision, but that it lets pass; its verdicts still tell what would have been. */
export function allowAnyway(decision: Decision): Decision {
  const { limit, remaining, resetAfterMs, key, cost, verdicts, source, degraded } = decision
  const permission = { limit, allowed: true, remaining, retryAfterMs: 0, resetAfterMs, delayMs: 0 }
  return new SettleableDecision(permission, key, cost, verdicts, source, degraded, 0, undefined, true)
}

/** What the decision spent; it is told once, so that a decision is settled once. */
export function takeSpending(decision: Decision): Spending | undefined {
  return SettleableDecision.takeSpending(decision)
}

/** A decision that keeps what it spent out of sight. Its fields are only declared: to define them first would take as long again. */
export class SettleableDecision implements Decision {
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
  declare readonly shadow: boolean
  declare readonly blocked?: true
  // Not an object of their own: every decision would pay for it, and few are settled.
  #spent: Spent | undefined

  constructor(
    strict: Verdict,
    key: string,
    cost: number,
    verdicts: readonly Verdict[],
    source: DecisionSource,
    degraded: boolean,
    delayMs: number,
    spent: Spent | undefined,
    shadow: boolean,
  ) {
    this.#spent = strict.allowed ? spent : undefined
    this.limit = strict.limit
    this.allowed = strict.allowed
    this.remaining = strict.remaining
    this.retryAfterMs = strict.retryAfterMs
    this.resetAfterMs = strict.resetAfterMs
    this.delayMs = delayMs
    this.key = key
    this.cost = cost
    this.verdicts = verdicts
    this.source = source
    this.degraded = degraded
    this.shadow = shadow
    if (strict.blocked) this.blocked = true
  }

  static takeSpending(decision: Decision): Spending | undefined {
    if (!(#spent in decision) || decision.#spent === undefined) return undefined
    const { spender, chargedAt, askedAt, lease } = decision.#spent
    decision.#spent = undefined
    const { store, key = decision.key } = spender
    return { key, store, charges: spender.chargesOf(key), chargedAt, askedAt, lease }
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

import { algorithmOf } from '../algorithms/registry.js'
import { monotonicClock } from '../core/clock.js'
import { type Decision, type DecisionSource, strictest, type Verdict, verdictOf } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import { type Charge, type ChargedAt, type ChargeReceipt, receiptsOf, type Store } from '../stores/store.js'
import type { LimiterKey } from './key.js'

/**
 * Changes what a key may spend, as its limiter does: within the deadline, past no open breaker, with the end of remembered denials. `all`: all charges
 * of the key, if the change affects only some.
 */
export type ChangeCharges = <C extends Charge>(
  key: LimiterKey,
  charges: readonly C[],
  change: (store: Store, charges: readonly C[], endsAt: number) => Promise<void> | void,
  all?: readonly Charge[],
) => Promise<void>

/** Spends for a limiter: the store and the charges that a settlement needs. */
export interface Spender {
  readonly store: Store
  readonly change: ChangeCharges
  /** The key record of a decision whose limits have separate keys; else the decision has the key. */
  readonly key?: LimiterKey
  chargesOf(key: LimiterKey): readonly Charge[]
}

/** A lease that a decision has spent from. */
interface SpentLease {
  readonly of: object
  /** Gives units back to the lease, or to the store once that has ended. */
  settle(units: number, endsAt?: number): Promise<void>
}

/** The spender of a decision, and when it spent. */
export interface Spent {
  readonly spender: Spender
  /** The lease, if it spent from one. */
  readonly lease?: SpentLease
  /** By the clock of the store that decided, if the store reports it. */
  readonly chargedAt?: ChargedAt
  /** Otherwise: when the request was made, by the limiter's clock, ms. */
  readonly askedAt?: number
}

/** Returns the same `Spent` for all decisions of one instant: storing the moment in each would cost a tenth of the decision. */
export class SpendingClock {
  #last: Spent
  // In a field of its own, where V8 compares two numbers without their boxes.
  #at: ChargedAt = Number.NaN

  constructor(readonly spender: Spender) {
    this.#last = { spender }
  }

  spentAt(chargedAt: ChargedAt): Spent {
    if (this.#at !== chargedAt) this.#renew(chargedAt)
    return this.#last
  }

  #renew(chargedAt: ChargedAt): void {
    this.#at = chargedAt
    this.#last = { spender: this.spender, chargedAt }
  }
}

/** Where, when and how much a decision spent: the data for a later settlement. */
interface Spending {
  readonly key: LimiterKey
  readonly store: Store
  readonly change: ChangeCharges
  readonly charges: readonly Charge[]
  /** As in `Spent`. */
  readonly chargedAt?: ChargedAt
  readonly askedAt?: number
  readonly lease?: SpentLease
}

/**
 * The decision that follows from a set of verdicts. `key` is the key of all limits, or a record of keys. An allowed decision
 * has the longest delay of its limits, and remembers the spender, and when it spent, by the limiter's clock.
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

/** The same decision, but allowed; its verdicts still show what the decision would have been. */
export function allowAnyway(decision: Decision): Decision {
  const { limit, remaining, resetAfterMs, key, cost, verdicts, source, degraded } = decision
  const permission = verdictOf(limit, remaining, 0, resetAfterMs)
  return new SettleableDecision(permission, key, cost, verdicts, source, degraded, 0, undefined, true)
}

/** What the decision spent; returned only once, so that a decision is settled only once. */
export function takeSpending(decision: Decision): Spending | undefined {
  return SettleableDecision.takeSpending(decision)
}

/** A decision with hidden data for settlement. Its fields are declared without initial values: initializing them would take as long again. */
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
  // Fields instead of an object: every decision would pay for the object, and few are settled.
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
    // All reads before all writes: in between, V8 would check the shape of the verdict again for each field.
    const { limit, allowed, remaining, retryAfterMs, resetAfterMs, blocked } = strict
    this.#spent = allowed === true ? spent : undefined
    this.limit = limit
    this.allowed = allowed
    this.remaining = remaining
    this.retryAfterMs = retryAfterMs
    this.resetAfterMs = resetAfterMs
    this.delayMs = delayMs
    this.key = key
    this.cost = cost
    this.verdicts = verdicts
    this.source = source
    this.degraded = degraded
    this.shadow = shadow
    if (blocked) this.blocked = true
  }

  static takeSpending(decision: Decision): Spending | undefined {
    if (!(#spent in decision) || decision.#spent === undefined) return undefined
    const { spender, chargedAt, askedAt, lease } = decision.#spent
    decision.#spent = undefined
    const { store, change, key = decision.key } = spender
    return { key, store, change, charges: spender.chargesOf(key), chargedAt, askedAt, lease }
  }
}

function longestDelay(verdicts: readonly Verdict[]): number {
  let longest = 0
  for (const { delayMs } of verdicts) if (delayMs > longest) longest = delayMs
  return longest
}

/** A record's own key for a limit: a limit may be named `constructor`. */
function ownKey(key: Exclude<LimiterKey, string>, name: string): string | undefined {
  return Object.hasOwn(key, name) ? key[name] : undefined
}

/** A call to make to the store that decided. */
interface SettlementCall {
  readonly receipts: readonly ChargeReceipt[]
  readonly change: (store: Store, receipts: readonly ChargeReceipt[], endsAt?: number) => Promise<void> | void
}

/** Units to give back under some limits of a decision, by their index. */
interface Correction {
  readonly units: number
  readonly places: readonly number[]
}

/** The call that corrects a decision's charge to `actualCost`. */
export function settlement(spending: Spending, decision: Decision, actualCost: number): SettlementCall[] {
  const { chargedAt, askedAt = 0, lease } = spending
  const units = actualCost - decision.cost
  const receipts = receiptsOf(spending.charges, decision.verdicts, chargedAt ?? askedAt, decision.cost)
  if (units > 0) return [{ receipts, change: (store, part, endsAt) => store.charge?.(part, units, endsAt) }]
  if (lease !== undefined) return [{ receipts, change: (_store, _part, endsAt) => lease.settle(-units, endsAt) }]
  if (chargedAt !== undefined && spending.store.giveBack !== undefined) {
    return [{ receipts, change: (store, part, endsAt) => store.giveBack?.(part, -units, endsAt) }]
  }
  const { clock = monotonicClock } = spending.store
  return refunds(decision, -units, clock.now() - askedAt).map(({ units, places }) => ({
    receipts: receipts.filter((_, place) => places.includes(place)),
    change: (store, part, endsAt) => store.refund(part, units, endsAt),
  }))
}

/** For a store that cannot give back a decision's own units: what it may refund for a decision of that age. */
export function refunds(decision: Decision, units: number, elapsedMs: number): Correction[] {
  const byUnits = new Map<number, number[]>()
  decision.verdicts.forEach((verdict, place) => {
    const back = Math.min(units, stillCounted(verdict, decision.cost, elapsedMs))
    if (back > 0) byUnits.set(back, [...(byUnits.get(back) ?? []), place])
  })
  return [...byUnits].map(([units, places]) => ({ units, places }))
}

/** How many units of a decision still count under one limit: refunding more would give back units that others have spent since. */
function stillCounted(verdict: Verdict, cost: number, elapsedMs: number): number {
  const { limit, resetAfterMs } = verdict
  const leftMs = resetAfterMs - elapsedMs
  if (leftMs <= 0) return 0
  return algorithmOf(limit.algorithm).inPlace.stillCounted?.(limit, cost, leftMs) ?? cost
}

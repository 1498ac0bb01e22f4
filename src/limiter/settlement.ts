import { type Decision, type DecisionSource, strictest, type Verdict, verdictOf } from './core/decision.js'
import { PolicyError, shown, shownOther } from './core/errors.js'
import type { Limit } from './core/limit.js'
import { emitWarning } from './core/warnings.js'
import type { LimiterKey } from './key.js'
import { type Charge, type ChargedAt, type ChargeReceipt, receiptsOf, type Store } from './store.js'

/**
 * Changes what a key may spend, as its limiter does: within the deadline, past no open breaker, with the end of
 * remembered denials. `all`: all charges of the key, if the change affects only some.
 */
export type ChangeCharges = <C extends Charge>(
  key: LimiterKey,
  charges: readonly C[],
  change: (store: Store, charges: readonly C[], endsAt: number) => Promise<void> | void,
  all?: readonly Charge[],
) => Promise<void>

/** Whose charges a settlement changes: the store, and the way to change them. */
export interface ChargeOwner {
  readonly store: Store
  readonly change: ChangeCharges
  /** The key record of a decision whose limits have separate keys; else the decision has the key. */
  readonly key?: LimiterKey
  chargesOf(key: LimiterKey): readonly Charge[]
}

/** The lease that a decision has spent from. */
interface TicketLease {
  readonly of: object
  /** Gives units back to the lease, or to the store once that has ended. */
  settle(units: number, endsAt?: number): Promise<void>
}

/** What is kept of an allowed decision until it is settled: its owner, and when it spent. */
export interface ChargeTicket {
  readonly owner: ChargeOwner
  /** The lease, if it spent from one. */
  readonly lease?: TicketLease
  /** By the clock of the store that decided, if the store reports it. */
  readonly chargedAt?: ChargedAt
  /** Otherwise: when the request was made, by the limiter's clock, ms. */
  readonly askedAt?: number
}

/**
 * Returns the same `ChargeTicket` for all decisions of one instant: storing the moment in each would cost a tenth of
 * the decision.
 */
export class TicketCache {
  #last: ChargeTicket
  // In a field of its own, where V8 compares two numbers without their boxes.
  #at: ChargedAt = Number.NaN

  constructor(readonly owner: ChargeOwner) {
    this.#last = { owner }
  }

  ticketAt(chargedAt: ChargedAt): ChargeTicket {
    if (this.#at !== chargedAt) {
      this.#at = chargedAt
      this.#last = { owner: this.owner, chargedAt }
    }
    return this.#last
  }
}

/** The charge of a decision that is being settled. */
interface OpenCharge extends Omit<ChargeTicket, 'owner'> {
  readonly key: LimiterKey
  readonly store: Store
  readonly change: ChangeCharges
  readonly charges: readonly Charge[]
  /** The settlement was not carried out: the decision can be settled again. */
  again(): void
}

/**
 * The decision that follows from a set of verdicts. `key` is the key of all limits, or a record of keys. An allowed
 * decision has the longest delay of its limits, and keeps its ticket.
 */
export function decisionOf(
  key: LimiterKey,
  cost: number,
  verdicts: readonly Verdict[],
  source: DecisionSource,
  degraded = false,
  ticket?: ChargeTicket,
): Decision {
  const strict = verdicts.length === 1 ? verdicts[0] : strictest(verdicts)
  const own = typeof key === 'string' ? key : (ownKey(key, strict.limit.name) ?? '')
  const delayMs = strict.allowed && verdicts.length > 1 ? longestDelay(verdicts) : strict.delayMs
  return new SettleableDecision(strict, own, cost, verdicts, source, degraded, delayMs, ticket, false)
}

/** The same decision, but allowed; its verdicts still show what the decision would have been. */
export function allowAnyway(decision: Decision): Decision {
  const { limit, remaining, resetAfterMs, key, cost, verdicts, source, degraded } = decision
  const permission = verdictOf(limit, remaining, 0, resetAfterMs)
  return new SettleableDecision(permission, key, cost, verdicts, source, degraded, 0, undefined, true)
}

/**
 * A decision with hidden data for settlement. Its fields are declared without initial values: initializing them would
 * take as long again.
 */
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
  #ticket: ChargeTicket | undefined

  constructor(
    strict: Verdict,
    key: string,
    cost: number,
    verdicts: readonly Verdict[],
    source: DecisionSource,
    degraded: boolean,
    delayMs: number,
    ticket: ChargeTicket | undefined,
    shadow: boolean,
  ) {
    // All reads before all writes: in between, V8 would check the shape of the verdict again for each field.
    const { limit, allowed, remaining, retryAfterMs, resetAfterMs, blocked } = strict
    this.#ticket = allowed === true ? ticket : undefined
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

  /**
   * What the decision spent; returned only once, so that a decision is settled only once. Throws `PolicyError` for what
   * no limiter of this copy of the package has decided.
   */
  static takeCharge(decision: Decision): OpenCharge | undefined {
    if (typeof decision !== 'object' || decision === null || !(#ticket in decision)) throw noDecision(decision)
    const ticket = decision.#ticket
    if (ticket === undefined) return undefined
    decision.#ticket = undefined
    const { owner, chargedAt, askedAt, lease } = ticket
    const { store, change, key = decision.key } = owner
    const again = () => {
      decision.#ticket = ticket
    }
    return { key, store, change, charges: owner.chargesOf(key), chargedAt, askedAt, lease, again }
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

/** The call that corrects a decision's charge to `actualCost`; undefined if its store cannot do so. */
export function settlement(open: OpenCharge, decision: Decision, actualCost: number): SettlementCall | undefined {
  const { chargedAt, askedAt = 0, lease, store } = open
  const units = actualCost - decision.cost
  const receipts = receiptsOf(open.charges, decision.verdicts, chargedAt ?? askedAt, decision.cost)
  if (units > 0) return { receipts, change: (store, part, endsAt) => store.charge?.(part, units, endsAt) }
  if (lease !== undefined) return { receipts, change: (_store, _part, endsAt) => lease.settle(-units, endsAt) }
  if (store.giveBack !== undefined) {
    return { receipts, change: (store, part, endsAt) => store.giveBack?.(part, -units, endsAt) }
  }
  warnThatUnitsAreKept(store)
  return undefined
}

const KEEPING = new WeakSet<Store>()

function warnThatUnitsAreKept(store: Store): void {
  if (KEEPING.has(store)) return
  KEEPING.add(store)
  emitWarning(
    'SPILLWAY_SETTLE',
    `settle to less than a decision was charged changes nothing: the store ${shown(store)} has no giveBack(), ` +
      'and what refund() gives back may be units that others have spent since. Give the store a giveBack(receipts, units), or ' +
      'use a MemoryStore or a RedisStore',
  )
}

function noDecision(given: unknown): PolicyError {
  return new PolicyError(
    `settle: given ${shownOther(given, 'SettleableDecision')}, expected a decision as consume, consumeUpTo, ` +
      'decide or acquire of a RateLimiter returned it, not a copy, like await limiter.settle(decision, 3)',
  )
}

import type { Receipt } from './changes/refund-note.js'
import { type Decision, type DecisionSource, strictest, type Verdict, verdictOf } from './core/decision.js'
import { PolicyError, StoreError, shown, shownOther } from './core/errors.js'
import type { Limit } from './core/limit.js'
import { emitWarning } from './core/warnings.js'
import type { LimiterKey } from './key.js'
import type { Change, Keys, Origin } from './port.js'
import type { ChargedAt } from './store.js'

/** Whose decisions a settlement corrects. */
export interface ChargeOwner {
  /** For messages. */
  readonly store: object
  /** The keys of a decision whose limits have separate keys; else the decision has the key. */
  readonly keys?: readonly string[]
  /** Whether its store can give back what a decision spent. */
  readonly givesBack: boolean
  /** Changes what keys may spend as their limiter does. */
  change(change: Change, keys: Keys): Promise<void>
}

/** What is kept of an allowed decision until it is settled: its owner, who answered, and when it spent. */
export interface ChargeTicket {
  readonly owner: ChargeOwner
  /** By the clock of whoever answered. */
  readonly chargedAt: ChargedAt
  /** Undefined: the store. */
  readonly origin?: Origin | undefined
}

/**
 * Returns the same `ChargeTicket` for all decisions of one instant: storing the moment in each would cost a tenth of
 * the decision.
 */
export class TicketCache {
  #last: ChargeTicket | undefined
  // In a field of its own, where V8 compares two numbers without their boxes.
  #at: ChargedAt = Number.NaN
  #origin: Origin | undefined

  constructor(readonly owner: ChargeOwner) {}

  ticketAt(chargedAt: ChargedAt, origin?: Origin): ChargeTicket {
    if (this.#at !== chargedAt || this.#origin !== origin) {
      this.#at = chargedAt
      this.#origin = origin
      this.#last = { owner: this.owner, chargedAt, origin }
    }
    return this.#last as ChargeTicket
  }
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

/** The same decision for a caller that has waited out its delay. */
export function waitedOut(decision: Decision): Decision {
  const { key, cost, source, degraded } = decision
  const verdicts = decision.verdicts.map(verdict => ({ ...verdict, delayMs: 0 }))
  const ticket = SettleableDecision.takeTicket(decision)
  return new SettleableDecision(decision, key, cost, verdicts, source, degraded, 0, ticket, false)
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
   * The ticket of what the decision spent; returned only once, so that a decision is settled only once. Throws
   * `PolicyError` for what no limiter of this copy of the package has decided.
   */
  static takeTicket(decision: Decision): ChargeTicket | undefined {
    if (typeof decision !== 'object' || decision === null || !(#ticket in decision)) throw noDecision(decision)
    const ticket = decision.#ticket
    decision.#ticket = undefined
    return ticket
  }

  /** The settlement was not carried out: the decision can be settled again. */
  static putBack(decision: Decision, ticket: ChargeTicket): void {
    if (#ticket in decision) decision.#ticket = ticket
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

/**
 * Corrects what a decision spent to `actualCost`; once for each decision, unless it rejects with a `StoreError` whose
 * `settled` is false.
 */
export async function settle(decision: Decision, actualCost: number): Promise<void> {
  const ticket = SettleableDecision.takeTicket(decision)
  const units = actualCost - decision.cost
  if (ticket === undefined || units === 0) return
  const { owner, origin } = ticket
  if (units < 0 && !owner.givesBack && !origin?.degraded) {
    warnThatUnitsAreKept(owner.store)
    return
  }
  const change: Change =
    units > 0
      ? { verb: 'charge', units, from: origin }
      : { verb: 'giveBack', units: -units, receipts: receiptsOf(decision, ticket), from: origin }
  try {
    await owner.change(change, owner.keys ?? decision.key)
  } catch (error) {
    if (error instanceof StoreError && error.settled === false) SettleableDecision.putBack(decision, ticket)
    throw error
  }
}

/** What the decision spent under each limit. */
function receiptsOf({ verdicts, cost }: Decision, { chargedAt }: ChargeTicket): Receipt[] {
  return verdicts.map(({ remaining, resetAfterMs }, i) => ({
    chargedAt: typeof chargedAt === 'number' ? chargedAt : chargedAt[i],
    cost,
    remaining,
    resetAfterMs,
  }))
}

const KEEPING = new WeakSet<object>()

function warnThatUnitsAreKept(store: object): void {
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

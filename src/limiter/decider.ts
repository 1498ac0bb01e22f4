import type { Decision, DecisionSource, Verdict } from './core/decision.js'
import { PolicyError, shown } from './core/errors.js'
import type { Policy, PolicyInput } from './core/limit.js'
import { parsePolicy } from './core/limit.js'
import { getOrMake } from './core/maps.js'
import { notifyDecided, type Observer } from './core/observer.js'
import { PolicyMemo } from './core/policy-memo.js'
import { checkCounts } from './count-name.js'
import { type DenyCache, DenyingPolicy } from './deny-cache.js'
import { failingPolicy, type StoreFailure } from './fallback.js'
import { GuardedPolicy, type StoreGuard } from './guarded-policy.js'
import { keysOf, type LimiterKey } from './key.js'
import {
  type BoundPolicy,
  type Change,
  type CountedLimit,
  type Counts,
  chargesFor,
  type DecidesNow,
  type Keys,
  type Origin,
  type Reply,
  type Verb,
} from './port.js'
import {
  allowAnyway,
  type ChargeOwner,
  type ChargeTicket,
  decisionOf,
  SettleableDecision,
  TicketCache,
} from './settlement.js'
import { type Charge, type ChargedAt, DEFAULT_LIMITER } from './store.js'
import { UpTo } from './up-to.js'

/** Returns the policy for a key. */
export type PolicyFunction = (key: string) => PolicyInput

/** The parts that all deciders of one limiter share. */
interface DeciderParts {
  readonly store: object
  readonly counts: Counts
  readonly guard: StoreGuard
  readonly onStoreFailure: StoreFailure
  readonly localShare: number
  readonly denials: DenyCache | undefined
  readonly observer: Observer | undefined
  /** The limiter's name. */
  readonly name: string
  readonly shadow: boolean
  /** Called when what these charges may spend has changed. */
  readonly changed: (charges: readonly Charge[]) => void
}

/** The limits that apply to a request: all of a policy, or those for which its record has a key. */
class AppliedLimits implements ChargeOwner {
  readonly counted: readonly CountedLimit[]
  readonly now: DecidesNow | undefined
  readonly tickets: TicketCache
  readonly #store: BoundPolicy
  readonly #failing: BoundPolicy
  /** What its requests pass through. */
  readonly policy: BoundPolicy

  constructor(
    readonly limits: Policy,
    readonly parts: DeciderParts,
  ) {
    const { name, counts, observer, onStoreFailure, localShare } = parts
    const limiter = name === DEFAULT_LIMITER ? undefined : name
    this.counted = limits.map(limit => ({ limit, limiter }))
    this.#store = counts.bind(this.counted, observer)
    this.#failing = failingPolicy(onStoreFailure, localShare, counts, this.counted)
    this.policy = this.#composed(this.#store, this.#failing)
    this.now = this.policy.now
    this.tickets = new TicketCache(this)
  }

  get store(): object {
    return this.parts.store
  }

  get givesBack(): boolean {
    return this.parts.counts.can?.('giveBack') ?? true
  }

  /** Grants as many units as `upTo` says. A remembered denial of one unit refuses it. */
  decideUpTo(upTo: UpTo, keys: Keys, reply: Reply): void {
    this.#composed(upTo.over(this.#store), upTo.over(this.#failing)).decide('consume', keys, 1, reply)
  }

  /** What the store itself says; rejects with `StoreError`. */
  standing(keys: Keys, cost: number): Promise<readonly Verdict[]> {
    const guarded = new GuardedPolicy(this.#store, undefined, this.parts.guard, this.counted)
    return guarded.verdicts('peek', keys, cost)
  }

  async change(change: Change, keys: Keys): Promise<void> {
    try {
      await this.policy.change(change, keys)
    } finally {
      this.parts.changed(chargesFor(this.counted, keys))
    }
  }

  async close(): Promise<void> {
    await this.policy.close?.()
  }

  /** What a decision passes through: each line wraps the one before. */
  #composed(store: BoundPolicy, failing: BoundPolicy): BoundPolicy {
    const { guard, denials } = this.parts
    const guarded = new GuardedPolicy(store, failing, guard, this.counted)
    return denials === undefined ? guarded : new DenyingPolicy(guarded, denials, this.limits)
  }
}

/** Makes decisions under one policy. */
export class Decider {
  readonly #all: AppliedLimits
  readonly #now: DecidesNow | undefined
  readonly #tickets: TicketCache
  /** Those of records of keys, by the places of their limits. */
  readonly #some = new Map<string, AppliedLimits>()
  readonly #parts: DeciderParts
  readonly #shadow: boolean
  readonly #observer: Observer | undefined

  constructor(
    readonly policy: Policy,
    parts: DeciderParts,
  ) {
    checkCalendars(policy, parts)
    checkCounts(policy, parts.name)
    this.#parts = parts
    this.#all = new AppliedLimits(policy, parts)
    this.#now = this.#all.now
    this.#tickets = this.#all.tickets
    this.#shadow = parts.shadow
    this.#observer = parts.observer
  }

  /** The charges of a key. Throws `PolicyError` for a record of keys that does not fit the policy. */
  chargesOf(key: LimiterKey): readonly Charge[] {
    const { limits, keys } = this.#applied(key)
    return chargesFor(limits.counted, keys)
  }

  /** Spends if the cost fits: synchronously where the store is, or from a lease. Throws only for an invalid key. */
  consume(key: LimiterKey, cost: number): Promise<Decision> | Decision {
    const now = this.#now
    if (now === undefined || typeof key !== 'string') return this.ask('consume', key, cost, true)
    const verdicts = now.decideNow(key, cost)
    if (verdicts === undefined) return this.ask('consume', key, cost, true)
    const { origin } = now
    const ticket = this.#tickets.ticketAt(now.last.decidedAt, origin)
    if (verdicts.length > 1) return this.#report(true, decisionOf(key, cost, verdicts, origin.source, false, ticket))
    // By index: to take an array apart would cost as much as the decision.
    const verdict = verdicts[0]
    const { delayMs } = verdict
    return this.#report(
      true,
      new SettleableDecision(verdict, key, cost, verdicts, origin.source, false, delayMs, ticket, false),
    )
  }

  /** Spends as much of `most` as fits. Throws `CostError`. */
  consumeUpTo(key: LimiterKey, most: number): Promise<Decision> | Decision {
    const upTo = new UpTo(most)
    const { limits, keys } = this.#applied(key)
    const reply = new DecisionReply(this, limits, 'consume', key, keys, most, true, upTo)
    limits.decideUpTo(upTo, keys, reply)
    return reply.decision()
  }

  /** Synchronous where the store is; throws only for an invalid key. Calls the observer if `observed`. */
  ask(verb: Verb, key: LimiterKey, cost: number, observed: boolean): Promise<Decision> | Decision {
    if (typeof key === 'string') return this.#ask(this.#all, verb, key, key, cost, observed)
    const { limits, keys } = this.#applied(key)
    return this.#ask(limits, verb, key, keys, cost, observed)
  }

  /** What the store says of a cost, whatever is remembered; spends nothing. Rejects with `StoreError`. */
  async standing(key: LimiterKey, cost: number): Promise<readonly Verdict[]> {
    const { limits, keys } = this.#applied(key)
    return limits.standing(keys, cost)
  }

  /** Changes what a key may spend. */
  async change(key: LimiterKey, change: Change): Promise<void> {
    const { limits, keys } = this.#applied(key)
    await limits.change(change, keys)
  }

  /** Gives back units that were bought in advance and not spent. */
  async close(): Promise<void> {
    await this.#all.close()
  }

  /** The decision for a waiting request that has been granted. */
  granted(key: LimiterKey, cost: number, verdicts: readonly Verdict[], chargedAt: ChargedAt): Decision {
    const { limits, keys } = this.#applied(key)
    const ticket = this.#ticketOf(limits, key, keys, chargedAt, undefined)
    return decisionOf(key, cost, verdicts, this.#parts.counts.source, false, ticket)
  }

  /** The decision that follows from an answer, as the caller sees it. */
  decided(reply: DecisionReply, verdicts: readonly Verdict[], chargedAt?: ChargedAt, origin?: Origin): Decision {
    const { limits, verb, key, keys, upTo, observed } = reply
    const cost = upTo === undefined ? reply.cost : upTo.cost
    const spends = verb === 'consume' && chargedAt !== undefined
    const ticket = spends ? this.#ticketOf(limits, key, keys, chargedAt, origin) : undefined
    const source: DecisionSource = origin?.source ?? this.#parts.counts.source
    return this.#report(observed, decisionOf(key, cost, verdicts, source, origin?.degraded ?? false, ticket))
  }

  #ask(limits: AppliedLimits, verb: Verb, key: LimiterKey, keys: Keys, cost: number, observed: boolean) {
    const reply = new DecisionReply(this, limits, verb, key, keys, cost, observed)
    limits.policy.decide(verb, keys, cost, reply)
    return reply.decision()
  }

  /** A record of keys may be changed by its owner before the decision is settled: its keys are kept apart. */
  #ticketOf(
    limits: AppliedLimits,
    key: LimiterKey,
    keys: Keys,
    chargedAt: ChargedAt,
    origin: Origin | undefined,
  ): ChargeTicket {
    if (typeof key === 'string' || typeof keys === 'string') return limits.tickets.ticketAt(chargedAt, origin)
    const { store, givesBack } = limits
    const owner: ChargeOwner = { store, givesBack, keys, change: (...change) => limits.change(...change) }
    return { owner, chargedAt, origin }
  }

  /** Which limits apply to a key. Throws `PolicyError`. */
  #applied(key: LimiterKey): { readonly limits: AppliedLimits; readonly keys: Keys } {
    if (typeof key === 'string') return { limits: this.#all, keys: key }
    const { places, keys } = keysOf(this.policy, key)
    if (places.length === this.policy.length) return { limits: this.#all, keys }
    const limits = getOrMake(
      this.#some,
      places.join(),
      () => new AppliedLimits(Object.freeze(places.map(i => this.policy[i])), this.#parts),
    )
    return { limits, keys }
  }

  /** Reports a decision to the observer and returns it as the caller sees it. */
  #report(observed: boolean, decision: Decision): Decision {
    const given = this.#shadow && !decision.allowed ? allowAnyway(decision) : decision
    if (observed) notifyDecided(this.#observer, given, this.#parts.name)
    return given
  }
}

/** Receives the answer to one request: at once, or later. */
class DecisionReply implements Reply {
  // Assigned below: initial values of fields would be one more call for each request.
  declare private made: Decision | undefined
  declare private error: unknown
  declare private tell: ((decision: Decision) => void) | undefined
  declare private refuse: ((error: unknown) => void) | undefined

  constructor(
    readonly decider: Decider,
    readonly limits: AppliedLimits,
    readonly verb: Verb,
    readonly key: LimiterKey,
    readonly keys: Keys,
    readonly cost: number,
    readonly observed: boolean,
    /** Says the cost in the end. */
    readonly upTo?: UpTo,
  ) {
    this.made = undefined
    this.error = undefined
    this.tell = undefined
    this.refuse = undefined
  }

  resolve(verdicts: readonly Verdict[], _answeredAt: number, chargedAt?: ChargedAt, origin?: Origin): void {
    try {
      const decision = this.decider.decided(this, verdicts, chargedAt, origin)
      if (this.tell === undefined) this.made = decision
      else this.tell(decision)
    } catch (error) {
      this.reject(error)
    }
  }

  reject(error: unknown): void {
    if (this.refuse === undefined) this.error = error
    else this.refuse(error)
  }

  /** The decision itself if it is there already. */
  decision(): Decision | Promise<Decision> {
    if (this.made !== undefined) return this.made
    if (this.error !== undefined) return Promise.reject(this.error)
    return new Promise((resolve, reject) => {
      this.tell = resolve
      this.refuse = reject
    })
  }
}

function checkCalendars(policy: Policy, { counts, store }: DeciderParts): void {
  const limit = policy.find(({ calendar }) => calendar !== undefined)
  if (limit === undefined || counts.countsCalendars) return
  throw new PolicyError(
    `RateLimiter: limit ${shown(limit.name)} counts in windows of the calendar, which the store ` +
      `${shown(store)} does not know: expected a MemoryStore or a RedisStore, or a window like "1d"`,
  )
}

const NO_LIMITS: Policy = Object.freeze([])

/** The deciders of one limiter: one for each of its policies. */
export class PolicyDeciders {
  readonly #policyOf: PolicyFunction | undefined
  readonly #known: PolicyMemo<Decider>
  #last: Decider | undefined

  constructor(policy: Policy | PolicyFunction, parts: DeciderParts) {
    this.#known = new PolicyMemo(input => new Decider(readPolicy(input), parts))
    if (typeof policy === 'function') this.#policyOf = policy
    else this.#last = new Decider(policy, parts)
  }

  /** The policy that was used last. If the policy is a function that was not called yet: no limits. */
  get policy(): Policy {
    return this.#last?.policy ?? NO_LIMITS
  }

  /** The decider of all keys; undefined if the policy is a function. */
  get only(): Decider | undefined {
    return this.#policyOf === undefined ? this.#last : undefined
  }

  /**
   * The decider for a key. Calls the policy function if there is one: throws what it throws, and `PolicyError` for an
   * invalid policy.
   */
  of(key: LimiterKey): Decider {
    if (this.#policyOf === undefined) return this.#last!
    this.#last = this.#known.of(this.#policyOf(policyKeyOf(key)))
    return this.#last
  }

  /**
   * Gives back unspent units bought under the last policy; units bought under earlier policies go back when their
   * leases end.
   */
  async close(): Promise<void> {
    await this.#last?.close()
  }
}

function readPolicy(input: PolicyInput): Policy {
  if (typeof (input as { then?: unknown } | undefined)?.then === 'function') {
    throw new PolicyError('RateLimiter: the policy function returned a promise: expected a policy, like "100/1m"')
  }
  try {
    return parsePolicy(input)
  } catch (error) {
    throw new PolicyError(`RateLimiter: the policy function returned an invalid policy: ${(error as Error).message}`)
  }
}

/** The key that all limits of a record share; if they differ, all keys as JSON. */
function policyKeyOf(key: LimiterKey): string {
  if (typeof key !== 'object' || key === null) return key
  const keys = new Set(Object.values(key).filter(value => value !== undefined))
  const [first] = keys
  return keys.size === 1 ? first : JSON.stringify(key)
}

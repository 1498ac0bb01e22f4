import type { Lease } from '../leases/holdings.js'
import { LeasedLimits } from '../leases/leased-limits.js'
import { type Clock, monotonicClock } from './core/clock.js'
import type { Decision, StoreSource, Verdict } from './core/decision.js'
import { PolicyError, shown } from './core/errors.js'
import { type Policy, type PolicyInput, parsePolicy } from './core/limit.js'
import { notifyDecided, type Observer } from './core/observer.js'
import { PolicyMemo } from './core/policy-memo.js'
import type { DenyCache } from './deny-cache.js'
import type { FailurePolicy } from './fallback.js'
import { DecisionRequest, type GuardedStore, type Verb } from './guarded-store.js'
import { chargesOf, type LimiterKey } from './key.js'
import { MemoryStore } from './memory/memory-store.js'
import { offersOf } from './offers.js'
import type { PolicyFunction } from './options.js'
import { PartialGrant } from './partial-grant.js'
import {
  allowAnyway,
  type ChangeCharges,
  type ChargeOwner,
  decisionOf,
  SettleableDecision,
  TicketCache,
} from './settlement.js'
import { type BoundPolicy, type Charge, type ChargedAt, DEFAULT_LIMITER, type Store } from './store.js'

/** The parts that all deciders of one limiter share. */
interface DeciderParts {
  readonly guarded: GuardedStore
  readonly failure: FailurePolicy
  readonly denials: DenyCache | undefined
  readonly observer: Observer | undefined
  /** The limiter's name. */
  readonly name: string
  readonly shadow: boolean
  readonly change: ChangeCharges
}

/**
 * Makes decisions under one policy: from a remembered denial, from the store, or from the failure policy while the
 * store fails.
 */
export class Decider implements ChargeOwner {
  readonly store: Store
  readonly change: ChangeCharges
  /** The limiter's name in charges; undefined for the default name. */
  readonly #limiter: string | undefined
  readonly #tickets: TicketCache
  readonly #guarded: GuardedStore
  readonly #failure: FailurePolicy
  readonly #denials: DenyCache | undefined
  readonly #observer: Observer | undefined
  readonly #name: string
  readonly #shadow: boolean
  readonly #clock: Clock
  /** The store, if it is a `MemoryStore`, which knows the time of its decisions. */
  readonly #memory: MemoryStore | undefined
  /** The source of decisions that the store makes later. */
  readonly #source: StoreSource
  readonly #bound: BoundPolicy | undefined
  readonly #leased: LeasedLimits | undefined

  constructor(
    readonly policy: Policy,
    { guarded, failure, denials, observer, name, shadow, change }: DeciderParts,
  ) {
    const { store } = guarded
    checkCalendars(policy, store)
    this.store = store
    this.change = change
    this.#limiter = name === DEFAULT_LIMITER ? undefined : name
    this.#tickets = new TicketCache(this)
    this.#guarded = guarded
    this.#failure = failure
    this.#denials = denials
    this.#observer = observer
    this.#name = name
    this.#shadow = shadow
    this.#clock = store.clock ?? monotonicClock
    this.#memory = store instanceof MemoryStore ? store : undefined
    this.#source = offersOf(store)?.source ?? 'redis'
    this.#bound = store.bind?.(policy, this.#limiter)
    this.#leased = LeasedLimits.of(policy, this.#limiter, this, observer)
  }

  /** The charges of a key. Throws `PolicyError` for a record of keys that does not fit the policy. */
  chargesOf(key: LimiterKey): readonly Charge[] {
    return chargesOf(this.policy, key, this.#limiter)
  }

  /** Spends if the cost fits: synchronously where the store is, or from a lease. Throws only for an invalid key. */
  consume(key: LimiterKey, cost: number): Promise<Decision> | Decision {
    if (typeof key === 'string') {
      const verdict = this.#bound?.consume?.(key, cost)
      if (verdict !== undefined) {
        const ticket = this.#tickets.ticketAt(this.#memory!.decidedAt)
        const delayMs = verdict.delayMs
        const all = [verdict]
        return this.#report(
          true,
          new SettleableDecision(verdict, key, cost, all, 'memory', false, delayMs, ticket, false),
        )
      }
      const decision = this.#leased?.consume(key, cost)
      if (decision !== undefined) return this.#report(true, decision)
    }
    return this.ask('consume', key, cost, true)
  }

  /** Spends as much of `most` as fits. Throws `CostError`. */
  consumeUpTo(key: LimiterKey, most: number): Promise<Decision> | Decision {
    const grant = new PartialGrant(most)
    const decision = typeof key === 'string' ? this.#leased?.consume(key, most) : undefined
    return decision === undefined ? this.ask('consume', key, 1, true, grant) : this.#report(true, decision)
  }

  /**
   * Synchronous where the store is; throws only for an invalid key. Calls the observer if `observed`. `grant`: takes as
   * much as fits.
   */
  ask(
    verb: Verb,
    key: LimiterKey,
    cost: number,
    observed: boolean,
    grant?: PartialGrant,
  ): Promise<Decision> | Decision {
    const charges = typeof key === 'string' ? undefined : this.chargesOf(key)
    const denial = this.#denials?.find(key, cost, this.policy)
    if (denial !== undefined) return this.#report(observed, denial)
    if (this.#leased !== undefined && verb === 'consume' && typeof key === 'string') {
      const refusal = this.#leased.refusal(key, cost)
      if (refusal !== undefined) return this.#report(observed, refusal)
    }
    const { calls } = this.#guarded
    const request = new DecisionRequest(calls, this, verb, cost, key, charges, this.#bound, grant, observed)
    const verdicts = this.#guarded.ask(request)
    if (verdicts !== undefined) return this.#report(observed, this.#settleable(request, verdicts, 'memory'))
    return new Promise((resolve, reject) => request.listen(resolve, reject))
  }

  /** The decision of a store that has answered later, as the caller sees it. */
  answered(
    request: DecisionRequest<Decision>,
    verdicts: readonly Verdict[],
    chargedAt: ChargedAt | undefined,
    lease: object | undefined,
  ): Decision {
    const { verb, key, observed } = request
    if (lease !== undefined) {
      const ticket = this.#leased?.ticketFrom(lease as Lease)
      return this.#report(observed, decisionOf(key, request.spent, verdicts, 'lease', false, ticket))
    }
    const decision = this.#settleable(request, verdicts, this.#source, chargedAt)
    // Units of leases may come back at any moment: then an answer says nothing of later or larger requests.
    const isAlone = this.#leased === undefined
    if (!decision.allowed) this.#denials?.remember(key, this.policy, decision, isAlone)
    else if (verb === 'consume' && isAlone) this.#denials?.renew(key, this.policy, decision)
    return this.#report(observed, decision)
  }

  /** The decision of the failure policy, as the caller sees it. */
  failed({ verb, key, cost, charges, grant, observed }: DecisionRequest<Decision>): Decision {
    const failing = (units: number) => this.#failure.decide(verb, key, charges, units)
    return this.#report(observed, grant === undefined ? failing(cost) : grant.decision(failing))
  }

  /** Gives back units that were bought in advance and not spent. */
  async close(): Promise<void> {
    await this.#leased?.close()
  }

  /** The decision for a waiting request that has been granted. */
  granted(
    key: LimiterKey,
    charges: readonly Charge[],
    spent: number,
    verdicts: readonly Verdict[],
    chargedAt: ChargedAt,
  ): Decision {
    return this.#settleable(
      { verb: 'consume', key, charges, spent },
      verdicts,
      this.#memory ? 'memory' : this.#source,
      chargedAt,
    )
  }

  /** Reports a decision to the observer and returns it as the caller sees it. */
  #report(observed: boolean, decision: Decision): Decision {
    const given = this.#shadow && !decision.allowed ? allowAnyway(decision) : decision
    if (observed && this.#observer !== undefined) notifyDecided(this.#observer, given, this.#name)
    return given
  }

  #settleable(
    request: SettleableRequest,
    verdicts: readonly Verdict[],
    source: StoreSource,
    chargedAt: ChargedAt | undefined = this.#memory?.decidedAt,
  ): Decision {
    const { verb, key, spent } = request
    if (verb === 'peek') return decisionOf(key, spent, verdicts, source)
    if (typeof key === 'string' && chargedAt !== undefined) {
      return decisionOf(key, spent, verdicts, source, false, this.#tickets.ticketAt(chargedAt))
    }
    const { charges, askedAt = this.#clock.now() } = request
    // The caller owns the record of keys and may change it before the decision is settled.
    const owner = { store: this.store, change: this.change, key, chargesOf: () => charges }
    return decisionOf(key, spent, verdicts, source, false, { owner, chargedAt, askedAt })
  }
}

/** A request whose decision may be settled. */
interface SettleableRequest {
  readonly verb: Verb
  readonly key: LimiterKey
  readonly charges: readonly Charge[]
  /** Units that it spends if it is allowed. */
  readonly spent: number
  readonly askedAt?: number | undefined
}

function checkCalendars(policy: Policy, store: Store): void {
  const limit = policy.find(({ calendar }) => calendar !== undefined)
  if (limit === undefined || store.countsCalendars) return
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

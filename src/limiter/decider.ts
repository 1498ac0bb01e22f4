import { type Clock, monotonicClock } from '../core/clock.js'
import type { Decision, Verdict } from '../core/decision.js'
import { PolicyError, shown } from '../core/errors.js'
import { type Policy, type PolicyInput, parsePolicy } from '../core/limit.js'
import { notifyDecided, type Observer } from '../core/observer.js'
import { PolicyMemo } from '../core/policy-memo.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import type { Lease } from '../stores/redis/leases/holdings.js'
import { type Charge, type ChargedAt, DEFAULT_LIMITER, type Store } from '../stores/store.js'
import { LeasedLimits, LoneLimit } from './at-once.js'
import type { DenyCache } from './deny-cache.js'
import type { FailurePolicy } from './fallback.js'
import { type GuardedStore, isAskable } from './guarded-store.js'
import { chargesOf, type LimiterKey } from './key.js'
import type { PolicyFunction } from './options.js'
import { PartialGrant } from './partial-grant.js'
import { PendingDecision } from './pending-decision.js'
import { allowAnyway, type ChangeCharges, decide, type Spender, SpendingClock } from './settlement.js'

type Verb = 'consume' | 'peek'

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
 * Makes decisions under one policy: from a remembered denial, from the store, or from the failure policy while the store fails.
 */
export class Decider implements Spender {
  readonly store: Store
  readonly change: ChangeCharges
  /** The limiter's name in charges; undefined for the default name. */
  readonly #limiter: string | undefined
  readonly #times: SpendingClock
  readonly #guarded: GuardedStore
  readonly #failure: FailurePolicy
  readonly #denials: DenyCache | undefined
  readonly #observer: Observer | undefined
  readonly #name: string
  readonly #shadow: boolean
  readonly #clock: Clock
  /** The store, if it is a `MemoryStore`, which knows the time of its decisions. */
  readonly #memory: MemoryStore | undefined
  /** Decides for text keys without asking a store that answers later, where possible. */
  readonly atOnce: LoneLimit | LeasedLimits | undefined
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
    this.#times = new SpendingClock(this)
    this.#guarded = guarded
    this.#failure = failure
    this.#denials = denials
    this.#observer = observer
    this.#name = name
    this.#shadow = shadow
    this.#clock = store.clock ?? monotonicClock
    this.#memory = store instanceof MemoryStore ? store : undefined
    this.#leased = LeasedLimits.of(policy, this.#limiter, this, observer)
    this.atOnce = LoneLimit.of(policy, this.#limiter, this) ?? this.#leased
  }

  /** The charges of a key. Throws `PolicyError` for a record of keys that does not fit the policy. */
  chargesOf(key: LimiterKey): readonly Charge[] {
    return chargesOf(this.policy, key, this.#limiter)
  }

  /** Spends if the cost fits: synchronously where the store is synchronous, unless the caller tried that before. Throws only for an invalid key. */
  consume(key: LimiterKey, cost: number, wasTried = false): Promise<Decision> | Decision {
    const decision = !wasTried && typeof key === 'string' ? this.atOnce?.consume(key, cost) : undefined
    if (decision !== undefined) return this.#report(true, decision)
    return this.decide('consume', key, cost, true)
  }

  /** Spends as much of `most` as fits. Throws `CostError`. */
  consumeUpTo(key: LimiterKey, most: number): Promise<Decision> | Decision {
    const grant = new PartialGrant(most)
    const decision = typeof key === 'string' ? this.#leased?.consume(key, most) : undefined
    return decision === undefined ? this.decide('consume', key, 1, true, grant) : this.#report(true, decision)
  }

  /** Synchronous where the store is; throws only for an invalid key. Calls the observer if `observed`. `grant`: takes as much as fits. */
  decide(
    verb: Verb,
    key: LimiterKey,
    cost: number,
    observed: boolean,
    grant?: PartialGrant,
  ): Promise<Decision> | Decision {
    const charges = this.chargesOf(key)
    const denial = this.#denials?.find(key, cost, this.policy)
    if (denial !== undefined) return this.#report(observed, denial)
    if (this.#leased !== undefined && verb === 'consume' && typeof key === 'string') {
      const refusal = this.#leased.refusal(key, cost)
      if (refusal !== undefined) return this.#report(observed, refusal)
    }
    const epoch = this.#denials?.epoch ?? 0
    // A store that does not report when it decided may have decided as soon as it was asked.
    const askedAt = this.#memory !== undefined || isAskable(this.store, verb) ? undefined : this.#clock.now()
    const answer = this.#guarded.decide(verb, charges, cost, grant)
    const spent = () => grant?.cost ?? cost
    if (!(answer instanceof PendingDecision)) {
      return this.#report(
        observed,
        this.#settleable(verb, key, charges, spent(), answer, 'memory', this.#memory?.decidedAt, askedAt),
      )
    }
    return new Promise((resolve, reject) => {
      answer.listen(
        (verdicts, _, chargedAt, lease) => {
          try {
            resolve(
              this.#report(
                observed,
                lease === undefined
                  ? this.#answered(verb, key, charges, spent(), verdicts, chargedAt, askedAt, epoch)
                  : decide(key, spent(), verdicts, 'lease', false, this.#leased?.spentFrom(lease as Lease)),
              ),
            )
          } catch (error) {
            reject(error)
          }
        },
        () => {
          try {
            const failing = (units: number) => this.#failure[verb](key, charges, units)
            resolve(this.#report(observed, grant === undefined ? failing(cost) : grant.decision(failing)))
          } catch (error) {
            reject(error)
          }
        },
      )
    })
  }

  /** Gives back units that were bought in advance and not spent. */
  async close(): Promise<void> {
    await this.#leased?.close()
  }

  /** The decision for a waiting request that has been granted. */
  granted(
    key: LimiterKey,
    charges: readonly Charge[],
    cost: number,
    verdicts: readonly Verdict[],
    chargedAt: ChargedAt,
  ): Decision {
    const source = this.#memory === undefined ? 'redis' : 'memory'
    return this.#settleable('consume', key, charges, cost, verdicts, source, chargedAt, undefined)
  }

  /** Reports a decision to the observer and returns it as the caller sees it. */
  #report(observed: boolean, decision: Decision): Decision {
    const given = this.#shadow && !decision.allowed ? allowAnyway(decision) : decision
    if (observed && this.#observer !== undefined) notifyDecided(this.#observer, given, this.#name)
    return given
  }

  #answered(
    verb: Verb,
    key: LimiterKey,
    charges: readonly Charge[],
    cost: number,
    verdicts: readonly Verdict[],
    chargedAt: ChargedAt | undefined,
    askedAt: number | undefined,
    epoch: number,
  ): Decision {
    const decision = this.#settleable(verb, key, charges, cost, verdicts, 'redis', chargedAt, askedAt)
    // Units of leases may come back at any moment: then an answer says nothing of later or larger requests.
    const isAlone = this.#leased === undefined
    if (!decision.allowed) this.#denials?.remember(key, this.policy, decision, epoch, isAlone)
    else if (verb === 'consume' && isAlone) this.#denials?.renew(key, this.policy, decision, epoch)
    return decision
  }

  #settleable(
    verb: Verb,
    key: LimiterKey,
    charges: readonly Charge[],
    cost: number,
    verdicts: readonly Verdict[],
    source: 'memory' | 'redis',
    chargedAt: ChargedAt | undefined,
    askedAt: number | undefined,
  ): Decision {
    if (verb === 'peek') return decide(key, cost, verdicts, source)
    // The caller owns the record of keys and may change it before the decision is settled.
    const spent =
      typeof key === 'string' && chargedAt !== undefined
        ? this.#times.spentAt(chargedAt)
        : {
            spender: { store: this.store, change: this.change, key, chargesOf: () => charges },
            chargedAt,
            askedAt: askedAt ?? this.#clock.now(),
          }
    return decide(key, cost, verdicts, source, false, spent)
  }
}

function checkCalendars(policy: Policy, store: Store): void {
  const limit = policy.find(({ calendar }) => calendar !== undefined)
  if (limit === undefined || store.countsCalendars) return
  throw new PolicyError(
    `RateLimiter: limit ${shown(limit.name)} counts in windows of the calendar, which the store ${shown(store)} does not know: expected a MemoryStore or a RedisStore, or a window like "1d"`,
  )
}

const NOT_ASKED: Policy = Object.freeze([])

/** The deciders of one limiter: one for each of its policies. */
export class Deciders {
  readonly #policyOf: PolicyFunction | undefined
  readonly #known: PolicyMemo<Decider>
  #last: Decider | undefined

  constructor(policy: Policy | PolicyFunction, parts: DeciderParts) {
    this.#known = new PolicyMemo(input => new Decider(read(input), parts))
    if (typeof policy === 'function') this.#policyOf = policy
    else this.#last = new Decider(policy, parts)
  }

  /** The policy that was used last. If the policy is a function that was not called yet: no limits. */
  get policy(): Policy {
    return this.#last?.policy ?? NOT_ASKED
  }

  /** The decider of all keys; undefined if the policy is a function. */
  get only(): Decider | undefined {
    return this.#policyOf === undefined ? this.#last : undefined
  }

  /** The decider for a key. Calls the policy function if there is one: throws what it throws, and `PolicyError` for an invalid policy. */
  of(key: LimiterKey): Decider {
    if (this.#policyOf === undefined) return this.#last!
    this.#last = this.#known.of(this.#policyOf(textOf(key)))
    return this.#last
  }

  /** Gives back unspent units bought under the last policy; units bought under earlier policies go back when their leases end. */
  async close(): Promise<void> {
    await this.#last?.close()
  }
}

function read(input: PolicyInput): Policy {
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
function textOf(key: LimiterKey): string {
  if (typeof key !== 'object' || key === null) return key
  const keys = new Set(Object.values(key).filter(value => value !== undefined))
  const [first] = keys
  return keys.size === 1 ? first : JSON.stringify(key)
}

import { type Clock, systemClock } from '../../core/clock.js'
import type { Decision } from '../../core/decision.js'
import type { PolicyInput } from '../../core/limit.js'
import { parseLimiterOptions } from '../../limiter/options.js'
import { RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { countsHits } from '../../stores/express-rate-limit/hit-store.js'
import { MemoryStore } from '../../stores/memory/memory-store.js'
import { type Fields, type HeaderForm, headersFor } from '../headers.js'
import { ownLimits } from './double-charge.js'

/** A policy: who decides by it, and what to tell the client of a decision. */
export interface Rule {
  readonly limiter: RateLimiter
  readonly headers: (decision: Decision) => Fields
}

/** A policy written in place is a new object for each request, but there are only as many texts as there are plans. */
const MOST_RULES = 1000

/** The rules of one middleware: one for each policy that it has met, all on one store. */
export class Rules {
  /** With the store that all rules share. */
  readonly options: Omit<RateLimiterOptions, 'policy'>
  readonly #forms: readonly HeaderForm[]
  readonly #rules = new Map<string, Rule>()

  /** Checks the options, also while no policy is known: `PolicyError`. */
  constructor(options: Omit<RateLimiterOptions, 'policy'>, forms: readonly HeaderForm[]) {
    parseLimiterOptions({ ...options, policy: '1/1s' })
    this.options = { ...options, store: options.store ?? new MemoryStore() }
    this.#forms = forms
  }

  /** The clock that the limits are counted by, as far as the store tells. */
  get clock(): Clock {
    const { store } = this.options
    return (countsHits(store) ? undefined : store?.clock) ?? systemClock
  }

  /** The rule for a policy, made when it is first met. Throws `PolicyError`. */
  rule(policy: PolicyInput): Rule {
    const text = typeof policy === 'string' ? policy : JSON.stringify(policy)
    return this.#rules.get(text) ?? this.#add(text, policy)
  }

  /** The rule of a limiter that counts on the store of these rules. */
  ruleOf(limiter: RateLimiter): Rule {
    ownLimits(limiter)
    return { limiter, headers: headersFor(this.#forms, limiter.policy, this.clock) }
  }

  #add(text: string, policy: PolicyInput): Rule {
    const rule = this.ruleOf(new RateLimiter({ ...this.options, policy }))
    // The oldest goes first. Counts are in the store, so that a policy that returns finds them again.
    if (this.#rules.size >= MOST_RULES) this.#rules.delete(this.#rules.keys().next().value as string)
    this.#rules.set(text, rule)
    return rule
  }
}

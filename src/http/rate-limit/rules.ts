import { type Clock, systemClock } from '../../core/clock.js'
import type { Decision } from '../../core/decision.js'
import { type Policy, type PolicyInput, parsePolicy } from '../../core/limit.js'
import { PolicyMemo } from '../../core/policy-memo.js'
import { parseLimiterOptions } from '../../limiter/options.js'
import { RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { countsHits } from '../../stores/express-rate-limit/hit-store.js'
import { MemoryStore } from '../../stores/memory/memory-store.js'
import { DEFAULT_LIMITER } from '../../stores/store.js'
import { WaitWatch } from '../../waiting/wait-watch.js'
import { type Fields, type HeaderForm, headersFor } from '../headers.js'
import { ownLimits } from './double-charge.js'

/** A policy with its limiter and its header fields. */
export interface Rule {
  readonly limiter: RateLimiter
  readonly policy: Policy
  readonly headers: (decision: Decision) => Fields
  /** Reports requests that the limiter delays. */
  readonly waits: WaitWatch | undefined
}

/** The rules of one middleware: one for each policy used so far, all on one store. */
export class Rules {
  /** Includes the store that all rules share. */
  readonly options: Omit<RateLimiterOptions, 'policy'>
  readonly #forms: readonly HeaderForm[]
  /** Counts are in the store, so a policy that returns after it was dropped here finds them again. */
  readonly #known = new PolicyMemo(policy => this.#make(policy))
  readonly #ofPolicies = new WeakMap<Policy, Rule>()

  /** Checks the options even before a policy is known: `PolicyError`. */
  constructor(options: Omit<RateLimiterOptions, 'policy'>, forms: readonly HeaderForm[]) {
    parseLimiterOptions({ ...options, policy: '1/1s' })
    this.options = { ...options, store: options.store ?? new MemoryStore() }
    this.#forms = forms
  }

  /** The clock of the limits, as far as the store exposes it. */
  get clock(): Clock {
    const { store } = this.options
    return (countsHits(store) ? undefined : store?.clock) ?? systemClock
  }

  /** The rule for a policy, created on first use. Throws `PolicyError`. */
  rule(policy: PolicyInput): Rule {
    return this.#known.of(policy)
  }

  /** The rule of a limiter that counts on the store of these rules, for its last policy. */
  ruleOf(limiter: RateLimiter): Rule {
    const { policy } = limiter
    let rule = this.#ofPolicies.get(policy)
    if (rule === undefined || rule.limiter !== limiter) {
      ownLimits(limiter)
      const { observer, name = DEFAULT_LIMITER } = limiter.options
      const waits = observer && new WaitWatch(observer, 'limiter', name)
      rule = { limiter, policy, headers: headersFor(this.#forms, policy, this.clock), waits }
      this.#ofPolicies.set(policy, rule)
    }
    return rule
  }

  #make(policy: PolicyInput): Rule {
    // The function returned a function, which `RateLimiter` would take for its own policy function.
    if (typeof policy === 'function') parsePolicy(policy)
    return this.ruleOf(new RateLimiter({ ...this.options, policy }))
  }
}

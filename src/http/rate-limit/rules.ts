import { type Clock, systemClock } from '../../limiter/core/clock.js'
import type { Decision } from '../../limiter/core/decision.js'
import { type Policy, type PolicyInput, parsePolicy } from '../../limiter/core/limit.js'
import { WaitWatch } from '../../limiter/core/meters.js'
import { PolicyMemo } from '../../limiter/core/policy-memo.js'
import { countsOf } from '../../limiter/foreign-store.js'
import { MemoryStore } from '../../limiter/memory/memory-store.js'
import { parseLimiterOptions } from '../../limiter/options.js'
import { optionsOf, RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { DEFAULT_LIMITER } from '../../limiter/store.js'
import { type HeaderForm, headersFor, type Report } from '../headers.js'

/** A policy with its limiter and its header fields. */
export interface Rule {
  readonly limiter: RateLimiter
  readonly policy: Policy
  readonly report: Report<Decision>
  /** Reports requests that the limiter delays. */
  readonly waits: WaitWatch
}

/** The rules of one middleware: one for each policy used so far, all on one store. */
export class Rules {
  /** Includes the store that all rules share. */
  readonly options: Omit<RateLimiterOptions, 'policy'> & Pick<Required<RateLimiterOptions>, 'store'>
  readonly #forms: readonly HeaderForm[]
  /** Counts are in the store, so a policy that returns after it was dropped here finds them again. */
  readonly #known = new PolicyMemo(
    policy => this.#make(policy),
    rule => this.#drop(rule),
  )
  readonly #ofPolicies = new WeakMap<Policy, Rule>()
  /** Limiters that the service has. */
  readonly #kept = new WeakSet<RateLimiter>()

  constructor(options: Omit<RateLimiterOptions, 'policy'>, forms: readonly HeaderForm[]) {
    this.options = { ...options, store: options.store === undefined ? new MemoryStore() : options.store }
    this.#forms = forms
  }

  /** Checks the options before a policy is known: `PolicyError`. */
  check(): void {
    parseLimiterOptions({ ...this.options, policy: '1/1s' })
  }

  /** The clock of the limits, as far as the store exposes it. */
  get clock(): Clock {
    return countsOf(this.options.store).clock ?? systemClock
  }

  /** The rule for a policy, created on first use. Throws `PolicyError`. */
  rule(policy: PolicyInput): Rule {
    return this.#known.of(policy)
  }

  /** The limiter for a policy, for the service: it stays open. Throws `PolicyError`. */
  limiterFor(policy: PolicyInput): RateLimiter {
    const { limiter } = this.rule(policy)
    this.#kept.add(limiter)
    return limiter
  }

  /** The rule of a limiter that counts on the store of these rules, for its last policy. */
  ruleOf(limiter: RateLimiter): Rule {
    const { policy } = limiter
    let rule = this.#ofPolicies.get(policy)
    if (rule === undefined || rule.limiter !== limiter) {
      const { observer, name = DEFAULT_LIMITER } = optionsOf(limiter)
      const waits = new WaitWatch(observer, 'limiter', name)
      rule = { limiter, policy, report: headersFor(this.#forms, policy, this.clock), waits }
      this.#ofPolicies.set(policy, rule)
    }
    return rule
  }

  #make(policy: PolicyInput): Rule {
    // The function returned a function, which `RateLimiter` would take for its own policy function.
    if (typeof policy === 'function') parsePolicy(policy)
    return this.ruleOf(new RateLimiter({ ...this.options, policy }))
  }

  #drop({ limiter }: Rule): void {
    if (!this.#kept.has(limiter)) limiter.close().catch(() => {})
  }
}

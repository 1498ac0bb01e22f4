import { PolicyError } from '../core/errors.js'
import { type Policy, type PolicyInput, parsePolicy } from '../core/limit.js'
import { PolicyMemo } from '../core/policy-memo.js'
import { Decider, type DeciderParts } from './decider.js'
import type { LimiterKey } from './key.js'
import type { PolicyFunction } from './options.js'

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

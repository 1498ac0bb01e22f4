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

  /** The policy that was used last; of a function that has not been asked yet: no limits. */
  get policy(): Policy {
    return this.#last?.policy ?? NOT_ASKED
  }

  /** The decider of all keys; undefined if the policy is a function. */
  get only(): Decider | undefined {
    return this.#policyOf === undefined ? this.#last : undefined
  }

  /** Who decides on a key now. Asks the function if the policy is one: throws what it throws, and `PolicyError` for what is no policy. */
  of(key: LimiterKey): Decider {
    if (this.#policyOf === undefined) return this.#last!
    this.#last = this.#known.of(this.#policyOf(textOf(key)))
    return this.#last
  }

  /** Gives back what was bought under the last policy and not spent; what was bought under earlier ones goes back when it ends. */
  async close(): Promise<void> {
    await this.#last?.close()
  }
}

function read(input: PolicyInput): Policy {
  if (typeof (input as { then?: unknown } | undefined)?.then === 'function') {
    throw new PolicyError('RateLimiter: policy gave a promise: expected a policy at once, like "100/1m"')
  }
  try {
    return parsePolicy(input)
  } catch (error) {
    throw new PolicyError(`RateLimiter: policy gave what is none: ${(error as Error).message}`)
  }
}

/** The one key that all limits of a record have; of several, all as JSON. */
function textOf(key: LimiterKey): string {
  if (typeof key !== 'object' || key === null) return key
  const keys = new Set(Object.values(key).filter(value => value !== undefined))
  const [first] = keys
  return keys.size === 1 ? first : JSON.stringify(key)
}

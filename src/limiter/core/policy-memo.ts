import type { PolicyInput } from './limit.js'
import { BoundedMap, getOrMake } from './maps.js'

/**
 * An inline policy is a new object for each request, but there are only as many different policies as there are plans.
 */
const MAX_POLICIES = 1000

/**
 * A cache of parsed policies, for functions that return a policy for each decision: the same text, the same frozen
 * object, or an equal object is parsed once. Above 1000 policies the oldest is dropped.
 */
export class PolicyMemo<Value> {
  readonly #ofTexts = new BoundedMap<string, Value>(MAX_POLICIES)
  readonly #ofObjects = new BoundedMap<string, Value>(MAX_POLICIES)
  readonly #ofFrozen = new WeakMap<object, Value>()

  /** `make` throws for an invalid policy; then nothing is cached. */
  constructor(readonly make: (policy: PolicyInput) => Value) {}

  of(policy: PolicyInput): Value {
    if (typeof policy === 'string') return getOrMake(this.#ofTexts, policy, () => this.make(policy))
    if (typeof policy !== 'object' || policy === null) return this.make(policy)
    return this.#ofFrozen.get(policy) ?? this.#ofObject(policy)
  }

  #ofObject(policy: Exclude<PolicyInput, string>): Value {
    const text = jsonOf(policy)
    if (text === undefined) return this.make(policy)
    const value = getOrMake(this.#ofObjects, text, () => this.make(policy))
    // Any other object may have changed by the next call.
    if (isFrozen(policy)) this.#ofFrozen.set(policy, value)
    return value
  }
}

/** undefined for values without JSON, such as a BigInt or a cycle. */
function jsonOf(policy: object): string | undefined {
  try {
    return JSON.stringify(policy)
  } catch {
    return undefined
  }
}

function isFrozen(policy: Exclude<PolicyInput, string>): boolean {
  if (!Object.isFrozen(policy)) return false
  return !Array.isArray(policy) || policy.every(entry => Object.isFrozen(entry))
}

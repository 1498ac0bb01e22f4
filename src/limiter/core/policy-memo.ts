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
  readonly #ofTexts: BoundedMap<string, Value>
  readonly #ofObjects: BoundedMap<string, Value>
  /** The JSON of frozen objects. */
  readonly #texts = new WeakMap<object, string>()

  /** `make` throws for an invalid policy; then nothing is cached. `drop` is told of each value that is dropped. */
  constructor(
    readonly make: (policy: PolicyInput) => Value,
    drop?: (value: Value) => void,
  ) {
    this.#ofTexts = new BoundedMap(MAX_POLICIES, drop)
    this.#ofObjects = new BoundedMap(MAX_POLICIES, drop)
  }

  of(policy: PolicyInput): Value {
    if (typeof policy === 'string') return getOrMake(this.#ofTexts, policy, () => this.make(policy))
    if (typeof policy !== 'object' || policy === null) return this.make(policy)
    const text = this.#texts.get(policy) ?? jsonOf(policy)
    if (text === undefined) return this.make(policy)
    const value = getOrMake(this.#ofObjects, text, () => this.make(policy))
    // Any other object may have changed by the next call.
    if (isFrozen(policy)) this.#texts.set(policy, text)
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

import type { PolicyInput } from './limit.js'

/** A policy that is written in place is a new object for each request, but there are only as many texts as there are plans. */
const MOST = 1000

/**
 * What was made of a policy, for functions that give one for each decision: the same text, the same frozen object, or an object
 * that says the same is not read again. Of more than 1000 policies the oldest is forgotten.
 */
export class PolicyMemo<Value> {
  readonly #ofTexts = new Map<string, Value>()
  readonly #ofObjects = new Map<string, Value>()
  readonly #ofFrozen = new WeakMap<object, Value>()

  /** `make` throws for a policy that means nothing; then nothing is remembered. */
  constructor(readonly make: (policy: PolicyInput) => Value) {}

  of(policy: PolicyInput): Value {
    if (typeof policy === 'string') return this.#ofTexts.get(policy) ?? this.#add(this.#ofTexts, policy, policy)
    if (typeof policy !== 'object' || policy === null) return this.make(policy)
    return this.#ofFrozen.get(policy) ?? this.#ofObject(policy)
  }

  #ofObject(policy: Exclude<PolicyInput, string>): Value {
    const text = jsonOf(policy)
    if (text === undefined) return this.make(policy)
    const value = this.#ofObjects.get(text) ?? this.#add(this.#ofObjects, text, policy)
    // Any other object may say something else the next time.
    if (isFrozen(policy)) this.#ofFrozen.set(policy, value)
    return value
  }

  #add(known: Map<string, Value>, text: string, policy: PolicyInput): Value {
    const value = this.make(policy)
    if (known.size >= MOST) known.delete(known.keys().next().value as string)
    known.set(text, value)
    return value
  }
}

/** undefined for what has no JSON, as a BigInt or a circle. */
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

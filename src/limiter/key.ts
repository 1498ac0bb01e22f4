import { PolicyError, shown } from './core/errors.js'
import type { Policy } from './core/limit.js'

/**
 * The subject of a request: one key for all limits of a policy, or a record with a key for each limit by its name. A
 * limit without a key in the record does not apply. A number stands for its text; NaN and ±Infinity are invalid.
 */
export type KeyInput = string | number | Readonly<Record<string, string | number | undefined>>

/** A `KeyInput` whose numbers have become texts. */
export type LimiterKey = string | Readonly<Record<string, string | undefined>>

/**
 * Converts numbers to texts. Throws `PolicyError` for an invalid key, and for NaN and ±Infinity, with which strangers
 * would share one count.
 */
export function limiterKey(key: KeyInput): LimiterKey {
  if (typeof key === 'string') return key
  if (typeof key === 'number') return numberText(key)
  if (typeof key !== 'object' || key === null) {
    throw new PolicyError(`key ${shown(key)}: expected a text, like "user:42", or a record of them by limit`)
  }
  const entries = Object.entries(key)
  if (entries.every(([, value]) => typeof value !== 'number')) return key as LimiterKey
  return Object.fromEntries(
    entries.map(([name, value]) => [name, typeof value === 'number' ? numberText(value) : value]),
  )
}

function numberText(key: number): string {
  if (Number.isFinite(key)) return String(key)
  throw new PolicyError(`key ${key}: expected a text or a finite number, like 42`)
}

/**
 * The limits to which a record of keys applies, by their places in the policy, and the key of each. Throws
 * `PolicyError` for a record that names unknown limits, or none.
 */
export function keysOf(
  policy: Policy,
  key: Exclude<LimiterKey, string>,
): { readonly places: readonly number[]; readonly keys: readonly string[] } {
  for (const [name, value] of Object.entries(key)) {
    if (!policy.some(limit => limit.name === name)) {
      const names = policy.map(limit => shown(limit.name)).join(', ')
      throw new PolicyError(`key for limit ${shown(name)}: the policy has no such limit, only ${names}`)
    }
    if (value !== undefined && typeof value !== 'string') {
      throw new PolicyError(`key ${shown(value)} for limit ${shown(name)}: expected a text, like "user:42"`)
    }
  }
  const places: number[] = []
  const keys: string[] = []
  policy.forEach(({ name }, i) => {
    const own = Object.hasOwn(key, name) ? key[name] : undefined
    if (own === undefined) return
    places.push(i)
    keys.push(own)
  })
  if (keys.length === 0)
    throw new PolicyError('key: given a record without any key, expected one for at least one limit')
  return { places, keys }
}

import { PolicyError } from '../core/errors.js'

/** A key as a service gives it: a number stands for its text; undefined: the request is not limited. */
export type GivenKey = string | number | undefined

/**
 * A key as a text. Throws `PolicyError`, in which `owner` says whose option `key` it is, for anything else than a `GivenKey`, and
 * for NaN and ±Infinity, which would make strangers share one count.
 */
export function keyText(key: unknown, owner: string): string | undefined {
  if (key === undefined || typeof key === 'string') return key
  if (Number.isFinite(key)) return String(key)
  throw new PolicyError(
    `${owner}: key gave ${described(key)}: expected a text or a finite number, like req.user.id, or undefined for a request that is not limited`,
  )
}

/** Without the value, unless it is no secret: error pages show messages. */
function described(key: unknown): string {
  if (typeof key === 'number') return String(key)
  if (key === null) return 'null'
  return Array.isArray(key) ? 'an array' : `a value of type ${typeof key}`
}

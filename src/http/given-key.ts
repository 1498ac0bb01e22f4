import { PolicyError } from '../core/errors.js'

/** A key as a service returns it: a number stands for its text; undefined: the request is not limited. */
export type GivenKey = string | number | undefined

/**
 * A key as a text. Throws `PolicyError`, in which `owner` names the middleware of the option `key`, for anything but a `GivenKey`, and
 * for NaN and ±Infinity, with which strangers would share one count.
 */
export function keyText(key: unknown, owner: string): string | undefined {
  if (key === undefined || typeof key === 'string') return key
  if (Number.isFinite(key)) return String(key)
  throw new PolicyError(
    `${owner}: key gave ${described(key)}: expected a text or a finite number, like req.user.id, or undefined for a request that is not limited`,
  )
}

/** Without secret values, because error pages show messages. */
function described(key: unknown): string {
  if (typeof key === 'number') return String(key)
  if (key === null) return 'null'
  return Array.isArray(key) ? 'an array' : `a value of type ${typeof key}`
}

import { PolicyError, SpillwayError, shown } from '../limiter/core/errors.js'
import { isPromise, type SyncOrAsync } from './sync-or-async.js'

/** A function of the options. It receives the request and the response, or a context that stands for both. */
export type OptionFunction<Args extends readonly unknown[], Value> = (...args: Args) => SyncOrAsync<Value>

/**
 * Calls a function of the service; ensures that a thrown value is an object. `user` names the middleware in that error.
 */
export function callOption<Args extends readonly unknown[], Value>(
  option: OptionFunction<Args, Value>,
  args: Args,
  user = 'rateLimit',
): SyncOrAsync<Value> {
  const fail = (error: unknown): never => failure(error, user)
  try {
    const given = option(...args)
    // Fastify's reply has a `then` that needs both its functions and returns nothing.
    return isPromise(given) ? Promise.resolve(given).then(undefined, fail) : given
  } catch (error) {
    return fail(error)
  }
}

function failure(error: unknown, user: string): never {
  if (typeof error === 'object' && error !== null) throw error
  throw new SpillwayError(`${user}: a function of the options threw ${shown(error)}: expected an Error`, {
    cause: error,
  })
}

/** A key as a service returns it: a number stands for its text; undefined: the request is not limited. */
export type GivenKey = string | number | undefined

/**
 * A key as a text. Throws `PolicyError`, in which `owner` names the middleware of the option `key`, for anything but a
 * `GivenKey`, and for NaN and ±Infinity, with which strangers would share one count.
 */
export function keyText(key: unknown, owner: string): string | undefined {
  if (key === undefined || typeof key === 'string') return key
  if (Number.isFinite(key)) return String(key)
  throw new PolicyError(
    `${owner}: key gave ${described(key)}: expected a text or a finite number, like req.user.id, or undefined ` +
      'for a request that is not limited',
  )
}

/** Without secret values, because error pages show messages. */
function described(key: unknown): string {
  if (typeof key === 'number') return String(key)
  if (key === null) return 'null'
  return Array.isArray(key) ? 'an array' : `a value of type ${typeof key}`
}

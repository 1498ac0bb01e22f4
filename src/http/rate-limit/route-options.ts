import { PolicyError, shown } from '../../core/errors.js'
import { checkObject } from '../../core/option-names.js'
import { parseLimiterOptions } from '../../limiter/options.js'
import { type HttpLimitOptions, partKeys } from './limit-keys.js'
import type { HttpOptions } from './options.js'
import { parseHttpOptions, SETTLED_BY_LIMITER } from './settings.js'

type Name = keyof HttpOptions<never, never>

/** Options that replace others: a route that sets the first inherits none of the second from the options for all routes. */
const IN_PLACE_OF: ReadonlyArray<readonly [own: Name, others: readonly Name[]]> = [
  ['policy', ['limit', 'max', 'windowMs', 'algorithm', 'limiter']],
  ['limit', ['policy', 'max', 'limiter']],
  ['max', ['policy', 'limit', 'limiter']],
  ['windowMs', ['policy', 'limiter']],
  ['algorithm', ['policy', 'limiter']],
  ['key', ['keyGenerator']],
  ['keyGenerator', ['key']],
  ['limiter', SETTLED_BY_LIMITER],
]

/** The options that together are the limits. */
const LIMITS: readonly Name[] = ['policy', 'limit', 'max', 'windowMs', 'algorithm']
/** Options about the response alone: of combined options, one may set them for all. */
const WORDING: readonly Name[] = ['statusCode', 'message', 'handler', 'headers']

/**
 * The options of a route. Options that it does not set come from the options for all routes, except the name: the route counts separately, as
 * `route` (like 'POST /login'), unless its own options set `name`, or the limiter was made elsewhere.
 */
export function routeOptions<Request, Response>(
  all: HttpOptions<Request, Response>,
  own: HttpOptions<Request, Response>,
  route: string,
): HttpOptions<Request, Response> {
  if (typeof own !== 'object' || own === null) {
    throw new PolicyError(
      `rateLimit: options ${shown(own)} of ${route}: expected an object, like { policy: "5/1m" }, or false for no limit`,
    )
  }
  const options = { ...all, name: route }
  for (const [name, others] of IN_PLACE_OF) {
    if (own[name] !== undefined) for (const other of others) delete options[other]
  }
  if (options.limiter !== undefined) delete (options as HttpOptions<Request, Response>).name
  return { ...options, ...own }
}

/** Checks a route's own options, before the options for all routes are known: `PolicyError`, or `CostError` for a constant cost. */
export function checkRouteOptions<Request, Response>(own: HttpOptions<Request, Response>): void {
  checkObject('rateLimit', own, '{ policy: "5/1m" }')
  // `addressHeader` is only valid beside `proxies`, which may come from the options for all routes.
  const { policy, limiter, given } = parseHttpOptions({ proxies: 1, ...own })
  if (given !== undefined) return
  parseLimiterOptions({ ...limiter, policy: typeof policy === 'function' ? '1/1s' : partKeys(policy).policy })
}

/**
 * The options of a route for which several were given, like two decorators: their limits are one policy, so that a request is charged to all of
 * them or to none. `owner` begins the message of a `PolicyError`, which is thrown if the other options cannot be those of one policy.
 */
export function combinedOptions<Request, Response>(
  all: ReadonlyArray<HttpOptions<Request, Response>>,
  owner: string,
): HttpOptions<Request, Response> {
  const limits = all.flatMap(own => limitsOf(own, owner))
  const combined: Record<string, unknown> = limits.length > 0 ? { policy: limits } : {}
  for (const name of new Set(all.flatMap(own => Object.keys(own) as Name[]))) {
    if (LIMITS.includes(name)) continue
    const values = new Set(all.map(own => own[name]))
    if (WORDING.includes(name)) values.delete(undefined)
    if (values.size > 1) {
      throw new PolicyError(
        `${owner}: ${name} is not the same in all of them, and they are one policy, which counts a request for all its limits or for none: ` +
          `expected one with all limits, like { policy: ["5/15m", "100/1h"], ${name}: … }`,
      )
    }
    combined[name] = [...values][0]
  }
  return combined
}

/** The limits that options name themselves. */
function limitsOf<Request, Response>(
  own: HttpOptions<Request, Response>,
  owner: string,
): ReadonlyArray<string | HttpLimitOptions<Request, Response>> {
  if (LIMITS.every(name => own[name] === undefined)) return []
  const { policy } = parseHttpOptions({ proxies: 1, ...own })
  if (typeof policy !== 'function') return [policy].flat() as Array<string | HttpLimitOptions<Request, Response>>
  throw new PolicyError(
    `${owner}: one of them has a function for its limit: expected one function that returns all limits, like { policy: req => ["5/15m", "100/1h"] }`,
  )
}

import { PolicyError, shown } from '../../core/errors.js'
import type { HttpOptions } from './options.js'
import { SETTLED_BY_LIMITER } from './settings.js'

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

import { PolicyError, shown } from '../../limiter/core/errors.js'
import { checkObject } from '../../limiter/core/options.js'
import { MemoryStore } from '../../limiter/memory/memory-store.js'
import { parseLimiterOptions } from '../../limiter/options.js'
import { optionsOf } from '../../limiter/rate-limiter.js'
import { DEFAULT_LIMITER } from '../../limiter/store.js'
import { withoutAddresses } from '../address/client.js'
import type { Framework } from '../framework.js'
import { type HttpLimitInput, type HttpOptions, partKeys } from './options.js'
import { RateLimitGate } from './rate-limit.js'
import { parsePlainOptions, SETTLED_BY_LIMITER } from './settings.js'
import { type PlainOptions, plainOptions } from './spellings.js'

/** The limits of an app: the one of all routes, and those of routes with options of their own. */
export class RouteLimits<Request, Response, Args extends readonly unknown[]> {
  readonly #given: HttpOptions<Args>
  readonly #all: PlainOptions<Args>
  readonly #framework: Framework<Request, Response, Args>

  /** `given`: the options for all routes. Checks their names: `PolicyError`. */
  constructor(given: HttpOptions<Args>, framework: Framework<Request, Response, Args>) {
    this.#given = given
    this.#all = plainOptions(given)
    // One for all routes, so that routes with the same name count together.
    const { limiter, store } = this.#all
    if (limiter === undefined && store === undefined) this.#all.store = new MemoryStore()
    this.#framework = framework
  }

  /** The limit of all routes. Checks the options: `PolicyError`, or `CostError` for a constant cost. */
  everywhere(): RateLimitGate<Request, Response, Args> {
    return new RateLimitGate(parsePlainOptions(this.#all), this.#framework)
  }

  /**
   * The limit of a route. Options that it does not set come from those for all routes, except the name: the route
   * counts separately, as `route` (like 'POST /login'), unless its own options set `name`, or it has the limiter of
   * all. A policy of its own under a `limiter` counts in that limiter's store, under its name and the route's.
   */
  ofRoute(own: readonly HttpOptions<Args>[], route: string): RateLimitGate<Request, Response, Args> {
    for (const options of own) {
      if (typeof options === 'object' && options !== null) continue
      throw new PolicyError(
        `rateLimit: options ${shown(options)} of ${route}: expected an object, like { policy: "5/1m" }, or false for ` +
          'no limit',
      )
    }
    const plain = combined(own, route, this.#given)
    return new RateLimitGate(parsePlainOptions({ ...inherited(this.#all, plain, route), ...plain }), this.#framework)
  }
}

/** What a route takes from the options for all routes. */
function inherited<Args extends readonly unknown[]>(
  all: PlainOptions<Args>,
  own: PlainOptions<Args>,
  route: string,
): PlainOptions<Args> {
  const { limiter, ...options } = { ...withoutAddresses(all, own), name: route }
  if (own.limiter !== undefined) {
    for (const name of SETTLED_BY_LIMITER) delete options[name]
    return options
  }
  if (limiter === undefined) return options
  if (own.policy === undefined) return { ...options, limiter, name: undefined }
  const { policy: _, name = DEFAULT_LIMITER, ...making } = optionsOf(limiter)
  return { ...options, ...making, name: name === DEFAULT_LIMITER ? route : `${name} ${route}` }
}

/**
 * Checks options of a route, before the options for all routes are known: `PolicyError`, or `CostError` for a constant
 * cost. Several are those of one route; `owner` begins the message if they cannot be combined.
 */
export function checkRouteOptions<Args extends readonly unknown[]>(
  own: readonly HttpOptions<Args>[],
  owner: string,
): void {
  for (const options of own) checkObject('rateLimit', options, '{ policy: "5/1m" }')
  const plain = combined(own, owner)
  // `addressHeader` is only valid beside `proxies`, which may come from the options for all routes.
  if (plain.addressHeader !== undefined) plain.proxies ??= 1
  const { policy, limiter, given } = parsePlainOptions(plain)
  if (given !== undefined) return
  parseLimiterOptions({ ...limiter, policy: typeof policy === 'function' ? '1/1s' : partKeys(policy).policy })
}

/** Options about the response alone: of combined options, one may set them for all. */
const WORDING: ReadonlyArray<keyof PlainOptions<never>> = ['statusCode', 'message', 'handler', 'headers']

/**
 * The options of a route for which several were given, like two decorators: their limits are one policy, so that a
 * request is charged to all of them or to none. Throws `PolicyError` if the other options cannot be those of one
 * policy.
 */
function combined<Args extends readonly unknown[]>(
  given: readonly HttpOptions<Args>[],
  owner: string,
  base?: HttpOptions<Args>,
): PlainOptions<Args> {
  const all = given.map(own => plainOptions(own, base))
  if (all.length === 1) return { ...all[0] }
  const limits = all.flatMap(({ policy }) => (policy === undefined ? [] : limitsOf(policy, owner)))
  const options: Record<string, unknown> = limits.length > 0 ? { policy: limits } : {}
  for (const name of new Set(all.flatMap(own => Object.keys(own) as Array<keyof PlainOptions<Args>>))) {
    if (name === 'policy') continue
    const values = new Set(all.map(own => own[name]))
    if (WORDING.includes(name as never)) values.delete(undefined)
    if (values.size > 1) {
      throw new PolicyError(
        `${owner}: ${name} is not the same in all of them, and they are one policy, which counts a request for ` +
          'all its limits or for none: expected one with all limits, like { policy: ["5/15m", "100/1h"], ' +
          `${name}: … }`,
      )
    }
    options[name] = [...values][0]
  }
  return options
}

function limitsOf<Args extends readonly unknown[]>(
  policy: NonNullable<PlainOptions<Args>['policy']>,
  owner: string,
): ReadonlyArray<HttpLimitInput<Args>> {
  if (typeof policy !== 'function') return [policy].flat() as Array<HttpLimitInput<Args>>
  throw new PolicyError(
    `${owner}: one of them has a function for its limit: expected one function that returns all limits, like { ` +
      'policy: req => ["5/15m", "100/1h"] }',
  )
}

import { PolicyError } from '../../limiter/core/errors.js'
import type { PolicyInput } from '../../limiter/core/limit.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { checkObject } from '../../limiter/core/options.js'
import type { RateLimiter } from '../../limiter/rate-limiter.js'
import type { HttpOptions } from '../rate-limit/options.js'
import type { LimiterAccess, RateLimitGate } from '../rate-limit/rate-limit.js'
import { checkRouteOptions, RouteLimits } from '../rate-limit/route-limits.js'
import { after, type SyncOrAsync } from '../sync-or-async.js'
import { keepWorded, type NestArgs, type NestRequest, type NestResponse, nest } from './nest-request.js'

/**
 * The options of the module and of routes. Their functions receive request and response of the platform, Express or
 * Fastify.
 */
export interface NestOptions<Request = NestRequest, Response = NestResponse>
  extends HttpOptions<[req: Request, res: Response]> {}

/** A route handler, or a controller. */
type Target = object
type NestGate = RateLimitGate<NestRequest, NestResponse, NestArgs>

/** The options from decorators; false: no limit. */
const OWN = new WeakMap<Target, readonly NestOptions[] | false>()

/** Decorated controllers by their class name, in the order of their declaration. */
const DECLARED = new Map<string, Array<WeakRef<Target>>>()

/**
 * Records a decorator's options for a handler or a controller; several on one target are combined. Checks them:
 * `PolicyError`, or `CostError` for a constant cost. `handler` is undefined for the options of a controller.
 */
export function decorate(controller: Target, handler: Target | undefined, own: NestOptions | false): void {
  const target = handler ?? controller
  const place = handler === undefined ? nameOf(controller) : `${nameOf(controller)}.${nameOf(handler)}`
  const before = OWN.get(target)
  declare(controller)
  if (own === false) {
    if (before === undefined || before === false) OWN.set(target, false)
    else throw new PolicyError(`${place} has both @RateLimit and @SkipRateLimit: expected one of them`)
    return
  }
  if (before === false) throw new PolicyError(`${place} has both @RateLimit and @SkipRateLimit: expected one of them`)
  // Decorators are called from the last to the first.
  const all = [own, ...(before ?? []).filter(other => other !== own)]
  checkRouteOptions([own], place)
  checkRouteOptions(all, `the @RateLimit decorators of ${place}`)
  OWN.set(target, all)
}

/** The controllers of this class name that still exist, in the order of their declaration. */
function declare(controller: Target): Target[] {
  const known = getOrMake(DECLARED, nameOf(controller), () => [])
  const alive = known.flatMap(ref => ref.deref() ?? [])
  if (!alive.includes(controller)) {
    known.push(new WeakRef(controller))
    alive.push(controller)
  }
  return alive
}

/**
 * The limits of an application: one for all routes, and those of routes with their own options. Inject it to `peek`,
 * `refund` or `reset`.
 */
export class RateLimits implements LimiterAccess {
  readonly #limits: RouteLimits<NestRequest, NestResponse, NestArgs>
  readonly #everywhere: NestGate
  readonly #own = new WeakMap<Target, WeakMap<Target, NestGate | undefined>>()

  /** Checks the options: `PolicyError`, or `CostError` for a constant cost. */
  constructor(options: NestOptions = {}) {
    checkObject('RateLimitModule.forRoot', options, "{ policy: '100/1m' }")
    this.#limits = new RouteLimits(worded(options), nest)
    this.#everywhere = this.#limits.everywhere()
  }

  get limiter(): RateLimiter {
    return this.#everywhere.limiter
  }

  limiterFor(policy: PolicyInput): RateLimiter {
    return this.#everywhere.limiterFor(policy)
  }

  /** The gate of a route; undefined if it has no limit. */
  of(controller: Target, handler: Target): NestGate | undefined {
    const gates = getOrMake(this.#own, controller, () => new WeakMap())
    if (!gates.has(handler)) gates.set(handler, this.#made(controller, handler))
    return gates.get(handler)
  }

  #made(controller: Target, handler: Target): NestGate | undefined {
    const own = OWN.get(handler) ?? ofController(controller)
    if (own === undefined) return this.#everywhere
    if (own === false) return undefined
    return this.#limits.ofRoute(own.map(worded), routeName(controller, handler))
  }
}

/** The options of the controller, or of a class that it extends. */
function ofController(controller: Target | null): readonly NestOptions[] | false | undefined {
  for (let target = controller; target !== null; target = Object.getPrototypeOf(target)) {
    const own = OWN.get(target)
    if (own !== undefined) return own
  }
  return undefined
}

/**
 * The name of a route's own count, like 'Users.list /users v2': the same in every process. Classes of one name are told
 * apart by the path, host and version that Nest's decorators record. If these are equal too (modules mounted by
 * `RouterModule`), by the order of their declaration.
 */
function routeName(controller: Target, handler: Target): string {
  const version = recorded('__version__', handler) ?? recorded('__version__', controller)
  const whereOf = (controller: Target) =>
    [
      ...recordedTexts('path', controller).map(path => `/${path.replace(/^\/+/, '')}`),
      ...recordedTexts('host', controller),
    ].join(' ')
  const where = whereOf(controller)
  const versions = [version ?? []].flat().map(version => `v${textOf(version)}`)
  const like = declare(controller).filter(other => whereOf(other) === where)
  const nth = like.indexOf(controller)
  const name = [`${nameOf(controller)}.${nameOf(handler)}`, where, ...versions].filter(part => part !== '').join(' ')
  return nth > 0 ? `${name} #${nth + 1}` : name
}

/** What a decorator of Nest has recorded of a target. */
function recorded(name: string, target: Target): unknown {
  const { getMetadata } = Reflect as { getMetadata?(name: string, target: Target): unknown }
  return getMetadata?.(name, target)
}

function recordedTexts(name: string, target: Target): string[] {
  return [recorded(name, target) ?? []].flat().map(textOf)
}

/** A pattern, a neutral version (a symbol), or a text. */
function textOf(value: unknown): string {
  return typeof value === 'symbol' ? (value.description ?? '') : String(value)
}

function nameOf(target: Target): string {
  return String((target as { name?: string }).name)
}

/** The options with a handler whose result becomes the body of the exception. */
function worded(options: NestOptions): NestOptions {
  const handler = options?.handler
  if (typeof handler !== 'function') return options
  const own = getOrMake(
    WORDED,
    handler,
    (): NestHandler => (req, res, decision) =>
      after(handler(req, res, decision) as SyncOrAsync<unknown>, body => keepWorded(req, res, body, decision)),
  )
  return { ...options, handler: own }
}

type NestHandler = NonNullable<NestOptions['handler']>
/** One for each, so that decorators with the same handler can be combined. */
const WORDED = new WeakMap<NestHandler, NestHandler>()

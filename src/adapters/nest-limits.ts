import { getOrMake } from '../core/get-or-make.js'
import type { PolicyInput } from '../core/limit.js'
import { checkObject } from '../core/option-names.js'
import type { HttpOptions } from '../http/rate-limit/options.js'
import { Guard, type Limiters } from '../http/rate-limit/rate-limit.js'
import { routeOptions } from '../http/rate-limit/route-options.js'
import { after, type SyncOrAsync } from '../http/sync-or-async.js'
import type { RateLimiter } from '../limiter/rate-limiter.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import { keepWorded, type NestRequest, type NestResponse, nest } from './nest-request.js'

/** The options of the module and of routes. Their functions receive request and response of the platform, Express or Fastify. */
export interface NestOptions<Request = NestRequest, Response = NestResponse> extends HttpOptions<Request, Response> {}

/** A route handler, or a controller. */
type Target = object
type NestGuard = Guard<NestRequest, NestResponse>

/** The options from decorators; false: no limit. */
const OWN = new WeakMap<Target, NestOptions | false>()

/** Records a decorator's options for a handler or a controller. */
export function decorate(target: Target, own: NestOptions | false): void {
  OWN.set(target, own)
}

/** The limits of an application: one for all routes, and those of routes with their own options. Inject it to `peek`, `refund` or `reset`. */
export class RateLimits implements Limiters {
  readonly #options: NestOptions
  readonly #everywhere: NestGuard
  readonly #own = new WeakMap<Target, WeakMap<Target, NestGuard | undefined>>()

  /** Checks the options: `PolicyError`, or `CostError` for a constant cost. */
  constructor(options: NestOptions = {}) {
    checkObject('RateLimitModule.forRoot', options, "{ policy: '100/1m' }")
    this.#options = { ...options }
    // One for all routes, so that routes with the same name count together.
    if (this.#options.limiter === undefined) this.#options.store ??= new MemoryStore()
    this.#everywhere = guardOf(this.#options)
  }

  get limiter(): RateLimiter {
    return this.#everywhere.limiter
  }

  limiterFor(policy: PolicyInput): RateLimiter {
    return this.#everywhere.limiterFor(policy)
  }

  /** The guard of a route; undefined if it has no limit. */
  of(controller: Target, handler: Target): NestGuard | undefined {
    const guards = getOrMake(this.#own, controller, () => new WeakMap())
    if (!guards.has(handler)) guards.set(handler, this.#made(controller, handler))
    return guards.get(handler)
  }

  #made(controller: Target, handler: Target): NestGuard | undefined {
    const own = OWN.get(handler) ?? ofController(controller)
    if (own === undefined) return this.#everywhere
    if (own === false) return undefined
    return guardOf(routeOptions(this.#options, own, `${nameOf(controller)}.${nameOf(handler)}`))
  }
}

/** The options of the controller, or of a class that it extends. */
function ofController(controller: Target | null): NestOptions | false | undefined {
  for (let target = controller; target !== null; target = Object.getPrototypeOf(target)) {
    const own = OWN.get(target)
    if (own !== undefined) return own
  }
  return undefined
}

function nameOf(target: Target): string {
  return String((target as { name?: string }).name)
}

function guardOf(options: NestOptions): NestGuard {
  const { handler } = options
  if (typeof handler !== 'function') return new Guard(options, nest)
  const own: NestOptions['handler'] = (req, res, decision) =>
    after(handler(req, res, decision) as SyncOrAsync<unknown>, body => keepWorded(req, res, body, decision))
  return new Guard({ ...options, handler: own }, nest)
}

import type { FastifyInstance, FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import type { Decision } from '../../limiter/core/decision.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { checkFlag } from '../../limiter/core/options.js'
import type { RateLimiter } from '../../limiter/rate-limiter.js'
import { type AddressKeyOptions, addressKeyOf } from '../address/client.js'
import { ConcurrencyGate } from '../concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../concurrency/options.js'
import { admit, type Delivered, type Gate, PASS } from '../framework.js'
import type { HttpOptions } from '../rate-limit/options.js'
import type { RateLimitGate } from '../rate-limit/rate-limit.js'
import { checkRouteOptions, RouteLimits } from '../rate-limit/route-limits.js'
import { ShedGate, type ShedOptions as ShedGateOptions } from '../shed.js'
import { isPromise, type SyncOrAsync } from '../sync-or-async.js'
import { delivery, type FastifyArgs, frameworkOf, routeName } from './fastify-request.js'

export type * from '../adapter-exports.js'
export { clientAddress } from '../address/client.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
    rateLimit?: Decision
  }
  interface FastifyInstance {
    /**
     * A hook that limits one route, beside the limit of the plugin: `app.get('/search', { onRequest: app.rateLimit({
     * policy: '5/1m' }) }, handler)`, or `preHandler`. Options that it does not set come from the nearest plugin; the
     * route counts separately unless they set `name`. Throws `PolicyError`.
     */
    rateLimit(options: RouteOptions): RouteHook
    /**
     * The limiter of the nearest plugin, to `reset`, `peek` or `block`; undefined if that limits no routes without
     * options of their own (`global: false`), or if its policy is a function.
     */
    readonly rateLimiter: RateLimiter | undefined
  }
  interface FastifyContextConfig {
    /**
     * The route's own limit, instead of the nearest plugin's, with a separate count unless it sets `name`. false: no
     * limit of any plugin.
     */
    rateLimit?: RouteOptions | false
  }
}

/** A hook for the option `onRequest`, `preValidation` or `preHandler` of a route. */
export type RouteHook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

/** When a request is decided. `request.body` is available from 'preValidation' on. */
export type Hook = 'onRequest' | 'preParsing' | 'preValidation' | 'preHandler'

/**
 * The options of a route's own limit, in its `config`. Options that it does not set come from the nearest plugin: the
 * first of the innermost context. Their functions receive `(request, reply)`.
 */
export interface RouteOptions extends HttpOptions<FastifyArgs> {}

/**
 * The options of the plugin `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their
 * functions receive `(request, reply)`.
 */
export interface RateLimitOptions extends RouteOptions {
  /** Default true. false: only routes with their own options are limited. */
  global?: boolean
  /** Default 'onRequest'. */
  hook?: Hook
}

/**
 * The options of the plugin `concurrencyLimit`: those of `spillway/express`. Their functions receive
 * `(request, reply)`.
 */
export interface ConcurrencyLimitOptions extends ConcurrencyOptions<FastifyArgs> {
  /** Default 'onRequest'. */
  hook?: Hook
}

/** The options of the plugin `shed`. */
export interface ShedOptions extends ShedGateOptions<FastifyRequest> {
  /** Default 'onRequest'. */
  hook?: Hook
}

const HOOKS: readonly Hook[] = ['onRequest', 'preParsing', 'preValidation', 'preHandler']

/**
 * A plugin for Fastify 4 and 5. It limits the routes of the context in which it is registered and of child contexts,
 * regardless of the order of declarations, and requests without a route. If several plugins apply to a route with its
 * own options, these replace the limit of the nearest plugin, and the limits of the others still hold. `register`
 * rejects if an option is wrong: `PolicyError`, or `CostError` for a constant cost; so does a route declared later
 * whose own options are wrong.
 */
export const rateLimit: FastifyPluginCallback<RateLimitOptions> = plugin('rateLimit', (instance, options) => {
  const { global = true, hook, ...all } = options
  checkFlag(global, 'rateLimit: global')
  const limits = new RouteLimits(all, frameworkOf())
  const everywhere = global ? limits.everywhere() : undefined
  const limit: PluginLimit = {
    hook,
    limits,
    everywhere,
    gates: new WeakMap(),
    answer(request, reply) {
      const { config } = request.routeOptions
      const own = config?.rateLimit
      if (own === false) return PASS
      if (own !== undefined && getOrMake(NEAREST, config, () => nearestTo(request.server)) === limit) {
        return gateOf(limit, config, own).answer(request, reply)
      }
      return everywhere === undefined ? PASS : everywhere.answer(request, reply)
    },
  }
  if (!PLUGINS.has(instance)) PLUGINS.set(instance, limit)
  // Routes declared earlier are examined at their first request.
  instance.addHook('onRoute', function ({ config, method, url }) {
    if (config?.rateLimit && nearestTo(this) === limit) gateOf(limit, { method, url }, config.rateLimit)
  })
  if (!instance.hasRequestDecorator('rateLimit')) instance.decorateRequest('rateLimit', undefined)
  if (!instance.hasDecorator('rateLimit')) {
    instance.decorate('rateLimit', routeHook as never)
    instance.decorate('rateLimiter', { getter: rateLimiterOf } as never)
  }
  return limit
})

export default rateLimit

type FastifyGate = RateLimitGate<FastifyRequest, FastifyReply, FastifyArgs>

/** The limits of one `rateLimit` plugin. */
interface PluginLimit extends Limit {
  readonly limits: RouteLimits<FastifyRequest, FastifyReply, FastifyArgs>
  readonly everywhere: FastifyGate | undefined
  /** Those of routes with options of their own, by the route's config. */
  readonly gates: WeakMap<object, FastifyGate>
}

/** The first `rateLimit` plugin of each context. */
const PLUGINS = new WeakMap<FastifyInstance, PluginLimit>()
/** The plugin that applies a route's own options, by the route's config. */
const NEAREST = new WeakMap<object, PluginLimit | undefined>()

function gateOf({ limits, gates }: PluginLimit, config: object, own: RouteOptions): FastifyGate {
  return getOrMake(gates, config, () => limits.ofRoute([own], routeName(config)))
}

/** `app.rateLimit(options)`: each route that the hook is given to has a limit of its own. */
function routeHook(this: FastifyInstance, options: RouteOptions): RouteHook {
  checkRouteOptions([options], 'app.rateLimit')
  const limits = nearestTo(this)?.limits ?? new RouteLimits({}, frameworkOf())
  const gates = new WeakMap<object, FastifyGate>()
  return (request, reply, done) => {
    const { config } = request.routeOptions
    try {
      pass(
        getOrMake(gates, config, () => limits.ofRoute([options], routeName(config))),
        request,
        reply,
        done,
      )
    } catch (error) {
      done(error as Error)
    }
  }
}

/** `app.rateLimiter` */
function rateLimiterOf(this: FastifyInstance): RateLimiter | undefined {
  return nearestTo(this)?.everywhere?.only
}

/** The plugin of the innermost context that has one. A context inherits from the one around it. */
function nearestTo(instance: FastifyInstance): PluginLimit | undefined {
  for (let context: FastifyInstance | null = instance; context !== null; context = Object.getPrototypeOf(context)) {
    const limit = PLUGINS.get(context)
    if (limit !== undefined) return limit
  }
  return undefined
}

/**
 * A plugin for Fastify 4 and 5 that limits how many requests are inside at once, in the context in which it is
 * registered and its children. `register` rejects if an option is wrong: `PolicyError`.
 */
export const concurrencyLimit: FastifyPluginCallback<ConcurrencyLimitOptions> = plugin(
  'concurrencyLimit',
  (instance, { hook, ...options }) => {
    const gate = new ConcurrencyGate(options, frameworkOf())
    instance.addHook('onClose', () => gate.close())
    return { hook, answer: (request, reply) => gate.answer(request, reply) }
  },
)

/**
 * A plugin for Fastify 4 and 5 that refuses the least important requests first under overload. `register` rejects if an
 * option is wrong: `PolicyError`.
 */
export const shed: FastifyPluginCallback<ShedOptions> = plugin('shed', (_, { hook, ...options }) => {
  const gate = new ShedGate(options, frameworkOf())
  return { hook, answer: (request, reply) => gate.answer(request, reply) }
})

/**
 * The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. Checks its options:
 * `PolicyError`.
 */
export function addressKey(options?: AddressKeyOptions): (request: FastifyRequest) => string | undefined {
  return addressKeyOf(frameworkOf(), options)
}

/** How requests are decided, and when. */
interface Limit extends Gate<FastifyRequest, FastifyReply> {
  readonly hook: Hook | undefined
}

type Done = (error?: Error) => void

function plugin<Options extends object>(
  name: string,
  limitOf: (instance: FastifyInstance, options: Options) => Limit,
): FastifyPluginCallback<Options> {
  const register: FastifyPluginCallback<Options> = (instance, options, done) => {
    try {
      checkIsRegistered(name, instance, done)
      checkVersion(name, instance.version)
      const limit = limitOf(instance, options)
      const { hook = 'onRequest' } = limit
      const decide = (request: FastifyRequest, reply: FastifyReply, done: Done) => pass(limit, request, reply, done)
      if (hook === 'preParsing') instance.addHook(hook, (request, reply, _, done) => decide(request, reply, done))
      else if (HOOKS.includes(hook)) instance.addHook(hook as 'onRequest', decide)
      else throw new PolicyError(`${name}: hook ${shown(hook)}: expected one of ${HOOKS.join(', ')}`)
      done()
    } catch (error) {
      if (typeof done !== 'function') throw error
      done(error as Error)
    }
  }
  // As fastify-plugin does: the hooks apply in the context in which the plugin is registered, not in a context of its
  // own.
  return Object.assign(register, {
    [Symbol.for('skip-override')]: true,
    [Symbol.for('fastify.display-name')]: `spillway ${name}`,
    [Symbol.for('plugin-meta')]: { name: `spillway ${name}` },
  })
}

/** Throws `PolicyError` if a plugin is called by its user, or as a hook. */
function checkIsRegistered(name: string, instance: Partial<FastifyInstance> | undefined, done: unknown): void {
  if (typeof instance?.addHook === 'function' && typeof done === 'function') return
  throw new PolicyError(`${name}: this is a plugin, and was called: register it, like app.register(${name}, { … })`)
}

/** Throws `PolicyError` for a Fastify whose requests do not tell the options of their route. */
function checkVersion(name: string, version: string | undefined): void {
  const [major, minor] = (version ?? '5.0').split('.').map(Number)
  if (major > 4 || (major === 4 && minor >= 29)) return
  throw new PolicyError(
    `${name}: registered in Fastify ${version}: expected Fastify 4.29 or later (npm install fastify@latest)`,
  )
}

function pass(
  limit: Gate<FastifyRequest, FastifyReply>,
  request: FastifyRequest,
  reply: FastifyReply,
  done: Done,
): void {
  let delivered: SyncOrAsync<Delivered>
  try {
    delivered = admit(limit, delivery, request, reply)
  } catch (error) {
    done(error as Error)
    return
  }
  if (isPromise(delivered)) {
    delivered.then(delivered => {
      if (delivered === 'passed') done()
    }, done)
  } else if (delivered === 'passed') done()
}

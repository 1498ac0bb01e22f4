import type { FastifyInstance, FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import type { Decision } from '../core/decision.js'
import { PolicyError, shown } from '../core/errors.js'
import { ConcurrencyGate } from '../http/concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../http/concurrency/options.js'
import type { HttpOptions } from '../http/rate-limit/options.js'
import { type Answer, Guard } from '../http/rate-limit/rate-limit.js'
import { routeOptions } from '../http/rate-limit/route-options.js'
import type { Body } from '../http/refusal.js'
import { type Reply, send } from '../http/reply.js'
import { ShedGate, type ShedOptions as ShedGateOptions } from '../http/shed/shed.js'
import { after, isPromise, type SyncOrAsync } from '../http/sync-or-async.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import { frameworkOf, routeName } from './fastify-request.js'

export type * from '../http/adapter-exports.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
    rateLimit?: Decision
  }
  interface FastifyContextConfig {
    /** The route's own limit, instead of that of the plugin, and with a count of its own unless it sets `name`. false: no limit. */
    rateLimit?: RouteOptions | false
  }
}

/** When a request is decided. `request.body` is there from 'preValidation' on. */
export type Hook = 'onRequest' | 'preParsing' | 'preValidation' | 'preHandler'

/** The options of a route's own limit, in its `config`. What they do not name is as the plugin's options have it. Their functions are given `(request, reply)`. */
export interface RouteOptions extends HttpOptions<FastifyRequest, FastifyReply> {}

/** The options of the plugin `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions are given `(request, reply)`. */
export interface RateLimitOptions extends RouteOptions {
  /** Default true. false: only routes that have options of their own are limited. */
  global?: boolean
  /** Default 'onRequest'. */
  hook?: Hook
}

/** The options of the plugin `concurrencyLimit`: those of `spillway/express`. Their functions are given `(request, reply)`. */
export interface ConcurrencyLimitOptions extends ConcurrencyOptions<FastifyRequest, FastifyReply> {
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
 * A plugin for Fastify 4 and 5. It limits the routes of the context that it is registered in and of its children, wherever they are declared, and requests that find no route.
 * `register` rejects if an option is wrong: `PolicyError`, or `CostError` for a constant cost; so does a route that is declared later, with wrong options of its own.
 */
export const rateLimit: FastifyPluginCallback<RateLimitOptions> = plugin('rateLimit', (instance, options) => {
  const { global = true, hook, ...all } = options
  if (typeof global !== 'boolean') throw new PolicyError(`rateLimit: global ${shown(global)}: expected true or false`)
  const framework = frameworkOf()
  // One for all routes, so that those of one name count together.
  if (all.limiter === undefined) all.store ??= new MemoryStore()
  const everywhere = global ? new Guard(all, framework) : undefined
  const guards = new WeakMap<object, Guard<FastifyRequest, FastifyReply>>()
  const guardOf = (config: object, own: RouteOptions) => {
    let guard = guards.get(config)
    if (guard === undefined) {
      guard = new Guard(routeOptions(all, own, routeName(config)), framework)
      guards.set(config, guard)
    }
    return guard
  }
  // Routes that were declared before are looked at when they are asked for.
  instance.addHook('onRoute', ({ config, method, url }) => {
    if (config?.rateLimit) guardOf({ method, url }, config.rateLimit)
  })
  if (!instance.hasRequestDecorator('rateLimit')) instance.decorateRequest('rateLimit', undefined)
  return {
    hook,
    answer(request, reply) {
      const { config } = request.routeOptions
      const own = config?.rateLimit
      if (own === undefined) return everywhere?.answer(request, reply)
      // Of several plugins the first sees to a route that has its own limit.
      if (own === false || LIMITED.has(request)) return undefined
      LIMITED.add(request)
      return guardOf(config, own).answer(request, reply)
    },
  }
})

export default rateLimit

/** Requests to which the limit of their own route has been applied. */
const LIMITED = new WeakSet<FastifyRequest>()

/** A plugin for Fastify 4 and 5: how many requests may be inside at once, in the context that it is registered in and its children. `register` rejects if an option is wrong: `PolicyError`. */
export const concurrencyLimit: FastifyPluginCallback<ConcurrencyLimitOptions> = plugin(
  'concurrencyLimit',
  (instance, { hook, ...options }) => {
    const gate = new ConcurrencyGate(options, frameworkOf())
    instance.addHook('onClose', () => gate.close())
    return { hook, answer: (request, reply) => gate.answer(request, reply) }
  },
)

/** A plugin for Fastify 4 and 5: refuses the least important requests first while there is too much to do. `register` rejects if an option is wrong: `PolicyError`. */
export const shed: FastifyPluginCallback<ShedOptions> = plugin('shed', (_, { hook, ...options }) => {
  const gate = new ShedGate(options, frameworkOf())
  return { hook, answer: request => gate.answer(request) }
})

/** When requests are decided, and how; undefined: the request is not concerned. */
interface Limit {
  readonly hook: Hook | undefined
  answer(request: FastifyRequest, reply: FastifyReply): SyncOrAsync<Answer> | undefined
}

type Done = (error?: Error) => void

function plugin<Options extends object>(
  name: string,
  limitOf: (instance: FastifyInstance, options: Options) => Limit,
): FastifyPluginCallback<Options> {
  const register: FastifyPluginCallback<Options> = (instance, options, done) => {
    try {
      const limit = limitOf(instance, options)
      const { hook = 'onRequest' } = limit
      const decide = (request: FastifyRequest, reply: FastifyReply, done: Done) => pass(limit, request, reply, done)
      if (hook === 'preParsing') instance.addHook(hook, (request, reply, _, done) => decide(request, reply, done))
      else if (HOOKS.includes(hook)) instance.addHook(hook as 'onRequest', decide)
      else throw new PolicyError(`${name}: hook ${shown(hook)}: expected one of ${HOOKS.join(', ')}`)
      done()
    } catch (error) {
      done(error as Error)
    }
  }
  // What fastify-plugin does: the hooks hold in the context that the plugin is registered in, not in one of its own.
  return Object.assign(register, {
    [Symbol.for('skip-override')]: true,
    [Symbol.for('fastify.display-name')]: `spillway ${name}`,
    [Symbol.for('plugin-meta')]: { name: `spillway ${name}`, fastify: '>=4' },
  })
}

function pass(limit: Limit, request: FastifyRequest, reply: FastifyReply, done: Done): void {
  let passed: SyncOrAsync<boolean>
  try {
    const answer = limit.answer(request, reply)
    passed = answer === undefined || after(answer, answer => give(answer, request, reply))
  } catch (error) {
    done(error as Error)
    return
  }
  if (isPromise(passed)) {
    passed.then(passed => {
      if (passed) done()
    }, done)
  } else if (passed) done()
}

/** True if the request is to be passed on. */
function give(answer: Answer, request: FastifyRequest, reply: FastifyReply): SyncOrAsync<boolean> {
  const { decision, fields, refusal, gone } = answer
  if (gone) return false
  if (decision) request.rateLimit = decision
  const { headersSent } = reply.raw
  if (!headersSent) for (const name in fields) reply.header(name, fields[name])
  if (refusal === undefined) return true
  return headersSent ? false : after(refuse(refusal, reply), () => false)
}

function refuse(reply: Reply, to: FastifyReply): SyncOrAsync<void> {
  const { statusCode } = to
  to.code(reply.status)
  const write = ({ type, text }: Body) => {
    if (to.sent) return
    // Fastify adds a charset to the type of every text that is JSON; problem details have none.
    to.type(type).send(type.includes('charset') ? text : Buffer.from(text))
  }
  // Fastify answers an error with the status of the reply, if that is one of an error.
  const undo = () => {
    if (!to.sent) to.code(statusCode).removeHeader('retry-after')
  }
  return send(reply, write, undo)
}

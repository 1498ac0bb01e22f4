import type { Context, MiddlewareHandler, Next } from 'hono'
import type { Decision } from '../core/decision.js'
import { PolicyError, shown } from '../core/errors.js'
import { addressKeyOf } from '../http/address/client.js'
import type { AddressKeyOptions } from '../http/address/client-options.js'
import { type ConcurrencyControls, ConcurrencyGate } from '../http/concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../http/concurrency/options.js'
import { deliver, type Gate } from '../http/delivery.js'
import type { Fields } from '../http/headers.js'
import { checkCaller } from '../http/mounting.js'
import type { HttpOptions } from '../http/rate-limit/options.js'
import { Guard, type Limiters } from '../http/rate-limit/rate-limit.js'
import { ShedGate, type ShedOptions } from '../http/shed.js'
import { after, isPromise } from '../http/sync-or-async.js'
import { failed, gone, hono, keepRefusal, lookAt, refused, replace, returned } from './hono-context.js'

export type * from '../http/adapter-exports.js'
export type { ShedOptions } from '../http/shed.js'

declare module 'hono' {
  interface ContextVariableMap {
    /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
    rateLimit: Decision | undefined
  }
}

/**
 * The options of `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions receive the context twice, in place of request and response.
 * `handler` returns the response. `settle` is called when the response has been passed to Node, or, on other runtimes, when its body has been read to its end or cancelled.
 */
export interface RateLimitOptions extends HttpOptions<Context, Context> {
  /** Returns the refusal instead of the default one: a response, like any Hono handler. Status and header fields are set on the context before, and the decision is stored there. */
  handler?: (c: Context, same: Context, decision: Decision) => Response | Promise<Response>
}

/** The middleware that `rateLimit` returns, with its limiter. */
export interface RateLimit extends MiddlewareHandler, Limiters {}

/** Middleware for Hono 3.12 and 4. Checks its options: `PolicyError`, or `CostError` for a constant cost. */
export function rateLimit(options: RateLimitOptions = {}): RateLimit {
  const guard = new Guard(looking(returning('rateLimit', options)), hono)
  return guard.equip(middlewareOf(guard, 'rateLimit'))
}

/** The options of `concurrencyLimit`: those of `spillway/express`. Their functions receive the context twice. */
export interface ConcurrencyLimitOptions extends ConcurrencyOptions<Context, Context> {
  /** Returns the refusal instead of the default one: a response, like any Hono handler. Status and Retry-After are set on the context before. */
  handler?: (c: Context, same: Context) => Response | Promise<Response>
}

/** The middleware that `concurrencyLimit` returns. */
export interface ConcurrencyLimit extends MiddlewareHandler, ConcurrencyControls {}

/** Middleware for Hono 3.12 and 4 that limits how many requests are inside at once; a request is inside until its response has been passed to Node, or, on other runtimes, until its body has been read. Checks its options: `PolicyError`. */
export function concurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const gate = new ConcurrencyGate(returning('concurrencyLimit', options), hono)
  return Object.assign(middlewareOf(gate, 'concurrencyLimit'), { close: () => gate.close() })
}

/** Middleware for Hono 3.12 and 4 that refuses the least important requests first under overload. Checks its options: `PolicyError`. */
export function shed(options: ShedOptions<Context>): MiddlewareHandler {
  return middlewareOf(new ShedGate(options, hono), 'shed')
}

/** The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. Checks its options: `PolicyError`. */
export function addressKey(options?: AddressKeyOptions): (c: Context) => string | undefined {
  return addressKeyOf(hono, options)
}

/** The options with a handler whose response is stored, so that the middleware can return it. */
function returning<Options extends { handler?: (...given: never[]) => unknown }>(
  user: string,
  options: Options,
): Options {
  const handler: unknown = options?.handler
  if (typeof handler !== 'function') return options
  const keep = (c: Context, response: unknown) => {
    if (!(response instanceof Response)) {
      throw new PolicyError(`${user}: handler returned ${shown(response)}: expected a Response, like c.text("busy")`)
    }
    keepRefusal(c, response)
  }
  const own = (c: Context, ...others: unknown[]) =>
    after(handler(c, ...others) as unknown, response => keep(c, response))
  return { ...options, handler: own }
}

function middlewareOf(gate: Gate<Context, Context>, user: string): MiddlewareHandler {
  let isRight = false
  return (c: Context, next: Next, third?: unknown) => {
    if (!isRight) {
      isRight = checkCaller('hono', user, c, next, third)
      if (!isRight) return undefined as never
    }
    return limited(gate, c, next)
  }
}

/** The options with a `settle` that sees the response that was sent. */
function looking(options: RateLimitOptions): RateLimitOptions {
  const settle: unknown = options?.settle
  if (typeof settle !== 'function') return options
  return { ...options, settle: (c, same, end) => lookAt(c, end, () => settle(c, same, end) as number) }
}

async function limited(
  gate: Gate<Context, Context>,
  c: Context,
  next: () => Promise<void>,
): Promise<Response | undefined> {
  const given = gate.answer(c, c)
  const answer = isPromise(given) ? await given : given
  const delivering = deliver(answer, hono, c, c)
  const delivered = isPromise(delivering) ? await delivering : delivering
  if (delivered !== 'passed') return delivered === 'gone' ? gone(c) : refused(c)
  const { raw } = c.req
  try {
    await next()
  } catch (error) {
    failed(c)
    throw error
  }
  keepFields(answer.fields, c)
  returned(raw, c)
  return undefined
}

/** A response that the context did not create (from `fetch`, or `new Response`) lacks the fields that were set on the context. */
function keepFields(fields: Fields, c: Context): void {
  const { headers } = c.res
  let last = ''
  for (const name in fields) last = name
  // A response that the context created has all of them.
  if (last === '' || headers.get(last) === fields[last]) return
  const keep = () => {
    for (const name in fields) if (!c.res.headers.has(name)) c.header(name, fields[name])
  }
  try {
    keep()
  } catch {
    // A response of `fetch` is immutable, and Hono 3 does not copy it.
    replace(new Response(c.res.body, c.res), c)
    keep()
  }
}

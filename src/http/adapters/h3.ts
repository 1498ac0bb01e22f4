import type { H3Event, Middleware } from 'h3'
import type { Decision } from '../../limiter/core/decision.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { type AddressKeyOptions, addressKeyOf, type BunServer, nodePeer, webPeer } from '../address/client.js'
import { type ConcurrencyControls, ConcurrencyGate } from '../concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../concurrency/options.js'
import { admit, type Delivery, type Framework, type Gate } from '../framework.js'
import { checkCaller, hasAll } from '../misuse.js'
import type { NodeResponse } from '../node-response.js'
import type { HttpOptions } from '../rate-limit/options.js'
import { type LimiterAccess, RateLimitGate } from '../rate-limit/rate-limit.js'
import { ShedGate, type ShedOptions } from '../shed.js'
import { after, isPromise } from '../sync-or-async.js'
import { followResponse, knownReturned, returnsNothing, watchReturned } from '../web-response.js'

/** What `next` gives, and h3 answers with 404, if no handler has matched. */
const NOT_FOUND = Symbol.for('h3.notFound')
/** A mark of what its own helpers return. */
const HTTP_RESPONSE = Symbol.for('h3.HTTPResponse')
/** What the middleware returns for a refusal. */
const REFUSALS = new WeakMap<H3Event, unknown>()
/** The status of the answer, for runtimes that do not tell it. */
const STATUSES = new WeakMap<H3Event, number>()

const h3: Framework<H3Event, H3Event, [event: H3Event]> & Delivery<H3Event, H3Event> = {
  name: 'h3',
  args: event => [event],
  address: (event, peer) => event.req.ip || peer,
  peer: peerOf,
  // The option trustProxy of the server is not told, only the address that it leads to.
  trust: event => ((event.req.ip || '') === peerOf(event) ? 'nobody' : 'some'),
  requestHeader: (event, name) => event.req.headers.get(name) ?? undefined,
  watch: event => watchReturned(event.req, outgoingOf(event)),
  leaveDecision(event, decision) {
    event.context.rateLimit = decision
  },
  // A response is returned, not sent.
  isSent: () => false,
  setFields(event, fields) {
    for (const to of fieldsOf(event)) for (const name in fields) to.set(name, fields[name])
  },
  removeField(event, name) {
    for (const from of fieldsOf(event)) from.delete(name)
  },
  status: event => event.res.status as number,
  setStatus(event, status) {
    event.res.status = status
  },
  write(event, { type, text }) {
    event.res.headers.set('content-type', type)
    REFUSALS.set(event, text)
  },
}

/** The address of the connection; '' if the runtime does not report it; undefined: the client has gone. */
function peerOf({ req }: H3Event): string | undefined {
  const { node, deno, bun } = req.runtime ?? {}
  if (node !== undefined) return nodePeer(node.req)
  return webPeer(req, deno?.info?.remoteAddr.hostname ?? req.ip, bun?.server as BunServer | undefined)
}

/** Where the header fields of what is answered come from: errors, and what Node itself writes, have others. */
function fieldsOf(event: H3Event): Iterable<Pick<Headers, 'set' | 'delete'>> {
  const { headers, errHeaders } = event.res
  const outgoing = outgoingOf(event)
  if (outgoing === undefined) return [headers, errHeaders]
  if (outgoing.headersSent) return []
  return [
    headers,
    { set: (name, value) => outgoing.setHeader(name, value), delete: name => outgoing.removeHeader(name) },
  ]
}

/** The response of Node to which the runtime will write what is returned. */
function outgoingOf({ req }: H3Event): NodeResponse | undefined {
  return req.runtime?.node?.res as NodeResponse | undefined
}

/** The handlers have returned what is to be answered. `asked`: the request as the limiter saw it. */
function answered(event: H3Event, asked: Request, value: unknown): unknown {
  const outgoing = outgoingOf(event)
  const watch = knownReturned(asked, outgoing)
  if (watch === undefined) return value
  STATUSES.set(event, value === NOT_FOUND ? 404 : (statusOf(value) ?? event.res.status ?? 200))
  if (outgoing === undefined && asked.method !== 'HEAD') return followed(value, asked)
  returnsNothing(asked, outgoing)
  return value
}

/** The status of what h3 does not send as a body. */
function statusOf(value: unknown): number | undefined {
  if (value instanceof Error) return (value as { status?: number }).status ?? 500
  return value instanceof Response || hasAll(value, HTTP_RESPONSE) ? (value as Response).status : undefined
}

/** The same to answer, whose body reports its end if it is read piece by piece. */
function followed(value: unknown, asked: Request): unknown {
  if (value instanceof Response) return followResponse(value, asked)
  if (value instanceof ReadableStream) return followResponse(new Response(value), asked).body
  const own = value as { body?: unknown }
  if (hasAll(value, HTTP_RESPONSE) && own.body instanceof ReadableStream) own.body = followed(own.body, asked)
  else returnsNothing(asked, undefined)
  return value
}

async function limited(gate: Gate<H3Event, H3Event>, event: H3Event, next: () => unknown): Promise<unknown> {
  const admitted = admit(gate, h3, event, event)
  const delivered = isPromise(admitted) ? await admitted : admitted
  const { req } = event
  if (delivered !== 'passed') return answered(event, req, REFUSALS.get(event) ?? null)
  let value: unknown
  try {
    value = await next()
  } catch (error) {
    STATUSES.set(event, statusOf(error) ?? 500)
    returnsNothing(req, outgoingOf(event))
    throw error
  }
  return answered(event, req, value)
}

export type * from '../adapter-exports.js'
export { clientAddress } from '../address/client.js'
export type { ShedOptions } from '../shed.js'

declare module 'h3' {
  interface H3EventContext {
    /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
    rateLimit?: Decision
  }
}

/**
 * The options of `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions
 * receive `(event)`; `message` receives `(event, decision)`, and so does `handler`, whose result is answered, like that
 * of a handler of h3; `settle` receives `(event, end)`, and finds the status that was answered in `event.res.status`.
 */
export interface RateLimitOptions extends HttpOptions<[event: H3Event]> {}

/** The middleware that `rateLimit` returns, with its limiter. */
export interface RateLimit extends Middleware, LimiterAccess {}

/**
 * Middleware for h3 2 and Nitro 3: for `app.use` or for the `middleware` of a route. Checks its options: `PolicyError`,
 * or `CostError` for a constant cost.
 */
export function rateLimit(options: RateLimitOptions = {}): RateLimit {
  const gate = RateLimitGate.of(looking(returning('rateLimit', options)), h3)
  return gate.equip(middlewareOf(gate, 'rateLimit'))
}

export default rateLimit

/**
 * The options of `concurrencyLimit`: those of `spillway/express`. Their functions receive `(event)`; the result of
 * `handler` is answered.
 */
export interface ConcurrencyLimitOptions extends ConcurrencyOptions<[event: H3Event]> {}

/** The middleware that `concurrencyLimit` returns. */
export interface ConcurrencyLimit extends Middleware, ConcurrencyControls {}

/**
 * Middleware for h3 2 and Nitro 3 that limits how many requests are inside at once; a request is inside until its
 * response has been passed to Node, or, on other runtimes, until its body has been read. Checks its options:
 * `PolicyError`.
 */
export function concurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const gate = new ConcurrencyGate(returning('concurrencyLimit', options), h3)
  return gate.equip(middlewareOf(gate, 'concurrencyLimit'))
}

/**
 * Middleware for h3 2 and Nitro 3 that refuses the least important requests first under overload. Checks its options:
 * `PolicyError`.
 */
export function shed(options: ShedOptions<H3Event>): Middleware {
  return middlewareOf(new ShedGate(options, h3), 'shed')
}

/**
 * The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. Checks its options:
 * `PolicyError`.
 */
export function addressKey(options?: AddressKeyOptions): (event: H3Event) => string | undefined {
  return addressKeyOf(h3, options)
}

/** The options with a handler whose result is stored, so that the middleware can return it. */
function returning<Options extends { handler?: (...given: never[]) => unknown }>(user: string, options: Options) {
  const handler: unknown = options?.handler
  if (typeof handler !== 'function') return options
  const keep = (event: H3Event, refusal: unknown) => {
    // h3 would go on to the next handler.
    if (refusal === undefined || refusal === NOT_FOUND) {
      throw new PolicyError(`${user}: handler returned ${shown(refusal)}: expected a response, like "busy"`)
    }
    REFUSALS.set(event, refusal)
  }
  const own = (event: H3Event, ...others: unknown[]) =>
    after(handler(event, ...others) as unknown, refusal => keep(event, refusal))
  return { ...options, handler: own }
}

/** The options with a `settle` that finds the status that was answered; h3 has forgotten it by then. */
function looking(options: RateLimitOptions): RateLimitOptions {
  const settle: unknown = options?.settle
  if (typeof settle !== 'function') return options
  const own: RateLimitOptions['settle'] = (event, end) => {
    const outgoing = outgoingOf(event)
    const status = outgoing?.headersSent ? outgoing.statusCode : STATUSES.get(event)
    if (end.ended && status !== undefined) event.res.status = status
    return settle(event, end)
  }
  return { ...options, settle: own }
}

function middlewareOf(gate: Gate<H3Event, H3Event>, user: string): Middleware {
  let isRight = false
  // h3 tells middleware from handlers by its two parameters.
  return (event, next, ...[third]: unknown[]) => {
    if (!isRight) {
      isRight = checkCaller('h3', user, hasAll(event, 'req', 'context'), third)
      if (!isRight) return undefined
      if (typeof next !== 'function') {
        throw new PolicyError(
          `${user}: called without a function next, as by h3 1 or as a handler: expected to be middleware of h3 2, ` +
            `like app.use(${user}({ … }))`,
        )
      }
    }
    return limited(gate, event, next)
  }
}

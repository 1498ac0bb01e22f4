import type { Context, MiddlewareHandler, Next } from 'hono'
import type { Decision } from '../../limiter/core/decision.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import {
  type AddressKeyOptions,
  addressKeyOf,
  type BunServer,
  type FromNode,
  nodePeer,
  webPeer,
} from '../address/client.js'
import { type ConcurrencyControls, ConcurrencyGate } from '../concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../concurrency/options.js'
import { type Delivery, deliver, type Framework, type Gate } from '../framework.js'
import type { Fields } from '../headers.js'
import { checkCaller, hasAll } from '../misuse.js'
import type { NodeResponse } from '../node-response.js'
import type { HttpOptions } from '../rate-limit/options.js'
import { type LimiterAccess, RateLimitGate } from '../rate-limit/rate-limit.js'
import type { ResponseEnd } from '../response-watch.js'
import { ShedGate, type ShedOptions } from '../shed.js'
import { after, isPromise } from '../sync-or-async.js'
import { bodyUnder, followResponse, knownReturned, returnsNothing, watchReturned } from '../web-response.js'

/** What Hono's runtimes report about a connection, in `c.env`. */
interface Bindings extends Partial<BunServer> {
  /** @hono/node-server */
  readonly incoming?: FromNode & { readonly headers: Record<string, string | string[] | undefined> }
  readonly outgoing?: NodeResponse
  /** Deno */
  readonly remoteAddr?: { readonly hostname?: string }
  /** Bun, or one of the above in `server` */
  readonly server?: Bindings
}

/**
 * The responses that requests get from others than their handlers: refusals, and the answers to errors that nobody has
 * handled yet.
 */
const STAND_INS = new WeakMap<Context, Response>()

/** Stores the response that the middleware returns for a refusal. */
function keepRefusal(c: Context, response: Response): void {
  STAND_INS.set(c, response)
}

/** The response of a refusal; an empty one if nothing was written. */
function refused(c: Context): Response {
  returnsNothing(c.req.raw, outgoingOf(c))
  return STAND_INS.get(c) ?? c.body(null)
}

/** No handler runs, because the client has gone. */
function gone(c: Context): Response {
  knownReturned(c.req.raw, outgoingOf(c))?.end()
  return c.body(null)
}

/** The handlers have failed, and nobody within the limiter has answered for them. */
function failed(c: Context): void {
  STAND_INS.set(c, new Response(null, { status: 500 }))
  returnsNothing(c.req.raw, outgoingOf(c))
}

/**
 * The handlers have returned a response. Node tells what becomes of it; for other runtimes its body is followed.
 * `asked`: the request as the limiter saw it.
 */
function returned(asked: Request, c: Context): void {
  const outgoing = outgoingOf(c)
  const watch = knownReturned(asked, outgoing)
  if (outgoing !== undefined) watch?.handOver()
  if (outgoing !== undefined || watch === undefined) return
  // A server neither reads nor cancels the body of a response to HEAD.
  if (c.req.method === 'HEAD') watch.end()
  const followed = followResponse(c.res, asked)
  if (followed !== c.res) replace(followed, c)
}

/**
 * Calls a function that looks at the response of a request that has ended. A context that was given none shows the one
 * that was sent for it.
 */
function lookAt<Result>(c: Context, { ended }: ResponseEnd, look: () => Result): Result {
  if (!ended || c.finalized) return look()
  const outgoing = outgoingOf(c)
  const status = outgoing?.headersSent ? outgoing.statusCode : STAND_INS.get(c)?.status
  if (status === undefined) return look()
  const { res } = c
  replace(new Response(null, { status, headers: res.headers }), c)
  try {
    return look()
  } finally {
    replace(res, c)
    c.finalized = false
  }
}

/** Hono would otherwise add the fields of the previous response. */
function replace(response: Response, c: Context): void {
  c.res = undefined
  c.res = response
}

const hono: Framework<Context, Context, [c: Context]> & Delivery<Context, Context> = {
  name: 'Hono',
  args: c => [c],
  address: (_, peer) => peer,
  peer: peerOf,
  trust: () => 'nobody',
  requestHeader: headerOf,
  watch: c => watchReturned(c.req.raw, outgoingOf(c)),
  leaveDecision: (c, decision) => c.set('rateLimit', decision),
  // A response is returned, not sent.
  isSent: () => false,
  setFields(c, fields) {
    for (const name in fields) c.header(name, fields[name])
  },
  removeField: (c, name) => c.header(name, undefined),
  // The context does not tell the status of a response that does not exist yet.
  status: () => 200,
  setStatus: (c, status) => c.status(status as 200),
  write(c, { type, text }, _, status) {
    // Hono 3 gives a response the status of the context only if the call has no options.
    c.header('Content-Type', type)
    keepRefusal(c, c.body(bodyUnder(status, text) as string))
  },
}

/** The address of the connection; '' if the runtime does not report it; undefined: the client has gone. */
function peerOf(c: Context): string | undefined {
  const env = c.env as Bindings | undefined
  const incoming = incomingOf(c)
  if (incoming !== undefined) return nodePeer(incoming)
  const server = env?.server ?? env
  return webPeer(c.req.raw, server?.remoteAddr?.hostname, server)
}

/** Node has parsed the fields already; Hono would copy all to return one. */
function headerOf(c: Context, name: string): string | undefined {
  const incoming = incomingOf(c)
  return incoming === undefined ? c.req.header(name) : (incoming.headers[name] as string | undefined)
}

function incomingOf({ env }: Context): Bindings['incoming'] {
  return (env as Bindings | undefined)?.incoming ?? (env as Bindings | undefined)?.server?.incoming
}

/** The response of Node to which the runtime will write that of the context. */
function outgoingOf({ env }: Context): NodeResponse | undefined {
  return (env as Bindings | undefined)?.outgoing ?? (env as Bindings | undefined)?.server?.outgoing
}

export type * from '../adapter-exports.js'
export { clientAddress } from '../address/client.js'
export type { ShedOptions } from '../shed.js'

declare module 'hono' {
  interface ContextVariableMap {
    /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
    rateLimit: Decision | undefined
  }
}

/**
 * The options of `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions
 * receive `(c)`; `handler` and `message` receive `(c, decision)`, and `settle` receives `(c, end)`: it is called when
 * the response has been passed to Node, or, on other runtimes, when its body has been read to its end or cancelled.
 */
export interface RateLimitOptions extends HttpOptions<[c: Context]> {
  /**
   * Returns the refusal instead of the default one: a response, like `c => c.text('busy')`. Status and header fields
   * are set on the context before, and the decision is stored there.
   */
  handler?: (c: Context, decision: Decision) => Response | Promise<Response>
}

/** The middleware that `rateLimit` returns, with its limiter. */
export interface RateLimit extends MiddlewareHandler, LimiterAccess {}

/** Middleware for Hono 3.12 and 4. Checks its options: `PolicyError`, or `CostError` for a constant cost. */
export function rateLimit(options: RateLimitOptions = {}): RateLimit {
  const gate = RateLimitGate.of(looking(returning('rateLimit', options)), hono)
  return gate.equip(middlewareOf(gate, 'rateLimit'))
}

export default rateLimit

/** The options of `concurrencyLimit`: those of `spillway/express`. Their functions receive `(c)`. */
export interface ConcurrencyLimitOptions extends ConcurrencyOptions<[c: Context]> {
  /**
   * Returns the refusal instead of the default one: a response, like `c => c.text('busy')`. Status and Retry-After are
   * set on the context before.
   */
  handler?: (c: Context) => Response | Promise<Response>
}

/** The middleware that `concurrencyLimit` returns. */
export interface ConcurrencyLimit extends MiddlewareHandler, ConcurrencyControls {}

/**
 * Middleware for Hono 3.12 and 4 that limits how many requests are inside at once; a request is inside until its
 * response has been passed to Node, or, on other runtimes, until its body has been read. Checks its options:
 * `PolicyError`.
 */
export function concurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const gate = new ConcurrencyGate(returning('concurrencyLimit', options), hono)
  return gate.equip(middlewareOf(gate, 'concurrencyLimit'))
}

/**
 * Middleware for Hono 3.12 and 4 that refuses the least important requests first under overload. Checks its options:
 * `PolicyError`.
 */
export function shed(options: ShedOptions<Context>): MiddlewareHandler {
  return middlewareOf(new ShedGate(options, hono), 'shed')
}

/**
 * The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. Checks its options:
 * `PolicyError`.
 */
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
      isRight = checkCaller('hono', user, hasAll(c, 'req', 'env') && !hasAll(c, 'request'), third)
      if (!isRight) return undefined as never
      if (c.req.raw === undefined) {
        throw new PolicyError(
          `${user}: called by Hono 2 or earlier: expected Hono 3.12 or later (npm install hono@latest)`,
        )
      }
    }
    return limited(gate, c, next)
  }
}

/** The options with a `settle` that sees the response that was sent. */
function looking(options: RateLimitOptions): RateLimitOptions {
  const settle: unknown = options?.settle
  if (typeof settle !== 'function') return options
  return { ...options, settle: (c, end) => lookAt(c, end, () => settle(c, end) as number) }
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

/**
 * A response that the context did not create (from `fetch`, or `new Response`) lacks the fields that were set on the
 * context.
 */
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

import type { Context, Next } from 'koa'
import type { Decision } from '../../limiter/core/decision.js'
import { PolicyError } from '../../limiter/core/errors.js'
import { type AddressKeyOptions, addressKeyOf, nodePeer } from '../address/client.js'
import { type ConcurrencyControls, ConcurrencyGate } from '../concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../concurrency/options.js'
import { admit, type Delivery, type Framework, type Gate, type Trust } from '../framework.js'
import { checkCaller, hasAll } from '../misuse.js'
import { setNodeFields } from '../node-delivery.js'
import { watchResponse } from '../node-response.js'
import type { HttpOptions } from '../rate-limit/options.js'
import { type LimiterAccess, RateLimitGate } from '../rate-limit/rate-limit.js'
import type { ResponseWatch } from '../response-watch.js'
import { ShedGate, type ShedOptions } from '../shed.js'
import { isPromise } from '../sync-or-async.js'

/** Watched contexts whose handler is running. */
const AT_WORK = new WeakSet<Context>()

/**
 * The watch of a context's response. Once the client has gone, Koa 2 does not end a response, and neither Koa 2 nor Koa
 * 3 answers an error: without this, `settle` would not learn the outcome of an aborted request, and its place would
 * stay taken.
 */
function watchContext(ctx: Context): ResponseWatch {
  return watchResponse(ctx.res, watch => {
    endOnReturn(ctx)
    answerErrors(ctx, watch)
  })
}

/**
 * Koa reads `ctx.respond` when all middleware has returned. Ends a response without a client, as Koa 3 does by itself.
 */
function endOnReturn(ctx: Context): void {
  let { respond } = ctx
  Object.defineProperty(ctx, 'respond', {
    configurable: true,
    enumerable: true,
    get() {
      if (respond !== false && !ctx.writable) ctx.res.end()
      return respond
    },
    set(value: boolean | undefined) {
      respond = value
    },
  })
}

/**
 * Koa calls `ctx.onerror` when the middleware has failed; also when the connection fails while a handler is still
 * running.
 */
function answerErrors(ctx: Context, watch: ResponseWatch): void {
  const { onerror } = ctx
  AT_WORK.add(ctx)
  ctx.onerror = error => {
    if (error === null || error === undefined || AT_WORK.has(ctx) || isOfConnection(error, ctx)) {
      return onerror.call(ctx, error)
    }
    // Koa sets the status and ends the response only if it believes that there is a client.
    const unheard = !ctx.headerSent && !ctx.writable
    if (unheard) Object.defineProperty(ctx, 'writable', { configurable: true, value: true })
    onerror.call(ctx, error)
    if (unheard) Reflect.deleteProperty(ctx, 'writable')
    // Nor does Koa end a response whose header was sent.
    if (ctx.headerSent && !watch.gone) watch.end(false)
  }
}

/** The middleware behind the limiter has returned or failed: later errors come from the middleware. */
function middlewareReturned(ctx: Context): void {
  AT_WORK.delete(ctx)
}

function isOfConnection(error: Error, { req, res }: Context): boolean {
  const { stream } = res as { stream?: { errored?: Error | null } }
  return error === req.socket?.errored || error === stream?.errored
}

export type * from '../adapter-exports.js'
export { clientAddress } from '../address/client.js'
export type { ShedOptions } from '../shed.js'

/** What the middleware stores in `ctx.state`, for `new Koa<RateLimitState>()`. */
export interface RateLimitState {
  /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
  rateLimit?: Decision
}

/**
 * The options of `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions
 * receive `(ctx)`; `handler` and `message` receive `(ctx, decision)`, and `settle` receives `(ctx, end)`.
 */
export interface RateLimitOptions extends HttpOptions<[ctx: Context]> {}

/** The middleware that `rateLimit` returns, with its limiter. */
export interface RateLimit extends LimiterAccess {
  /** Decides the request, then passes it on, lets it wait, defers it or refuses it. */
  (ctx: Context, next: Next): Promise<void>
}

/**
 * Middleware for Koa 2 and 3. Checks its options: `PolicyError`, or `CostError` for a constant cost.
 */
export function rateLimit(options: RateLimitOptions = {}): RateLimit {
  const gate = RateLimitGate.of(options, koa)
  return gate.equip(middlewareOf(gate, 'rateLimit'))
}

export default rateLimit

/** The options of `concurrencyLimit`: those of `spillway/express`. Their functions receive `(ctx)`. */
export interface ConcurrencyLimitOptions extends ConcurrencyOptions<[ctx: Context]> {}

/** The middleware that `concurrencyLimit` returns. */
export interface ConcurrencyLimit extends ConcurrencyControls {
  /** Gives the request a place, lets it wait for one, or refuses it. */
  (ctx: Context, next: Next): Promise<void>
}

/** Middleware for Koa 2 and 3 that limits how many requests are inside at once. Checks its options: `PolicyError`. */
export function concurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const gate = new ConcurrencyGate(options, koa)
  return gate.equip(middlewareOf(gate, 'concurrencyLimit'))
}

/**
 * Middleware for Koa 2 and 3 that refuses the least important requests first under overload. Checks its options:
 * `PolicyError`.
 */
export function shed(options: ShedOptions<Context>): (ctx: Context, next: Next) => Promise<void> {
  return middlewareOf(new ShedGate(options, koa), 'shed')
}

function middlewareOf(gate: Gate<Context, Context>, user: string) {
  let isRight = false
  return (ctx: Context, next: Next, third?: unknown): Promise<void> => {
    if (!isRight) {
      isRight = checkCaller('koa', user, hasAll(ctx, 'req', 'res', 'request'), third)
      if (!isRight) return undefined as never
      if (typeof next !== 'function') {
        throw new PolicyError(
          `${user}: called without a function next, as by Koa 1: expected Koa 2 or 3, like app.use(${user}({ … }))`,
        )
      }
    }
    return limited(gate, ctx, next)
  }
}

/**
 * The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. Checks its options:
 * `PolicyError`.
 */
export function addressKey(options?: AddressKeyOptions): (ctx: Context) => string | undefined {
  return addressKeyOf(koa, options)
}

async function limited(gate: Gate<Context, Context>, ctx: Context, next: Next): Promise<void> {
  const delivered = admit(gate, koa, ctx, ctx)
  if ((isPromise(delivered) ? await delivered : delivered) !== 'passed') return
  try {
    await next()
  } finally {
    middlewareReturned(ctx)
  }
}

const koa: Framework<Context, Context, [ctx: Context]> & Delivery<Context, Context> = {
  name: 'Koa',
  args: ctx => [ctx],
  address: ctx => ctx.ip,
  peer: ctx => nodePeer(ctx.req),
  trust: trustOf,
  requestHeader: (ctx, name) => ctx.req.headers[name] as string | undefined,
  watch: watchContext,
  leaveDecision(ctx, decision) {
    ctx.state.rateLimit = decision
  },
  isSent: ctx => ctx.headerSent,
  // As ctx.set, without the arrays that ctx.set creates first.
  setFields: (ctx, fields) => setNodeFields(ctx.res, fields),
  removeField: (ctx, name) => ctx.res.removeHeader(name),
  status: ctx => ctx.status,
  setStatus(ctx, status) {
    ctx.status = status
  },
  write(ctx, { type, text }) {
    ctx.res.setHeader('Content-Type', type)
    ctx.body = text
  },
}

const LEFTMOST: Trust = {
  anybody: 'Koa takes the leftmost address of X-Forwarded-For (app.proxy = true without app.maxIpsCount)',
}

function trustOf({ app }: Context): Trust {
  if (!app.proxy) return 'nobody'
  return app.maxIpsCount > 0 ? 'some' : LEFTMOST
}

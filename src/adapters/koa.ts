import type { Context, Next } from 'koa'
import type { Decision } from '../core/decision.js'
import { addressKeyOf } from '../http/address/client.js'
import type { AddressKeyOptions } from '../http/address/client-options.js'
import { nodePeer } from '../http/address/peer.js'
import { type ConcurrencyControls, ConcurrencyGate } from '../http/concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../http/concurrency/options.js'
import { admit, type Delivery, type Gate } from '../http/delivery.js'
import type { Framework, Trust } from '../http/framework.js'
import { checkCaller } from '../http/mounting.js'
import type { HttpOptions } from '../http/rate-limit/options.js'
import { Guard, type Limiters } from '../http/rate-limit/rate-limit.js'
import { ShedGate, type ShedOptions } from '../http/shed.js'
import { isPromise } from '../http/sync-or-async.js'
import { middlewareReturned, watchContext } from './koa-response.js'

export type * from '../http/adapter-exports.js'
export type { ShedOptions } from '../http/shed.js'

/** What the middleware stores in `ctx.state`, for `new Koa<RateLimitState>()`. */
export interface RateLimitState {
  /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
  rateLimit?: Decision
}

/**
 * The options of `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions receive the context twice,
 * in place of request and response.
 */
export type RateLimitOptions = HttpOptions<Context, Context>

/** The middleware that `rateLimit` returns, with its limiter. */
export interface RateLimit extends Limiters {
  /** Decides the request, then passes it on, lets it wait, defers it or refuses it. */
  (ctx: Context, next: Next): Promise<void>
}

/**
 * Middleware for Koa 2 and 3. Functions of the options receive the context as both request and response. Checks its
 * options: `PolicyError`, or `CostError` for a constant cost.
 */
export function rateLimit(options: RateLimitOptions = {}): RateLimit {
  const guard = new Guard(options, koa)
  return guard.equip(middlewareOf(guard, 'rateLimit'))
}

/** The options of `concurrencyLimit`: those of `spillway/express`. Their functions receive the context twice. */
export type ConcurrencyLimitOptions = ConcurrencyOptions<Context, Context>

/** The middleware that `concurrencyLimit` returns. */
export interface ConcurrencyLimit extends ConcurrencyControls {
  /** Gives the request a place, lets it wait for one, or refuses it. */
  (ctx: Context, next: Next): Promise<void>
}

/** Middleware for Koa 2 and 3 that limits how many requests are inside at once. Checks its options: `PolicyError`. */
export function concurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const gate = new ConcurrencyGate(options, koa)
  return Object.assign(middlewareOf(gate, 'concurrencyLimit'), { close: () => gate.close() })
}

/** Middleware for Koa 2 and 3 that refuses the least important requests first under overload. Checks its options: `PolicyError`. */
export function shed(options: ShedOptions<Context>): (ctx: Context, next: Next) => Promise<void> {
  return middlewareOf(new ShedGate(options, koa), 'shed')
}

function middlewareOf(gate: Gate<Context, Context>, user: string) {
  let isRight = false
  return (ctx: Context, next: Next, third?: unknown): Promise<void> => {
    if (!isRight) {
      isRight = checkCaller('koa', user, ctx, next, third)
      if (!isRight) return undefined as never
    }
    return limited(gate, ctx, next)
  }
}

/** The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. Checks its options: `PolicyError`. */
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

const DECISION = Symbol('decision')

/** The decision is also stored on the context, because services may replace `ctx.state`. */
interface Kept extends Context {
  [DECISION]?: Decision
}

function leaveDecision(ctx: Kept, decision: Decision): void {
  ctx.state.rateLimit = decision
  ctx[DECISION] = decision
}

const koa: Framework<Context, Context> & Delivery<Context, Context> = {
  name: 'Koa',
  address: ctx => ctx.ip,
  peer: ctx => nodePeer(ctx.req),
  trust: trustOf,
  requestHeader: (ctx, name) => ctx.req.headers[name] as string | undefined,
  responseHeader: (ctx, name) => ctx.res.getHeader(name)?.toString(),
  watch: watchContext,
  decision: ctx => ctx.state.rateLimit ?? (ctx as Kept)[DECISION],
  leaveDecision,
  isSent: ctx => ctx.headerSent,
  // As ctx.set, without the arrays that ctx.set creates first.
  setField: (ctx, name, value) => void ctx.res.setHeader(name, value),
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

import type { NextFunction, Request, Response } from 'express'
import type { Decision } from '../../limiter/core/decision.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import { type AddressKeyOptions, addressKeyOf, nodePeer } from '../address/client.js'
import { type ConcurrencyControls, ConcurrencyGate } from '../concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../concurrency/options.js'
import { admit, type Delivery, type Framework, type Gate } from '../framework.js'
import { checkCaller, hasAll } from '../misuse.js'
import { toNodeResponse } from '../node-delivery.js'
import { watchResponse } from '../node-response.js'
import type { HttpOptions } from '../rate-limit/options.js'
import { type LimiterAccess, RateLimitGate } from '../rate-limit/rate-limit.js'
import { ShedGate, type ShedOptions } from '../shed.js'
import { leaveDecision, trustOf } from './express-request.js'

export type * from '../adapter-exports.js'
export { clientAddress } from '../address/client.js'
export type { ShedOptions } from '../shed.js'

declare global {
  namespace Express {
    interface Request {
      /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
      rateLimit?: Decision
    }
  }
}

/** The options of `rateLimit`. Their functions receive `(req, res)`. */
export interface RateLimitOptions extends HttpOptions<[req: Request, res: Response]> {}

/** The middleware that `rateLimit` returns, with its limiter. */
export interface RateLimit extends LimiterAccess {
  /** Decides the request, then passes it on, lets it wait, defers it or refuses it. */
  (req: Request, res: Response, next: NextFunction): void
}

/** Middleware for Express 4 and 5. Checks its options: `PolicyError`, or `CostError` for a constant cost. */
export function rateLimit(options: RateLimitOptions = {}): RateLimit {
  const gate = RateLimitGate.of(options, express)
  return gate.equip(middlewareOf(gate, 'rateLimit'))
}

export default rateLimit

/** The options of `concurrencyLimit`. Their functions receive `(req, res)`. */
export interface ConcurrencyLimitOptions extends ConcurrencyOptions<[req: Request, res: Response]> {}

/** The middleware that `concurrencyLimit` returns. */
export interface ConcurrencyLimit extends ConcurrencyControls {
  /** Gives the request a place, lets it wait for one, or refuses it. */
  (req: Request, res: Response, next: NextFunction): void
}

/**
 * Middleware for Express 4 and 5 that limits how many requests are inside at once. Checks its options: `PolicyError`.
 */
export function concurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const gate = new ConcurrencyGate(options, express)
  return gate.equip(middlewareOf(gate, 'concurrencyLimit'))
}

/**
 * Middleware for Express 4 and 5 that refuses the least important requests first under overload. Checks its options:
 * `PolicyError`.
 */
export function shed(options: ShedOptions<Request>): (req: Request, res: Response, next: NextFunction) => void {
  return middlewareOf(new ShedGate(options, express), 'shed')
}

/**
 * The client's address as a key, as the limiters count by default, for keys of a service:
 * `key: req => req.user?.id ?? byAddress(req)`. An IPv6 address is masked to `ipv6Subnet` bits. undefined only over a
 * Unix socket, where requests have no address. Checks its options: `PolicyError`.
 */
export function addressKey(options?: AddressKeyOptions): (req: Request) => string | undefined {
  return addressKeyOf(express, options)
}

const express: Framework<Request, Response> & Delivery<Request, Response> = {
  ...toNodeResponse,
  name: 'Express',
  args: (req, res) => [req, res],
  address: req => req.ip,
  peer: nodePeer,
  trust: trustOf,
  requestHeader: (req, name) => req.headers[name] as string | undefined,
  watch: res => watchResponse(res),
  leaveDecision,
}

function middlewareOf(gate: Gate<Request, Response>, user: string) {
  let isRight = false
  return (req: Request, res: Response, next: NextFunction): void => {
    if (!isRight) {
      isRight = checkCaller('express', user, hasAll(req, 'headers') && typeof next === 'function', next)
      if (!isRight) return
    }
    const delivered = admit(gate, express, req, res)
    if (delivered === 'passed') pass(req, next)
    if (typeof delivered === 'string') return
    delivered.then(
      delivered => {
        if (delivered === 'passed') pass(req, next)
      },
      error => pass(req, next, error),
    )
  }
}

/**
 * Calls `next`. When a user calls the limiter by hand, the callback may throw. Express catches errors only in the turn
 * in which it calls a middleware, so a later error goes to the `next` that Express stores on each request.
 */
function pass(req: Request, next: NextFunction, error?: unknown): void {
  try {
    if (error === undefined) next()
    else next(error)
  } catch (thrown) {
    if (typeof req.next === 'function') req.next(thrown)
    else emitWarning('SPILLWAY_NEXT', `rateLimit: next threw ${thrown}`)
  }
}

import type { NextFunction, Request, Response } from 'express'
import type { Decision } from '../core/decision.js'
import { type ConcurrencyControls, ConcurrencyGate } from '../http/concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../http/concurrency/options.js'
import type { Framework, Trust } from '../http/framework.js'
import { nextTick } from '../http/next-tick.js'
import type { HttpOptions } from '../http/rate-limit/options.js'
import { type Answer, Guard, type Limiters } from '../http/rate-limit/rate-limit.js'
import { isPromise } from '../http/sync-or-async.js'
import { decisionOn, leaveDecision } from './express-request.js'

declare global {
  namespace Express {
    interface Request {
      /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
      rateLimit?: Decision
    }
  }
}

export type RateLimitOptions = HttpOptions<Request, Response>
export interface RateLimit extends Limiters {
  (req: Request, res: Response, next: NextFunction): void
}

/** Middleware for Express 4 and 5. Checks its options: `PolicyError`, or `CostError` for a constant cost. */
export function rateLimit(options: RateLimitOptions = {}): RateLimit {
  const guard = new Guard(options, express)
  return guard.equip((req: Request, res: Response, next: NextFunction): void => {
    const answer = guard.answer(req, res)
    if (isPromise(answer)) answer.then(answer => give(answer, req, res)).then(passed => passed && next(), next)
    else if (give(answer, req, res)) nextTick(next)
  })
}

export type ConcurrencyLimitOptions = ConcurrencyOptions<Request, Response>
export interface ConcurrencyLimit extends ConcurrencyControls {
  (req: Request, res: Response, next: NextFunction): void
}

/** Middleware for Express 4 and 5: how many requests may be inside at once. Checks its options: `PolicyError`. */
export function concurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const gate = new ConcurrencyGate(options, express)
  const middleware = (req: Request, res: Response, next: NextFunction): void => {
    const answer = gate.answer(req, res)
    if (isPromise(answer)) answer.then(answer => give(answer, req, res)).then(passed => passed && next(), next)
    else if (give(answer, req, res)) nextTick(next)
  }
  return Object.assign(middleware, { close: () => gate.close() })
}

const express: Framework<Request, Response> = {
  name: 'Express',
  address: req => req.ip,
  peer: req => req.socket.remoteAddress,
  trust: trustOf,
  trustsAnybody: "Express takes the leftmost address of X-Forwarded-For (app.set('trust proxy', true))",
  isGone: req => req.socket.destroyed,
  requestHeader: (req, name) => req.headers[name] as string | undefined,
  responseHeader: (res, name) => res.getHeader(name)?.toString(),
  rawResponse: res => res,
  decision: decisionOn,
}

function trustOf(req: Request): Trust {
  const setting: unknown = req.app.get('trust proxy')
  if (setting === true) return 'anybody'
  return setting ? 'some' : 'nobody'
}

/** True if the request is to be passed on. */
function give({ decision, fields, refusal, gone }: Answer, req: Request, res: Response): boolean {
  if (gone) return false
  if (decision) leaveDecision(req, res, decision)
  if (!res.headersSent) {
    for (const name in fields) res.setHeader(name, fields[name])
    if (refusal) {
      res.statusCode = refusal.status
      res.end(refusal.body)
    }
  }
  return refusal === undefined
}

import {
  type CanActivate,
  type DynamicModule,
  type ExecutionContext,
  HttpException,
  Inject,
  Injectable,
  Module,
} from '@nestjs/common'
import type { Decision } from '../core/decision.js'
import type { Answer } from '../http/rate-limit/rate-limit.js'
import { type Body, refuse } from '../http/refusal.js'
import type { Reply } from '../http/reply.js'
import { isPromise, type SyncOrAsync } from '../http/sync-or-async.js'
import { decorate, type NestOptions, RateLimits, wordedOf } from './nest-limits.js'
import { isSent, type NestRequest, type NestResponse, nest, noteDecision, setFields } from './nest-request.js'

export type * from '../http/adapter-exports.js'
export { RateLimits } from './nest-limits.js'
export type { NestRequest, NestResponse } from './nest-request.js'
export { ThrottlerStorage, type ThrottlerStorageOptions, type ThrottlerStorageRecord } from './nest-throttler.js'

declare global {
  namespace Express {
    interface Request {
      /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
      rateLimit?: Decision
    }
  }
}

/**
 * The options of `RateLimitModule.forRoot` and of `@RateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions receive request and response
 * of the platform, Express or Fastify. `handler` returns the body of the HttpException: an object, or a text, which becomes the `detail` of problem details.
 */
export interface RateLimitOptions<Request = NestRequest, Response = NestResponse>
  extends NestOptions<Request, Response> {}

/** The module that holds the limits of an application. It limits nothing by itself: `RateLimitGuard` does. */
export class RateLimitModule {
  /** The limit for all routes without their own. Checks the options: `PolicyError`, or `CostError` for a constant cost. */
  static forRoot<Request = NestRequest, Response = NestResponse>(
    options: RateLimitOptions<Request, Response> = {},
  ): DynamicModule {
    const limits = new RateLimits(options as NestOptions)
    const providers = [{ provide: RateLimits, useValue: limits }]
    return { module: RateLimitModule, global: true, providers, exports: [RateLimits] }
  }
}
Module({})(RateLimitModule)

/**
 * A separate limit for a route, or for each route of a controller, instead of the module's: a policy, like '5/1m', or options. Options that it does not set come from the module; the
 * route counts separately unless the options set `name`. A wrong option throws at the route's first request.
 */
export function RateLimit<Request = NestRequest, Response = NestResponse>(
  limit: string | RateLimitOptions<Request, Response>,
): MethodDecorator & ClassDecorator {
  return mark(typeof limit === 'string' ? { policy: limit } : (limit as NestOptions))
}

/** No limit for a route, or for the routes of a controller without their own. */
export function SkipRateLimit(): MethodDecorator & ClassDecorator {
  return mark(false)
}

function mark(own: NestOptions | false): MethodDecorator & ClassDecorator {
  return (target: object, _key?: string | symbol, descriptor?: PropertyDescriptor): void =>
    decorate((descriptor?.value as object | undefined) ?? target, own)
}

/** Limits the routes that it guards: with `@UseGuards(RateLimitGuard)`, or all of them as `APP_GUARD`. Ignores anything but HTTP requests. */
export class RateLimitGuard implements CanActivate {
  readonly #limits: RateLimits

  constructor(limits: RateLimits) {
    this.#limits = limits
  }

  /** Resolves to true, or rejects with an HttpException if the request is refused. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') return true
    const guard = this.#limits.of(context.getClass(), context.getHandler())
    if (guard === undefined) return true
    const http = context.switchToHttp()
    const req = http.getRequest<NestRequest>()
    const res = http.getResponse<NestResponse>()
    const answer = guard.answer(req, res)
    const refused = give(isPromise(answer) ? await answer : answer, req, res)
    if (refused !== undefined) throw await refused
    return true
  }
}
Injectable()(RateLimitGuard)
Inject(RateLimits)(RateLimitGuard, undefined, 0)

/** Answers a refused request. */
function give(
  { decision, fields, refusal, gone }: Answer,
  req: NestRequest,
  res: NestResponse,
): SyncOrAsync<HttpException> | undefined {
  // This response is never read.
  if (gone) return new HttpException({ status: 499 }, 499)
  if (decision) noteDecision(req, decision)
  const sent = isSent(res)
  if (!sent) setFields(res, fields)
  return refusal && exceptionOf(refusal, nest.decision(req, res), req, res)
}

async function exceptionOf(
  reply: Reply,
  decision: Decision | undefined,
  req: NestRequest,
  res: NestResponse,
): Promise<HttpException> {
  const { status } = reply
  const before = res.statusCode
  if (!isSent(res)) res.status(status)
  try {
    const body = await reply.body()
    const [type, object] = body === undefined ? said(wordedOf(req), status, decision) : parsed(body, status, decision)
    if (!isSent(res)) setFields(res, { 'Content-Type': type })
    return new HttpException(object, status)
  } catch (error) {
    if (!isSent(res)) {
      res.status(before)
      res.removeHeader('Retry-After')
    }
    throw error
  }
}

const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM_TYPE = 'application/problem+json'

/** The body of the exception, with its type. */
type Said = readonly [type: string, body: object]

/** Nest would send a text as text, or wrap it in its own object: both become problem details. */
function parsed({ type, text }: Body, status: number, decision: Decision | undefined): Said {
  if (type.startsWith('text/')) return said(text, status, decision)
  const value: unknown = JSON.parse(text)
  return type === PROBLEM_TYPE ? [type, value as object] : said(value, status, decision)
}

function said(value: unknown, status: number, decision: Decision | undefined): Said {
  if (typeof value === 'object' && value !== null) return [JSON_TYPE, value]
  const problem = decision === undefined ? {} : JSON.parse(refuse(decision, status, 'application/json').body.text)
  return [PROBLEM_TYPE, value === undefined ? problem : { ...problem, detail: String(value) }]
}

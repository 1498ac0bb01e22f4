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
import { addressKeyOf } from '../http/address/client.js'
import type { AddressKeyOptions } from '../http/address/client-options.js'
import { admit } from '../http/delivery.js'
import { isPromise } from '../http/sync-or-async.js'
import { decorate, type NestOptions, RateLimits } from './nest-limits.js'
import { type NestRequest, type NestResponse, nest, refusalOf } from './nest-request.js'

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

/** The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. Checks its options: `PolicyError`. */
export function addressKey(options?: AddressKeyOptions): (req: NestRequest) => string | undefined {
  return addressKeyOf(nest, options)
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
    const admitted = admit(guard, nest, req, res)
    const delivered = isPromise(admitted) ? await admitted : admitted
    if (delivered === 'passed') return true
    // The response to a client that has gone is never read.
    const status = delivered === 'gone' ? 499 : res.statusCode
    throw new HttpException(refusalOf(req) ?? { status }, status)
  }
}
Injectable()(RateLimitGuard)
Inject(RateLimits)(RateLimitGuard, undefined, 0)

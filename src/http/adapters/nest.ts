import {
  type CanActivate,
  type DynamicModule,
  type ExecutionContext,
  type FactoryProvider,
  HttpException,
  Inject,
  Injectable,
  Module,
} from '@nestjs/common'
import type { Decision } from '../../limiter/core/decision.js'
import { PolicyError } from '../../limiter/core/errors.js'
import { checkFunction, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import { type AddressKeyOptions, addressKeyOf } from '../address/client.js'
import { admit } from '../framework.js'
import { isPromise } from '../sync-or-async.js'
import { decorate, type NestOptions, RateLimits } from './nest-limits.js'
import { type NestRequest, type NestResponse, nest, refusalOf } from './nest-request.js'

export type * from '../adapter-exports.js'
export { clientAddress } from '../address/client.js'
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
 * The options of `RateLimitModule.forRoot` and of `@RateLimit`: those of `rateLimit` in `spillway/express`, with the
 * same defaults. Their functions receive request and response of the platform, Express or Fastify. `handler` returns
 * the body of the HttpException: an object, or a text, which becomes the `detail` of problem details.
 */
export interface RateLimitOptions<Request = NestRequest, Response = NestResponse>
  extends NestOptions<Request, Response> {}

/** Where the options of `RateLimitModule.forRootAsync` come from. */
export interface RateLimitFactory<Request = NestRequest, Response = NestResponse> {
  /** The modules that provide what is injected. */
  imports?: NonNullable<DynamicModule['imports']>
  /** The providers that the function receives, in this order. */
  inject?: NonNullable<FactoryProvider['inject']>
  /** Returns the options. */
  useFactory: (...given: never[]) => RateLimitOptions<Request, Response> | Promise<RateLimitOptions<Request, Response>>
}

const FACTORY: OptionNames<RateLimitFactory> = { imports: true, inject: true, useFactory: true }
const FACTORY_EXAMPLE = '{ inject: [REDIS], useFactory: redis => ({ policy: "100/1m", store: new RedisStore(redis) }) }'

/** How many guards were made in this process. */
let guards = 0
let warnedOfGuard = false

/** The application has started. */
function warnWithoutGuard(user: string): void {
  if (guards > 0 || warnedOfGuard) return
  warnedOfGuard = true
  emitWarning(
    'SPILLWAY_NO_GUARD',
    `${user}: no RateLimitGuard was ever made, so no route is limited: add { provide: APP_GUARD, useClass: ` +
      'RateLimitGuard } to the providers of a module, or @UseGuards(RateLimitGuard) to controllers or routes',
  )
}

/** A controller, as far as Nest tells it that its application has started. */
interface Started {
  onApplicationBootstrap?(): unknown
}
const WATCHED = new WeakSet<Started>()

/** Nest tells controllers that the application has started: without the module nobody else of ours learns it. */
function watchStart(controller: Started): void {
  if (WATCHED.has(controller)) return
  WATCHED.add(controller)
  const own = controller.onApplicationBootstrap
  const value = function (this: unknown): unknown {
    warnWithoutGuard('@RateLimit')
    return own?.call(this)
  }
  Object.defineProperty(controller, 'onApplicationBootstrap', { value, configurable: true, writable: true })
}

/** The module that holds the limits of an application. It limits nothing by itself: `RateLimitGuard` does. */
export class RateLimitModule {
  /**
   * @internal Called by Nest once the application has started: warns if no guard was made, so that nothing is limited.
   */
  onApplicationBootstrap(): void {
    warnWithoutGuard('RateLimitModule')
  }

  /**
   * The limit for all routes without their own. Checks the options: `PolicyError`, or `CostError` for a constant cost.
   */
  static forRoot<Request = NestRequest, Response = NestResponse>(
    options: RateLimitOptions<Request, Response> = {},
  ): DynamicModule {
    const limits = new RateLimits(options as NestOptions)
    const providers = [{ provide: RateLimits, useValue: limits }]
    return { module: RateLimitModule, global: true, providers, exports: [RateLimits] }
  }

  /**
   * As `forRoot`, with options from a function that receives other providers, like a Redis client: `{ imports:
   * [RedisModule], inject: [REDIS], useFactory: redis => ({ store: new RedisStore(redis) }) }`. The application fails
   * to start if the function fails or an option is wrong.
   */
  static forRootAsync<Request = NestRequest, Response = NestResponse>(
    from: RateLimitFactory<Request, Response>,
  ): DynamicModule {
    checkOptions('RateLimitModule.forRootAsync', from, FACTORY, FACTORY_EXAMPLE)
    const { imports = [], inject = [], useFactory } = from
    checkFunction(useFactory, 'RateLimitModule.forRootAsync: useFactory', FACTORY_EXAMPLE)
    const make = async (...given: never[]) => new RateLimits((await useFactory(...given)) as NestOptions)
    const providers = [{ provide: RateLimits, useFactory: make, inject }]
    return { module: RateLimitModule, global: true, imports, providers, exports: [RateLimits] }
  }
}
Module({})(RateLimitModule)

export default RateLimitModule

/**
 * A separate limit for a route, or for each route of a controller, instead of the module's: a policy, like '5/1m', or
 * options. Options that it does not set come from the module; the route counts separately unless the options set
 * `name`. Several on one target are combined: a request is charged to all their limits or to none. Checks its options
 * where it stands: `PolicyError`, or `CostError` for a constant cost; `PolicyError` also if several cannot be combined.
 */
export function RateLimit<Request = NestRequest, Response = NestResponse>(
  limit: string | RateLimitOptions<Request, Response>,
): MethodDecorator & ClassDecorator {
  // What decorates receives a class, or a prototype.
  if (typeof limit === 'function' || Object.hasOwn(Object(limit), 'constructor')) {
    throw new PolicyError("@RateLimit stands without a limit: call it, like @RateLimit('5/1m')")
  }
  return mark(typeof limit === 'string' ? { policy: limit } : (limit as NestOptions))
}

/** No limit for a route, or for the routes of a controller without their own. */
export function SkipRateLimit(): MethodDecorator & ClassDecorator {
  return mark(false)
}

function mark(own: NestOptions | false): MethodDecorator & ClassDecorator {
  return (target: object, _key?: string | symbol, descriptor?: PropertyDescriptor): void => {
    const handler = descriptor?.value as object | undefined
    if (own !== false) watchStart(handler === undefined ? (target as { prototype: Started }).prototype : target)
    decorate(handler === undefined ? target : target.constructor, handler, own)
  }
}

/**
 * The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. Checks its options:
 * `PolicyError`.
 */
export function addressKey(options?: AddressKeyOptions): (req: NestRequest) => string | undefined {
  return addressKeyOf(nest, options)
}

/**
 * Limits the routes that it guards: with `@UseGuards(RateLimitGuard)`, or all of them as `APP_GUARD`. Ignores anything
 * but HTTP requests.
 */
export class RateLimitGuard implements CanActivate {
  readonly #limits: RateLimits

  constructor(limits: RateLimits) {
    this.#limits = limits
    guards++
  }

  /** Resolves to true, or rejects with an HttpException if the request is refused. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') return true
    const gate = this.#limits.of(context.getClass(), context.getHandler())
    if (gate === undefined) return true
    const http = context.switchToHttp()
    const req = http.getRequest<NestRequest>()
    const res = http.getResponse<NestResponse>()
    const admitted = admit(gate, nest, req, res)
    const delivered = isPromise(admitted) ? await admitted : admitted
    if (delivered === 'passed') return true
    // The response to a client that has gone is never read.
    const status = delivered === 'gone' ? 499 : res.statusCode
    throw new HttpException(refusalOf(req) ?? { status }, status)
  }
}
Injectable()(RateLimitGuard)
Inject(RateLimits)(RateLimitGuard, undefined, 0)

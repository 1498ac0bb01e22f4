import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { pipeline, type Readable } from 'node:stream'
import type { ArgumentsHost, INestApplication } from '@nestjs/common'
import type { RateLimitGuard, RateLimits } from '../../../src/http/adapters/nest.js'
import type { Decision } from '../../../src/limiter/core/decision.js'
import type { Adapter } from '../../support/adapter-contract.js'

/** One version of NestJS, as the tests need it, with the adapter that was loaded beside it. */
export interface Nest {
  readonly common: typeof import('@nestjs/common')
  readonly core: typeof import('@nestjs/core')
  readonly ours: typeof import('../../../src/http/adapters/nest.js')
  /** Makes an adapter of the platform below; `trustProxy`: one proxy is trusted. */
  platform(trustProxy: TrustProxy): object
  /** The platform below. */
  readonly on: 'Express' | 'Fastify'
}

export type TrustProxy = boolean | 'anybody'

interface Request {
  headers: IncomingMessage['headers']
  rateLimit?: Decision
}

interface Response {
  statusCode: number
  status(code: number): unknown
  getHeader(name: string): unknown
  raw?: ServerResponse
  header(name: string, value: string): { send(text: string): unknown }
}

/** Passes requests to an application as soon as it is ready. */
export function listenerOf(application: Promise<INestApplication>): RequestListener {
  return async (req, res) => {
    const server = (await application).getHttpServer()
    server.emit('request', req, res)
  }
}

export async function started(
  { core, platform }: Pick<Nest, 'core' | 'platform'>,
  module: object,
  trustProxy: TrustProxy = false,
  prepare: (app: INestApplication) => void = () => {},
): Promise<INestApplication> {
  const { NestFactory } = core
  const options = { logger: false as const, abortOnError: false }
  const app = await NestFactory.create(module as never, platform(trustProxy) as never, options)
  prepare(app)
  await app.init()
  const instance: { ready?: () => Promise<unknown> } = app.getHttpAdapter().getInstance()
  await instance.ready?.()
  return app
}

/** A version of NestJS on one of its platforms, as the contract of the adapters needs it. */
export function nestAdapter(nest: Nest): Adapter {
  const { common, ours } = nest
  return {
    rateLimit: options => new ours.RateLimits(options as ConstructorParameters<typeof RateLimits>[0]),
    addressKey: ours.addressKey,
    trustsAnybody: `${nest.on} takes the leftmost address`,
    refusesWithObjects: true,
    http1Only: true,
    header: (req, name) => (req as Request).headers[name] as string | undefined,
    status: res => (res as Response).statusCode,
    setStatus: (res, status) => void (res as Response).status(status),
    responseHeader: (res, name) => (res as Response).getHeader(name)?.toString(),
    decision: req => (req as Request).rateLimit,
    answer: (_, text) => text,
    serve({ limiters, trustProxy, before, handle }) {
      class Controller {
        async answer(req: Request, res: Response): Promise<void> {
          let stream: Readable | undefined
          try {
            stream = (await handle?.(req, res)) ?? undefined
          } catch (error) {
            throw new common.HttpException({ message: (error as Error).message }, 500)
          }
          if (stream) {
            if (res.raw === undefined) pipeline(stream, res as unknown as ServerResponse, () => {})
            else res.header('content-type', 'text/plain').send(stream as never)
            return
          }
          const text = JSON.stringify(req.rateLimit ?? null)
          const raw = res.raw ?? (res as unknown as ServerResponse)
          if (raw.headersSent || res.raw === undefined) {
            if (!raw.headersSent) raw.setHeader('content-type', 'application/json')
            raw.end(text)
          } else res.header('content-type', 'application/json').send(text)
        }
      }
      const descriptor = Object.getOwnPropertyDescriptor(Controller.prototype, 'answer')!
      common.All(['/', ':path'])(Controller.prototype, 'answer', descriptor)
      common.Req()(Controller.prototype, 'answer', 0)
      common.Res()(Controller.prototype, 'answer', 1)
      common.HttpCode(200)(Controller.prototype, 'answer', descriptor)
      const guards = limiters.map(limits => new ours.RateLimitGuard(limits as RateLimits) as RateLimitGuard)
      const begin = {
        canActivate: (context: { switchToHttp(): { getResponse(): Response } }) => {
          const res = context.switchToHttp().getResponse()
          before?.(res.raw ?? (res as unknown as ServerResponse))
          return true
        },
      }
      common.UseGuards(begin as never, ...guards)(Controller)
      common.Controller()(Controller)
      class Errors extends nest.core.BaseExceptionFilter {
        override catch(error: { code?: string; message?: string }, host: ArgumentsHost): void {
          const body = { code: error.code, message: error.message }
          if (error instanceof common.HttpException) super.catch(error, host)
          else this.applicationRef?.reply(host.switchToHttp().getResponse(), body, 500)
        }
      }
      common.Catch()(Errors)
      class App {}
      common.Module({ controllers: [Controller] })(App)
      const application = started(nest, App, trustProxy, app => {
        app.useGlobalFilters(new Errors(app.getHttpAdapter()))
      })
      return listenerOf(application)
    },
  }
}

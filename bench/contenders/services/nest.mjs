// NestJS on Express. Decorators are called as functions, so that no compiler stands between.
import 'reflect-metadata'
import { Controller, Get, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'

/** @type {import('../http.mjs').Service} */
export async function service(limiter, plan) {
  class Greeter {
    hello() {
      return 'hello'
    }
  }
  const descriptor = /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(Greeter.prototype, 'hello'))
  Get()(Greeter.prototype, 'hello', descriptor)
  Controller()(Greeter)

  const { imports = [], guard } = (await guards[limiter]?.(plan)) ?? {}
  class App {}
  Module({ imports, controllers: [Greeter], providers: guard ? [{ provide: APP_GUARD, ...guard }] : [] })(App)
  const app = await NestFactory.create(App, { logger: false })
  await app.init()
  return app.getHttpAdapter().getInstance()
}

/** @type {Record<string, (plan: import('../http.mjs').Plan) => Promise<{ imports?: any[], guard: any }>>} */
const guards = {
  async 'fields by hand'({ setFields }) {
    const guard = {
      canActivate(/** @type {import('@nestjs/common').ExecutionContext} */ context) {
        const res = context.switchToHttp().getResponse()
        setFields((name, value) => res.setHeader(name, value))
        return true
      },
    }
    return { guard: { useValue: guard } }
  },

  async spillway({ ours, ourOptions }) {
    const { RateLimitGuard, RateLimitModule } = await ours('nest')
    return { imports: [RateLimitModule.forRoot(await ourOptions())], guard: { useClass: RateLimitGuard } }
  },

  async '@nestjs/throttler'({ window }) {
    const { ThrottlerGuard, ThrottlerModule } = await import('@nestjs/throttler')
    const throttlers = [{ limit: window.limit, ttl: window.windowMs }]
    return { imports: [ThrottlerModule.forRoot(throttlers)], guard: { useClass: ThrottlerGuard } }
  },
}

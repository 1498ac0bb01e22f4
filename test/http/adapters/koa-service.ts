import type Koa from 'koa'
import type { Context } from 'koa'
import { addressKey, type RateLimit, type RateLimitOptions, rateLimit } from '../../../src/http/adapters/koa.js'
import type { Adapter } from '../../support/adapter-contract.js'
import { forContext } from '../../support/one-context.js'

/** A version of Koa, as the contract of the adapters needs it. */
export function koaAdapter(KoaVersion: new () => Koa): Adapter {
  return {
    rateLimit: options => rateLimit(forContext(options) as RateLimitOptions),
    addressKey,
    trustsAnybody: 'Koa takes the leftmost address',
    header: (ctx, name) => (ctx as Context).headers[name] as string | undefined,
    status: ctx => (ctx as Context).status,
    setStatus(ctx, status) {
      ;(ctx as Context).status = status
    },
    responseHeader: (ctx, name) => (ctx as Context).response.get(name) || undefined,
    decision: ctx => (ctx as Context).state.rateLimit,
    answer(ctx, text) {
      ;(ctx as Context).body = text
    },
    serve({ limiters, trustProxy, before, handle }) {
      const app = new KoaVersion()
      if (trustProxy) Object.assign(app, { proxy: true, maxIpsCount: trustProxy === 'anybody' ? 0 : 1 })
      app.use(async (ctx, next) => {
        try {
          before?.(ctx.res)
          await next()
        } catch (error) {
          const { code, message } = error as { code?: string; message?: string }
          ctx.status = 500
          ctx.body = { code, message }
        }
      })
      for (const limiter of limiters) app.use(limiter as RateLimit)
      app.use(async ctx => {
        const stream = await handle?.(ctx, ctx)
        ctx.body = stream ?? JSON.stringify(ctx.state.rateLimit ?? null)
        if (ctx.headerSent) ctx.res.end(ctx.body)
        else if (!stream) ctx.type = 'application/json'
      })
      return app.callback()
    },
  }
}

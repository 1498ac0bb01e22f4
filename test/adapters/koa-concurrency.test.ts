import Koa, { type Context } from 'koa'
import { type ConcurrencyLimit, concurrencyLimit } from '../../src/adapters/koa.js'
import { describeConcurrencyLimit } from '../support/concurrency-contract.js'

describeConcurrencyLimit('Koa', {
  concurrencyLimit,
  header: (ctx, name) => (ctx as Context).get(name) || undefined,
  serve(limits, handle) {
    const app = new Koa()
    app.silent = true
    for (const limit of limits) app.use(limit as ConcurrencyLimit)
    app.use(async ctx => {
      ctx.body = await handle(ctx.url)
    })
    return app.callback()
  },
})

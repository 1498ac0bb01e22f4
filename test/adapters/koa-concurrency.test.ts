import Koa3, { type Context } from 'koa'
import Koa2 from 'koa2'
import { type ConcurrencyLimit, concurrencyLimit } from '../../src/adapters/koa.js'
import { describeConcurrencyLimit } from '../support/concurrency-contract.js'

for (const [name, Koa] of [
  ['Koa 2', Koa2],
  ['Koa 3', Koa3],
] as const)
  describeConcurrencyLimit(name, {
    concurrencyLimit,
    header: (ctx, name) => (ctx as Context).get(name) || undefined,
    told: ctx => [(ctx as Context).status, (ctx as Context).response.get('retry-after')],
    answer(ctx, text) {
      ;(ctx as Context).body = text
    },
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

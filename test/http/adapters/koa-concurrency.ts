import type Koa3 from 'koa'
import type { Context } from 'koa'
import {
  type ConcurrencyLimit,
  type ConcurrencyLimitOptions,
  concurrencyLimit,
} from '../../../src/http/adapters/koa.js'
import { describeConcurrencyLimit } from '../../support/concurrency-contract.js'
import { forContext } from '../../support/one-context.js'

/** The contract of concurrency limits, for a version of Koa. */
export function describeKoaConcurrency(name: string, Koa: typeof Koa3): void {
  describeConcurrencyLimit(name, {
    concurrencyLimit: options => concurrencyLimit(forContext(options) as ConcurrencyLimitOptions),
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
}

import { Readable } from 'node:stream'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { addressKey, type RateLimit, type RateLimitOptions, rateLimit } from '../../../src/http/adapters/hono.js'
import type { Options } from '../../support/adapter-contract/world.js'
import type { Adapter } from '../../support/adapter-contract.js'
import { forContext } from '../../support/one-context.js'
import { behindProxy, remembering } from './behind-proxy.js'

const make = (options?: Options): RateLimit => rateLimit(forContext(options) as RateLimitOptions)

/** A version of Hono on Node, as the contract of the adapters needs it. */
export const honoAdapterOf = (makeHono: () => object): Adapter => ({
  rateLimit: remembering(make),
  addressKey,
  returnsResponses: true,
  header: (c, name) => (c as Context).req.header(name),
  status: c => ((c as Context).finalized ? (c as Context).res.status : (c as Context).newResponse(null).status),
  setStatus: (c, status) => (c as Context).status(status as ContentfulStatusCode),
  responseHeader: (c, name) => (c as Context).newResponse(null).headers.get(name) ?? undefined,
  decision: c => (c as Context).get('rateLimit'),
  answer: (c, text) => (c as Context).text(text),
  serve({ limiters, trustProxy, handle }) {
    const app = makeHono() as Hono<{ Bindings: HttpBindings }>
    app.onError((error, c) => {
      const { code, message } = error as { code?: string; message: string }
      return c.json({ code, message }, 500)
    })
    for (const limiter of limiters) app.use('*', trustProxy ? behindProxy(make, limiter) : (limiter as RateLimit))
    app.all('*', async c => {
      const stream = await handle?.(c, c)
      if (stream) return c.body(Readable.toWeb(stream) as ReadableStream)
      c.header('content-type', 'application/json')
      return c.body(JSON.stringify(c.get('rateLimit') ?? null))
    })
    return getRequestListener(app.fetch)
  },
})

/** The current version. */
export const honoAdapter = honoAdapterOf(() => new Hono())

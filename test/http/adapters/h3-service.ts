import { Readable } from 'node:stream'
import { H3, type H3Event, type Middleware, serve } from 'h3'
import { addressKey, type RateLimitOptions, rateLimit } from '../../../src/http/adapters/h3.js'
import type { Adapter } from '../../support/adapter-contract.js'
import { forContext } from '../../support/one-context.js'

/** What Node's server calls: `trustProxy` is an option of the server, not of the application. */
export function listenerOf(app: H3, trustProxy?: true | 'loopback') {
  return serve(app, { manual: true, gracefulShutdown: false, trustProxy }).node!.handler
}

/** h3 on Node, as the contract of the adapters needs it. */
export const h3Adapter: Adapter = {
  rateLimit: options => rateLimit(forContext(options) as RateLimitOptions),
  addressKey,
  returnsResponses: true,
  header: (event, name) => (event as H3Event).req.headers.get(name) ?? undefined,
  status: event => (event as H3Event).res.status ?? 200,
  setStatus(event, status) {
    ;(event as H3Event).res.status = status
  },
  responseHeader: (event, name) => (event as H3Event).res.headers.get(name) ?? undefined,
  decision: event => (event as H3Event).context.rateLimit,
  answer: (_, text) => text,
  serve({ limiters, trustProxy, before, handle }) {
    const app = new H3({
      silent: true,
      onError(error, event) {
        event.res.status = 500
        const { code, message } = (error.cause ?? error) as { code?: string; message: string }
        return { code, message }
      },
    })
    for (const limiter of limiters) app.use(limiter as unknown as Middleware)
    app.all('/**', async event => {
      const stream = await handle?.(event, event)
      if (stream) return Readable.toWeb(stream)
      event.res.headers.set('content-type', 'application/json')
      return JSON.stringify(event.context.rateLimit ?? null)
    })
    const listener = listenerOf(app, trustProxy ? 'loopback' : undefined)
    return (incoming, outgoing) => {
      before?.(outgoing)
      void listener(incoming, outgoing)
    }
  },
}

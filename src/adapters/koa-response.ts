import type { Context } from 'koa'
import { watchResponse } from '../http/node-response.js'
import type { ResponseWatch } from '../http/response-watch.js'

/** Watched contexts whose handler is running. */
const AT_WORK = new WeakSet<Context>()

/**
 * The watch of a context's response. Once the client has gone, Koa 2 does not end a response, and neither Koa 2 nor Koa 3 answers an
 * error: without this, `settle` would not learn the outcome of an aborted request, and its place would stay taken.
 */
export function watchContext(ctx: Context): ResponseWatch {
  return watchResponse(ctx.res, watch => {
    endOnReturn(ctx)
    answerErrors(ctx, watch)
  })
}

/** Koa reads `ctx.respond` when all middleware has returned. Ends a response without a client, as Koa 3 does by itself. */
function endOnReturn(ctx: Context): void {
  let { respond } = ctx
  Object.defineProperty(ctx, 'respond', {
    configurable: true,
    enumerable: true,
    get() {
      if (respond !== false && !ctx.writable) ctx.res.end()
      return respond
    },
    set(value: boolean | undefined) {
      respond = value
    },
  })
}

/** Koa calls `ctx.onerror` when the middleware has failed; also when the connection fails while a handler is still running. */
function answerErrors(ctx: Context, watch: ResponseWatch): void {
  const { onerror } = ctx
  AT_WORK.add(ctx)
  ctx.onerror = error => {
    if (error === null || error === undefined || AT_WORK.has(ctx) || isOfConnection(error, ctx)) {
      return onerror.call(ctx, error)
    }
    // Koa sets the status and ends the response only if it believes that there is a client.
    const unheard = !ctx.headerSent && !ctx.writable
    if (unheard) Object.defineProperty(ctx, 'writable', { configurable: true, value: true })
    onerror.call(ctx, error)
    if (unheard) Reflect.deleteProperty(ctx, 'writable')
    // Nor does Koa end a response whose header was sent.
    if (ctx.headerSent && !watch.gone) watch.end(false)
  }
}

/** The middleware behind the limiter has returned or failed: later errors come from the middleware. */
export function middlewareReturned(ctx: Context): void {
  AT_WORK.delete(ctx)
}

function isOfConnection(error: Error, { req, res }: Context): boolean {
  const { stream } = res as { stream?: { errored?: Error | null } }
  return error === req.socket?.errored || error === stream?.errored
}

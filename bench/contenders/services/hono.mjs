import { getRequestListener } from '@hono/node-server'
import { getConnInfo } from '@hono/node-server/conninfo'
import { Hono } from 'hono'

/** @type {import('../http.mjs').Service} */
export async function service(limiter, plan) {
  const app = new Hono()
  const middleware = await middlewares[limiter]?.(plan)
  if (middleware) app.use(middleware)
  app.get('/', c => c.text('hello'))
  return getRequestListener(app.fetch)
}

/** @type {Record<string, (plan: import('../http.mjs').Plan) => Promise<any>>} */
const middlewares = {
  async 'fields by hand'({ setFields }) {
    return async (/** @type {import('hono').Context} */ c, /** @type {import('hono').Next} */ next) => {
      setFields((name, value) => c.header(name, value))
      await next()
    }
  },

  async spillway({ ours, ourOptions }) {
    const { rateLimit } = await ours('hono')
    return rateLimit(await ourOptions())
  },

  async 'hono-rate-limiter'({ window }) {
    const { rateLimiter } = await import('hono-rate-limiter')
    return rateLimiter({ ...window, keyGenerator: c => getConnInfo(c).remote.address ?? '' })
  },
}

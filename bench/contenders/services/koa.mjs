import Koa from 'koa'

/** @type {import('../http.mjs').Service} */
export async function service(limiter, plan) {
  const app = new Koa()
  const middleware = await middlewares[limiter]?.(plan)
  if (middleware) app.use(middleware)
  app.use(ctx => {
    ctx.body = 'hello'
  })
  return app.callback()
}

/** @type {Record<string, (plan: import('../http.mjs').Plan) => Promise<any>>} */
const middlewares = {
  async 'fields by hand'({ setFields }) {
    return (/** @type {import('koa').Context} */ ctx, /** @type {import('koa').Next} */ next) => {
      setFields((name, value) => ctx.set(name, value))
      return next()
    }
  },

  async 'INCR and fields by hand'({ setFields, client }) {
    return async (/** @type {import('koa').Context} */ ctx, /** @type {import('koa').Next} */ next) => {
      await client?.incr(`by-hand:${ctx.ip}`)
      setFields((name, value) => ctx.set(name, value))
      return next()
    }
  },

  async spillway({ ours, ourOptions }) {
    const { rateLimit } = await ours('koa')
    return rateLimit(await ourOptions())
  },

  async 'koa-ratelimit'({ window, client }) {
    const { default: ratelimit } = await import('koa-ratelimit')
    const db = client ? { driver: 'redis', db: client } : { driver: 'memory', db: new Map() }
    return ratelimit({ ...db, max: window.limit, duration: window.windowMs })
  },
}

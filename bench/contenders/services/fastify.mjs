import fastify from 'fastify'

/** @type {import('../http.mjs').Service} */
export async function service(limiter, plan) {
  const app = fastify()
  await limiters[limiter]?.(app, plan)
  app.get('/', async () => 'hello')
  await app.ready()
  return (req, res) => app.routing(req, res)
}

/** @type {Record<string, (app: any, plan: import('../http.mjs').Plan) => Promise<unknown>>} */
const limiters = {
  async 'fields by hand'(app, { setFields }) {
    app.addHook('onRequest', (/** @type {any} */ _request, /** @type {any} */ reply, /** @type {any} */ done) => {
      setFields((name, value) => reply.header(name, value))
      done()
    })
  },

  async spillway(app, { ours, ourOptions }) {
    const { rateLimit } = await ours('fastify')
    await app.register(rateLimit, await ourOptions())
  },

  async '@fastify/rate-limit'(app, { window }) {
    const { default: rateLimit } = await import('@fastify/rate-limit')
    await app.register(rateLimit, { max: window.limit, timeWindow: window.windowMs })
  },
}

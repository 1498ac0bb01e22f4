import express from 'express'

/** @type {import('../http.mjs').Service} */
export async function service(limiter, plan) {
  const app = express()
  const middleware = await middlewares[limiter]?.(plan)
  if (middleware) app.use(middleware)
  return app.get('/', (_req, res) => void res.send('hello'))
}

/** @type {Record<string, (plan: import('../http.mjs').Plan) => Promise<any>>} */
const middlewares = {
  async 'fields by hand'({ setFields }) {
    return (/** @type {any} */ _req, /** @type {any} */ res, /** @type {() => void} */ next) => {
      setFields((name, value) => res.setHeader(name, value))
      next()
    }
  },

  async 'INCR and fields by hand'({ setFields, client }) {
    return async (/** @type {any} */ req, /** @type {any} */ res, /** @type {() => void} */ next) => {
      await client?.incr(`by-hand:${req.ip}`)
      setFields((name, value) => res.setHeader(name, value))
      next()
    }
  },

  async spillway({ ours, ourOptions }) {
    const { rateLimit } = await ours('express')
    return rateLimit(await ourOptions())
  },

  /** Headers of the same forms as the native one has by default, so that only the way there differs. */
  async 'drop-in'({ ours, window, client }) {
    const { rateLimit, RedisStore } = await ours('express-rate-limit')
    const store = client ? new RedisStore({ client }) : undefined
    return rateLimit({ ...window, standardHeaders: 'draft-8', legacyHeaders: true, store })
  },

  async 'express-rate-limit'({ window, client }) {
    const { rateLimit } = await import('express-rate-limit')
    const headers = /** @type {const} */ ({ standardHeaders: 'draft-8', legacyHeaders: true })
    if (!client) return rateLimit({ ...window, ...headers })
    const { RedisStore } = await import('rate-limit-redis')
    const sendCommand = (/** @type {string[]} */ ...[command, ...args]) => client.call(command, ...args)
    return rateLimit({ ...window, ...headers, store: new RedisStore({ sendCommand }) })
  },
}

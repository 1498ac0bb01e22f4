// A web service that says hello, bare or behind one of the limiters; headers on, as the limiter's own README installs it.
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { answer, setup } from './answering.mjs'
import { PLENTY, WINDOW_MS } from './traffic.mjs'

const { framework, limiter, redisPort, quota = PLENTY } = setup
const client = redisPort ? new Redis({ port: redisPort }) : undefined
const window = { limit: quota, windowMs: WINDOW_MS }

/** @type {Record<string, () => Promise<unknown>>} */
const middlewares = {
  /** No limiter, but the header fields of one, for what they cost by themselves. */
  async 'express fields by hand'() {
    let left = quota
    return (/** @type {any} */ _req, /** @type {any} */ res, /** @type {() => void} */ next) => {
      left--
      res.setHeader('RateLimit-Policy', `"${quota}-per-10m";q=${quota};w=600`)
      res.setHeader('RateLimit', `"${quota}-per-10m";r=${left};t=600`)
      res.setHeader('X-RateLimit-Limit', `${quota}`)
      res.setHeader('X-RateLimit-Remaining', `${left}`)
      res.setHeader('X-RateLimit-Reset', `${Math.ceil((Date.now() + WINDOW_MS) / 1000)}`)
      next()
    }
  },

  async 'express spillway'() {
    const { rateLimit } = await import('../../dist/express.mjs')
    return rateLimit({ ...window, algorithm: 'fixed-window', store: await ourStore() })
  },

  /** Headers of the same forms as the native one has by default, so that only the way there differs. */
  async 'express drop-in'() {
    const { rateLimit, RedisStore } = await import('../../dist/express-rate-limit.mjs')
    const store = client ? new RedisStore({ client }) : undefined
    return rateLimit({ ...window, standardHeaders: 'draft-8', legacyHeaders: true, store })
  },

  async 'express express-rate-limit'() {
    const { rateLimit } = await import('express-rate-limit')
    const headers = /** @type {const} */ ({ standardHeaders: 'draft-8', legacyHeaders: true })
    if (!client) return rateLimit({ ...window, ...headers })
    const { RedisStore } = await import('rate-limit-redis')
    const sendCommand = (/** @type {string[]} */ ...[command, ...args]) => client.call(command, ...args)
    return rateLimit({ ...window, ...headers, store: new RedisStore({ sendCommand }) })
  },

  async 'koa spillway'() {
    const { rateLimit } = await import('../../dist/koa.mjs')
    return rateLimit({ ...window, algorithm: 'fixed-window', store: await ourStore() })
  },

  async 'koa koa-ratelimit'() {
    const { default: ratelimit } = await import('koa-ratelimit')
    const db = client ? { driver: 'redis', db: client } : { driver: 'memory', db: new Map() }
    return ratelimit({ ...db, max: quota, duration: WINDOW_MS })
  },
}

async function ourStore() {
  if (!client) return undefined
  const { RedisStore } = await import('../../dist/index.mjs')
  return new RedisStore(client)
}

/** @type {Record<string, (middleware: any) => Promise<import('node:http').RequestListener>>} */
const frameworks = {
  async express(middleware) {
    const { default: express } = await import('express')
    const app = express()
    if (middleware) app.use(middleware)
    return app.get('/', (_req, res) => void res.send('hello'))
  },

  async koa(middleware) {
    const { default: Koa } = await import('koa')
    const app = new Koa()
    if (middleware) app.use(middleware)
    app.use(ctx => {
      ctx.body = 'hello'
    })
    return app.callback()
  },
}

const { createServer } = await import('node:http')
const server = createServer(await frameworks[framework](await middlewares[`${framework} ${limiter}`]?.()))
server.listen(0)
await once(server, 'listening')

answer({
  port: () => /** @type {import('node:net').AddressInfo} */ (server.address()).port,
  /** Time of its processor so far, µs. */
  cpu() {
    const { user, system } = process.cpuUsage()
    return user + system
  },
})

// A web service that says hello, bare or behind one of the limiters; headers on, as the limiter's own README installs
// it.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { answer, setup } from './answering.mjs'
import { PLENTY, WINDOW_MS } from './traffic.mjs'

/**
 * What a service is told of its limit.
 *
 * @typedef {object} Plan
 * @property {{ limit: number, windowMs: number }} window
 * @property {import('ioredis').Redis | undefined} client
 * @property {(set: (name: string, value: string) => unknown) => void} setFields Sets the fields of an allowed request
 *   by hand.
 * @property {(entry: string) => Promise<any>} ours Loads an entry point of spillway.
 * @property {() => Promise<any>} ourOptions The options of `rateLimit` of spillway.
 */

/**
 * Makes a service that says hello, by the name of its limiter.
 *
 * @typedef {(limiter: string, plan: Plan) => Promise<import('node:http').RequestListener>} Service
 */

// `dist`: another build of spillway, to compare two.
const { framework, limiter, redisPort, headers, algorithm, quota = PLENTY, dist = '../../dist' } = setup
const client = redisPort ? new Redis({ port: redisPort }) : undefined
const window = { limit: quota, windowMs: WINDOW_MS }
let left = quota

/** @type {Plan} */
const plan = {
  window,
  client,

  // Of drafts 8 and legacy, as spillway sets them by default.
  setFields(set) {
    left--
    set('RateLimit-Policy', `"${quota}-per-10m";q=${quota};w=600`)
    set('RateLimit', `"${quota}-per-10m";r=${left};t=600`)
    set('X-RateLimit-Limit', `${quota}`)
    set('X-RateLimit-Remaining', `${left}`)
    set('X-RateLimit-Reset', `${Math.ceil((Date.now() + WINDOW_MS) / 1000)}`)
  },

  ours: entry => import(`${dist}/${entry}.mjs`),

  async ourOptions() {
    const options = { ...window, ...(algorithm && { algorithm }), ...(headers && { headers }) }
    if (client === undefined) return options
    const { RedisStore } = await plan.ours('index')
    return { ...options, store: new RedisStore(client) }
  },
}

/** @type {{ service: Service }} */
const { service } = await import(`./services/${framework}.mjs`)
const server = createServer(await service(limiter, plan))
// The clients keep their connections while others have their turns.
server.keepAliveTimeout = 60_000
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

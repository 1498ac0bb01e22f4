// The drop-ins and their peers, in memory or on Redis. Every second decision is refused.
import { Redis } from 'ioredis'
import theirKoa from 'koa-ratelimit'
import theirs from 'rate-limiter-flexible'
import ourKoa from '../../dist/koa-ratelimit.mjs'
import * as ours from '../../dist/rate-limiter-flexible.mjs'
import { answer, setup } from './answering.mjs'
import { passedOf30, passes } from './passing.mjs'
import { clients, PLENTY } from './traffic.mjs'

const HOUR_MS = 3_600_000
/** koa-ratelimit keeps a member for each request on Redis: of a short span, so that there is a bound to them. */
const SPAN_MS = 1000

/**
 * True if a request of this key passed.
 *
 * @typedef {(key: string) => Promise<boolean>} Decide
 * @type {Record<string, (quota: number, name: string, client?: Redis) => Decide>}
 */
const contenders = {
  'rate-limiter-flexible'(quota, name, client) {
    const { RateLimiterMemory, RateLimiterRedis } = setup.ours ? ours : theirs
    const options = { points: quota, duration: HOUR_MS / 1000, keyPrefix: name }
    const limiter = client ? new RateLimiterRedis({ ...options, storeClient: client }) : new RateLimiterMemory(options)
    return passes(limiter)
  },

  'koa-ratelimit'(quota, name, client) {
    const limit = (setup.ours ? ourKoa : theirKoa)({
      driver: client ? 'redis' : 'memory',
      db: client ?? new Map(),
      duration: client && quota === PLENTY ? SPAN_MS : HOUR_MS,
      max: quota,
      id: (/** @type {any} */ ctx) => ctx.ip,
      namespace: name,
    })
    let passed = false
    const next = async () => {
      passed = true
    }
    return async key => {
      passed = false
      await limit(/** @type {any} */ ({ ip: key, set() {}, state: {} }), next)
      return passed
    }
  },
}

const { peer, port, inFlight } = setup
const client = port === undefined ? undefined : new Redis({ port, enableAutoPipelining: false })
const side = setup.ours ? 'ours' : 'theirs'
const decides = [PLENTY, 1].map(quota => contenders[peer](quota, `${side}-${peer}-${quota}`, client))
const keys = clients(1000)
let at = 0

answer({
  /** How many of 30 pass at quota 10, for each of two keys. */
  async check() {
    const decide = contenders[peer](10, `check-${side}-${peer}-${inFlight}`, client)
    return passedOf30(decide)
  },

  async run({ ms }) {
    let decisions = 0
    let running = true
    const work = async () => {
      while (running) {
        // Promises that are kept let no timer run.
        if (client === undefined && (decisions & 1023) === 0 && performance.now() - startedAt >= ms) running = false
        const i = at++
        await decides[i & 1](keys[(i >> 1) % keys.length])
        decisions++
      }
    }
    const cpu = process.cpuUsage()
    const startedAt = performance.now()
    if (client !== undefined) {
      setTimeout(() => {
        running = false
      }, ms)
    }
    await Promise.all(Array.from({ length: inFlight }, work))
    const tookMs = performance.now() - startedAt
    const { user, system } = process.cpuUsage(cpu)
    return { decisions, ms: tookMs, cpuUs: user + system }
  },
})

// A process that has just started: loads a limiter, and decides one request after the other.
import { Redis } from 'ioredis'
import { answer, setup } from './answering.mjs'
import { clients, PLENTY, WINDOW_MS } from './traffic.mjs'

const { contender, port } = setup
const client = port === undefined ? undefined : new Redis({ port, enableAutoPipelining: false })
await client?.ping()
const keys = clients(10_000)

/**
 * Loads a limiter, and decides for a key.
 *
 * @type {Record<string, () => Promise<(key: string) => Promise<unknown>>>}
 */
const contenders = {
  spillway: () => ours(),
  'spillway fixed-window': () => ours('fixed-window'),

  async 'express-rate-limit'() {
    const { MemoryStore } = await import('express-rate-limit')
    const store = new MemoryStore()
    store.init(/** @type {any} */ ({ windowMs: WINDOW_MS }))
    return key => store.increment(key)
  },

  async 'rate-limit-redis'() {
    const { RedisStore } = await import('rate-limit-redis')
    const sendCommand = (/** @type {string[]} */ ...[command, ...args]) => client?.call(command, ...args)
    const store = new RedisStore({ sendCommand: /** @type {any} */ (sendCommand) })
    store.init(/** @type {any} */ ({ windowMs: WINDOW_MS }))
    return key => store.increment(key)
  },

  async 'rate-limiter-flexible'() {
    const { RateLimiterMemory, RateLimiterRedis } = await import('rate-limiter-flexible')
    const options = { points: PLENTY, duration: WINDOW_MS / 1000 }
    const limiter = client ? new RateLimiterRedis({ ...options, storeClient: client }) : new RateLimiterMemory(options)
    return key => limiter.consume(key)
  },
}

/** @param {any} [algorithm] */
async function ours(algorithm) {
  const { RateLimiter, RedisStore } = await import('../../dist/index.mjs')
  const policy = { quota: PLENTY, window: WINDOW_MS, ...(algorithm && { algorithm }) }
  const limiter = new RateLimiter({ policy, ...(client && { store: new RedisStore(client) }) })
  return (/** @type {string} */ key) => limiter.consume(key)
}

answer({
  /** How long loading took, then so many decisions after each other, ms: of each count. */
  async first({ counts }) {
    const times = /** @type {number[]} */ ([])
    let startedAt = performance.now()
    const next = () => {
      const before = startedAt
      startedAt = performance.now()
      times.push(startedAt - before)
    }
    const decide = await contenders[contender]()
    next()
    let at = 0
    for (const count of counts) {
      for (let i = 0; i < count; i++) await decide(keys[at++ % keys.length])
      next()
    }
    return times
  },
})

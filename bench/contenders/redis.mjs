// Contenders on Redis, each with a number of decisions in flight.
import { Redis } from 'ioredis'
import { RedisStore as PeerStore } from 'rate-limit-redis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { RateLimiter, RedisStore } from '../../dist/index.mjs'
import { answer, setup } from './answering.mjs'
import { inFlightOf } from './in-flight.mjs'
import { passedOf30, passes } from './passing.mjs'
import { policyOf } from './policy.mjs'
import { clients, PLENTY, WINDOW_MS } from './traffic.mjs'

/**
 * Decides for a key: true if it passed.
 *
 * @typedef {(key: string) => Promise<boolean>} Decide
 * @type {Record<string, (client: Redis, quota: number, algorithm?: any) => Decide | Promise<Decide>>}
 */
const contenders = {
  spillway(client, quota, algorithm) {
    const policy = policyOf(quota, algorithm)
    // Under load of this kind a decision may take longer than the default, and would be answered without Redis.
    const limiter = new RateLimiter({
      policy,
      store: new RedisStore(client),
      deadline: '10s',
      onStoreFailure: 'closed',
    })
    return async key => {
      const { allowed, source } = await limiter.consume(key)
      if (source === 'closed') throw new Error('a decision was not made by Redis')
      return allowed
    }
  },

  // Not a limiter: the least that counting in Redis takes, one command a request.
  'bare INCR'(client, quota) {
    return async key => (await client.incr(key)) <= quota
  },

  async 'rate-limit-redis'(client, quota) {
    const sendCommand = (/** @type {string[]} */ ...[command, ...args]) => client.call(command, ...args)
    const store = new PeerStore({ sendCommand })
    await store.init({ windowMs: WINDOW_MS })
    return async key => (await store.increment(key)).totalHits <= quota
  },

  'rate-limiter-flexible'(client, quota) {
    const limiter = new RateLimiterRedis({ storeClient: client, points: quota, duration: WINDOW_MS / 1000 })
    return passes(limiter)
  },
}

const { contender, algorithm, port, inFlight, keys: keyCount } = setup
const client = new Redis({ port, enableAutoPipelining: false })
const keys = clients(keyCount)
const decide = await contenders[contender](client, PLENTY, algorithm)
const run = inFlightOf(decide, keys, inFlight)

answer({
  /** How many of 30 pass at quota 10, for each of two keys. */
  async check() {
    const decide = await contenders[contender](client, 10, algorithm)
    return passedOf30(decide)
  },

  /** Every key once. */
  async fill() {
    for (let from = 0; from < keys.length; from += 512) await Promise.all(keys.slice(from, from + 512).map(decide))
  },

  run: ({ ms }) => run(ms),
})

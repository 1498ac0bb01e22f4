// Contenders on Redis, each with a number of decisions in flight.
import { Redis } from 'ioredis'
import { RedisStore as PeerStore } from 'rate-limit-redis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { RateLimiter, RedisStore } from '../../dist/index.mjs'
import { answer, setup } from './answering.mjs'
import { inFlightOf } from './in-flight.mjs'
import { decidedByStore, PATIENT, passedOf30, passes } from './passing.mjs'
import { policyOf } from './policy.mjs'
import { clients, PLENTY, WINDOW_MS } from './traffic.mjs'

/** The windows of a policy of three limits, ms. */
const THREE = [WINDOW_MS / 600, WINDOW_MS / 10, WINDOW_MS]

// Adds so much unless the sum would exceed the bound; a new key gets a lifetime. Returns the sum, and what was added.
const INCREX = `
local sum = tonumber(redis.call('GET', KEYS[1]) or 0)
if sum + ARGV[1] > tonumber(ARGV[2]) then return { sum, 0 } end
if sum == 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
  return { tonumber(ARGV[1]), tonumber(ARGV[1]) }
end
return { redis.call('INCRBY', KEYS[1], ARGV[1]), tonumber(ARGV[1]) }`

/**
 * @param {import('../../dist/index.mjs').RateLimiterOptions['policy']} policy
 * @param {Redis} client
 * @returns {Decide}
 */
function limitedBy(policy, client) {
  const limiter = new RateLimiter({ policy, store: new RedisStore(client), ...PATIENT })
  return async key => decidedByStore(await limiter.consume(key)).allowed
}

const A_CLIENT = 'a-client'

/**
 * The arguments of a lone decision.
 *
 * @param {string} algorithm
 * @param {number} quota
 */
async function sentBy(algorithm, quota) {
  const client = new Redis({ port })
  /** @type {string[][]} */
  const sent = []
  const { sendCommand } = client
  client.sendCommand = (command, ...rest) => {
    if (command.name === 'evalsha') sent.push(command.args.map(String))
    return sendCommand.call(client, command, ...rest)
  }
  const decide = limitedBy(policyOf(quota, algorithm), client)
  // The first one asks for the server's time, too.
  for (let i = 0; i < 3; i++) await decide(A_CLIENT)
  client.disconnect()
  return sent[sent.length - 1]
}

/**
 * Decides for a key: true if it passed.
 *
 * @typedef {(key: string) => Promise<boolean>} Decide
 * @type {Record<string, (client: Redis, quota: number, algorithm?: any) => Decide | Promise<Decide>>}
 */
const contenders = {
  spillway: (client, quota, algorithm) => limitedBy(policyOf(quota, algorithm), client),

  /** Windows of a second, a minute and ten, by default sliding, as services have them against bursts. */
  'spillway three limits': (client, quota) =>
    limitedBy(
      THREE.map(window => ({ quota, window })),
      client,
    ),

  /** What a call has used is known when it has ended: each decision of two units is settled to one. */
  'spillway settled'(client, quota) {
    const store = new RedisStore(client)
    const limiter = new RateLimiter({ policy: policyOf(quota + 1, undefined), store, ...PATIENT })
    return async key => {
      const decision = decidedByStore(await limiter.consume(key, 2))
      if (decision.allowed) await limiter.settle(decision, 1)
      return decision.allowed
    }
  },

  // What teams write by hand: two commands, so that no key stays for ever if the process dies in between.
  'INCR and PEXPIRE by hand'(client, quota) {
    return async key => {
      const replies = await client.multi().incr(`hand:${key}`).pexpire(`hand:${key}`, WINDOW_MS, 'NX').exec()
      return Number(replies?.[0][1]) <= quota
    }
  },

  // Not a limiter: what a decision of ours sends, and a script that does nothing with it. Whatever decides by a script
  // with these arguments takes as long at least.
  async 'our arguments, no work'(client, quota) {
    const least = String(await client.script('LOAD', 'return 1'))
    const [, count, blocked, waiting, key, ...limit] = await sentBy('fixed-window', quota)
    return async name =>
      (await client.evalsha(least, count, blocked, waiting, key.replace(A_CLIENT, name), ...limit)) === 1
  },

  // What INCREX of newer servers does in one command, by a script of the same work: no server that knows it is here.
  'INCREX by a script'(client, quota) {
    client.defineCommand('increx', { numberOfKeys: 1, lua: INCREX })
    return async key => (await /** @type {any} */ (client).increx(`increx:${key}`, 1, quota, WINDOW_MS))[1] === 1
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

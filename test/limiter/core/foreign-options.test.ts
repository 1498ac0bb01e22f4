import { afterAll, describe, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { concurrencyLimit, rateLimit, shed } from '../../../src/http/adapters/express.js'
import { rateLimit as limitKoa } from '../../../src/http/adapters/koa.js'
import { RateLimitModule } from '../../../src/http/adapters/nest.js'
import { RateLimiter } from '../../../src/index.js'

const client = new Redis({ lazyConnect: true })
afterAll(() => client.disconnect())

const limiter = (options: object) => new RateLimiter({ policy: '1/1m', ...options })
const middleware = (options: object) => rateLimit(options)
const places = (options: object) => concurrencyLimit({ permits: 1, ...options } as never)

describe('an option of another package is refused with ours, and what it means', () => {
  test.each<[string, (options: object) => unknown, object, string]>([
    [
      'express-rate-limit',
      limiter,
      { max: 5 },
      'RateLimiter: unknown option "max": policy has the quota and its time, like "100/1m"',
    ],
    ['express-rate-limit', limiter, { windowMs: 5 }, 'policy has the quota and its time'],
    [
      'express-rate-limit',
      middleware,
      { passOnStoreError: true },
      "rateLimit: unknown option \"passOnStoreError\": onStoreFailure says what happens while the store fails: 'local', 'open' or 'closed'",
    ],
    ['express-rate-limit', middleware, { onLimitReached() {} }, 'handler answers a refused request'],
    [
      'express-rate-limit',
      middleware,
      { skipSuccessfulRequests: true },
      'settle says after the response what a request costs',
    ],
    ['express-rate-limit', middleware, { skipFailedRequests: true }, 'settle says after the response'],
    [
      'express-rate-limit',
      middleware,
      { requestPropertyName: 'x' },
      'the decision is always stored as rateLimit: req.rateLimit',
    ],
    ['express-rate-limit', middleware, { standardHeaders: true }, 'headers lists the forms of the header fields'],
    ['express-rate-limit', middleware, { validate: false }, 'there is nothing to switch off'],
    ['express-slow-down', middleware, { delayMs: 5 }, 'slowDown is an object'],
    ['rate-limiter-flexible', middleware, { points: 5 }, 'policy has the quota and its time'],
    ['rate-limiter-flexible', middleware, { duration: 5 }, 'windowMs is the time of limit; or policy has both'],
    [
      'rate-limiter-flexible',
      limiter,
      { storeClient: client },
      'store is where counts live, like new RedisStore(client)',
    ],
    [
      'rate-limiter-flexible',
      middleware,
      { blockDuration: 5 },
      'block refuses a key that is denied too often for longer',
    ],
    ['rate-limiter-flexible', limiter, { insuranceLimiter: {} }, 'onStoreFailure says what happens'],
    [
      'koa-ratelimit',
      limitKoa,
      { id: () => 'x' },
      'key is a function that gives the text by which requests count together',
    ],
    ['koa-ratelimit', limitKoa, { db: client }, 'store is where counts live'],
    [
      'koa-ratelimit',
      limitKoa,
      { whitelist: () => true },
      'allow lists addresses that are not limited; skip is a function',
    ],
    ['koa-ratelimit', limitKoa, { disableHeader: true }, 'headers lists the forms'],
    ['@fastify/rate-limit', middleware, { timeWindow: 5 }, 'windowMs is the time of limit; or policy has both'],
    ['@fastify/rate-limit', middleware, { redis: client }, 'store is where counts live'],
    ['@fastify/rate-limit', middleware, { allowList: [] }, 'allow lists addresses'],
    ['@fastify/rate-limit', middleware, { nameSpace: 'x' }, 'name tells the counts of limiters on one store apart'],
    ['hono-rate-limiter', middleware, { identifier: 'x' }, 'key is a function'],
    [
      '@nestjs/throttler',
      options => RateLimitModule.forRoot(options),
      { ttl: 5 },
      'windowMs is the time of limit; or policy has both',
    ],
    [
      '@nestjs/throttler',
      options => RateLimitModule.forRoot(options),
      { throttlers: [] },
      'policy may have several limits',
    ],
    ['@upstash/ratelimit', limiter, { ephemeralCache: false }, 'denyCache is how many refused keys'],
    ['@upstash/ratelimit', limiter, { redis: client }, 'store is where counts live'],
    ['others', middleware, { trustProxy: 1 }, 'proxies is how many proxies stand in front of the service'],
    ['others', middleware, { rate: 5 }, 'policy has the quota and its time'],
    ['others', middleware, { quota: 5 }, 'policy has the quota and its time'],
    ['others', middleware, { client }, 'store is where counts live'],
    ['others', middleware, { onLimited() {} }, 'handler answers a refused request'],
    ['others', middleware, { permits: 5 }, 'that is an option of concurrencyLimit'],
    ['others', limiter, { key: 'x' }, 'the key is given to each call, like consume(key)'],
    ['others', places, { max: 5 }, 'concurrencyLimit: unknown option "max": permits is how many may be inside at once'],
    ['others', places, { limit: 5 }, 'permits is how many may be inside at once'],
    ['others', places, { redis: client }, 'client is the Redis client'],
    ['others', places, { keyGenerator: () => 'x' }, 'key is a function'],
  ])('%s: %#', (_, call, options, message) => {
    expect(() => call(options)).toThrow(message)
  })

  test('but only if the function has the option that is named', () => {
    const call = () => shed({ load: undefined, priority: () => 0, windowMs: 5 } as never)
    expect(call).toThrow('shed: unknown option "windowMs": expected load, priority, levels, observer')
  })
})

describe('an option is suggested only if it differs in a third of its letters at most, or is abbreviated', () => {
  test.each([
    ['polcy', 'did you mean policy?'],
    ['plociy', 'did you mean policy?'],
    ['POLICY', 'did you mean policy?'],
    ['stor', 'did you mean store?'],
    ['onStoreFail', 'did you mean onStoreFailure?'],
    ['addr', 'did you mean addressHeader?'],
  ])('%s', (option, message) => {
    expect(() => rateLimit({ [option]: 1 })).toThrow(`rateLimit: unknown option "${option}": ${message}`)
  })

  test.each(['rat', 'stallion', 'passthrough', 'storeless', 'lim', 'a'])('not %s', option => {
    expect(() => rateLimit({ [option]: 1 })).toThrow(
      `rateLimit: unknown option "${option}": expected policy, limit, max`,
    )
  })
})

describe('a client in place of a store is told apart', () => {
  const nodeRedis = createClient()
  test.each<[string, object]>([
    ['ioredis', client],
    ['node-redis', nodeRedis],
  ])('%s', (_, store) => {
    const message = 'store is a Redis client: expected'
    expect(() => rateLimit({ store: store as never })).toThrow(
      `RateLimiter: ${message} a store over it, like new RedisStore(client)`,
    )
    expect(() => limiter({ store })).toThrow(message)
    expect(() => places({ store })).toThrow(`concurrencyLimit: ${message} { client }, or a store over it`)
  })
})

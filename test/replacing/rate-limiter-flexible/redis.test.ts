import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { createClient } from 'redis'
import {
  type IRateLimiterRedisOptions,
  RateLimiterMemory,
  RateLimiterRedis,
} from '../../../src/replacing/rate-limiter-flexible/index.js'
import { ofCases } from '../../support/cases.js'
import { RedisServer } from '../../support/redis-server.js'
import { testRedis } from '../../support/test-redis.js'
import { warnings } from '../../support/warnings.js'
import { Comparison, MODULES, randomCall, sequence } from './side-by-side.js'

const redis = testRedis()
const warned = warnings()
let client: Redis
beforeAll(() => {
  client = redis.client()
})
beforeEach(() => client.flushall())

/** Multiples of this, so that the server's clock, which runs on, changes no answer. */
const UNIT_MS = 100_000
const SECONDS = [0, 100, 1000]

test('random calls get the answers of rate-limiter-flexible 11, but for the known differences', async () => {
  let compared = 0
  const differences = new Set<string>()
  for (let i = 0; i < ofCases(40); i++) {
    await client.flushall()
    const random = sequence(i)
    const points = random.integer(-1, 5)
    const from = random.pick([0, 0, Math.max(1, points + 1), Math.max(1, points) + 3])
    const options: IRateLimiterRedisOptions = {
      storeClient: client,
      points,
      duration: random.pick(SECONDS),
      blockDuration: random.pick([0, 0, 100, 300]),
      blockOnConsumed: random.pick([0, 0, Math.max(1, points) + 2]),
      inMemoryBlockOnConsumed: from,
      inMemoryBlockDuration: from > 0 ? random.pick([0, 200]) : 0,
    }
    const [theirs, ours] = MODULES.map(({ RateLimiterRedis }) => new RateLimiterRedis(options))
    const comparison = new Comparison(theirs, ours, UNIT_MS, from > 0)
    // Theirs ends a count without end with the duration of the next call.
    const isCustom = options.duration > 0 && random.integer(0, 2) === 0
    for (let n = 0; n < 25; n++) {
      await comparison.call(randomCall(random, SECONDS, isCustom ? random.pick([undefined, 100, 1000]) : undefined))
      if (random.integer(0, 15) === 0) for (const limiter of [theirs, ours]) limiter.deleteInMemoryBlockedAll()
    }
    const played = comparison.end()
    compared += played.compared
    for (const difference of played.differences) differences.add(difference)
  }
  expect(compared).toBeGreaterThan(10 * ofCases(40))
  expect([...differences].sort()).toEqual([
    'a block without end on Redis',
    'below 0 on Redis',
    'reward of a blocked key',
    'set',
  ])
}, 60_000)

describe('in the manner of our limiter', () => {
  test('calls of one turn share commands, whatever their points and prefixes are', async () => {
    const [one, two] = ['one', 'two'].map(
      (keyPrefix, i) => new RateLimiterRedis({ storeClient: client, keyPrefix, points: 5 + i, duration: 1000 }),
    )
    await one.consume('warm')
    await client.config('RESETSTAT')
    const all = await Promise.all(
      Array.from({ length: 32 }, (_, i) => [one.penalty(`k${i}`), two.consume(`k${i}`)]).flat(),
    )
    const stats = await client.info('commandstats')
    expect(Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1])).toBeLessThanOrEqual(2)
    expect(all.every(({ consumedPoints }) => consumedPoints === 1)).toBe(true)
  })

  test('two processes count together, and a block of one refuses in the other', async () => {
    const [here, there] = [client, redis.client()].map(
      storeClient => new RateLimiterRedis({ storeClient, points: 2, duration: 100, blockDuration: 300 }),
    )
    await here.consume('me')
    expect((await there.consume('me')).remainingPoints).toBe(0)
    await expect(here.consume('me')).rejects.toMatchObject({ consumedPoints: 3, msBeforeNext: 300_000 })
    const refused = await there.consume('me').catch(refusal => refusal)
    expect(refused.msBeforeNext).toBeGreaterThan(200_000)
    expect((await there.get('me'))?.consumedPoints).toBe(3)
    expect(await there.delete('me')).toBe(true)
    expect((await here.consume('me')).consumedPoints).toBe(1)
  })

  test('a call costs no more commands, however many custom durations there were', async () => {
    const limiter = new RateLimiterRedis({ storeClient: client, points: 5, duration: 100 })
    for (let i = 0; i < 50; i++) await limiter.consume(`user${i}`, 1, { customDuration: 5000 - 10 * i })
    await client.config('RESETSTAT')
    expect((await limiter.consume('user7', 1, { customDuration: 300 })).msBeforeNext).toBeGreaterThan(4_900_000)
    await limiter.consume('me', 1, { customDuration: 300 })
    const stats = await client.info('commandstats')
    expect(Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1])).toBeLessThanOrEqual(6)
    for (const key of await client.keys('*user*')) expect(await client.pttl(key)).toBeLessThan(5_010_000)
  })

  test('a key that began under a custom duration counts together in all processes that name any', async () => {
    const [here, there] = [client, redis.client()].map(
      storeClient => new RateLimiterRedis({ storeClient, points: 5, duration: 100 }),
    )
    await there.consume('other', 1, { customDuration: 7 })
    const all = await Promise.all([1, 2, 3].map(() => here.consume('me', 1, { customDuration: 3000 })))
    expect(all.map(({ consumedPoints }) => consumedPoints)).toEqual([1, 2, 3])
    const { consumedPoints, msBeforeNext } = await there.consume('me')
    expect([consumedPoints, Math.ceil(msBeforeNext / UNIT_MS)]).toEqual([4, 30])
  })

  test('a duration may have fractions', async () => {
    const limiter = new RateLimiterRedis({ storeClient: client, points: 1, duration: 0.5, blockDuration: 1.5 })
    expect((await limiter.consume('me')).msBeforeNext).toBe(500)
    await expect(limiter.consume('me')).rejects.toMatchObject({ msBeforeNext: 1500 })
  })

  test('every key has a lifetime, but those of a duration or a block without end', async () => {
    const limiter = new RateLimiterRedis({ storeClient: client, points: 1, duration: 10 })
    await limiter.consume('me')
    await limiter.block('you', 5)
    const keys = await client.keys('*')
    expect(keys.length).toBeGreaterThanOrEqual(2)
    for (const key of keys) expect([key, (await client.pttl(key)) > 0]).toEqual([key, true])
  })

  test('node-redis works as well', async () => {
    const other = createClient({ url: redis.url })
    await other.connect()
    const limiter = new RateLimiterRedis({ storeClient: other, points: 1, duration: 10 })
    expect(await limiter.get('me')).toBeNull()
    expect((await limiter.consume('me')).isFirstInDuration).toBe(true)
    await expect(limiter.consume('me')).rejects.toMatchObject({ consumedPoints: 2 })
    expect([await limiter.delete('me'), await limiter.delete('me')]).toEqual([true, false])
    await other.close()
  })

  test('points that are no whole number are refused with the words of rate-limiter-flexible; digits may be text', async () => {
    const limiter = new RateLimiterRedis({ storeClient: client, points: 5, duration: 10 })
    await expect(limiter.consume('me', 1.5)).rejects.toThrow('Consuming decimal number of points is not supported')
    await expect(limiter.consume('me', 'x' as never)).rejects.toThrow('Consuming string different than integer values')
    expect((await limiter.consume('me', '2' as never)).consumedPoints).toBe(2)
  })
})

describe('while Redis is away', () => {
  test('the insurance answers, with the block and the even execution of the limiter', async () => {
    const lone = await RedisServer.start()
    const storeClient = lone.client()
    await storeClient.ping()
    await lone.stop()
    const insuranceLimiter = new RateLimiterMemory({ points: 1, duration: 10 })
    const limiter = new RateLimiterRedis({
      storeClient,
      points: 5,
      duration: 10,
      blockDuration: 60,
      insuranceLimiter,
      rejectIfRedisNotReady: true,
    })
    expect(insuranceLimiter.blockDuration).toBe(60)
    expect((await limiter.consume('me')).remainingPoints).toBe(0)
    await expect(limiter.consume('me')).rejects.toMatchObject({ msBeforeNext: 60_000 })
    expect((await limiter.get('me'))?.consumedPoints).toBe(2)
    expect((await limiter.penalty('you')).consumedPoints).toBe(1)
    expect((await limiter.reward('you')).consumedPoints).toBe(0)
    expect((await limiter.set('you', 3, 5)).consumedPoints).toBe(3)
    expect((await limiter.block('you', 5)).msBeforeNext).toBe(5000)
    const alone = new RateLimiterRedis({ storeClient, points: 5, duration: 10, rejectIfRedisNotReady: true })
    await expect(alone.consume('me')).rejects.toThrow('Redis connection is not ready')
    // An insurance of somebody else's that throws instead of rejecting: the call rejects all the same.
    insuranceLimiter.consume = () => {
      throw new Error('no insurance')
    }
    const asked = limiter.consume('me')
    await expect(asked).rejects.toThrow('no insurance')
  })

  test('a Redis that hangs is answered for by the insurance, within its deadline; without one calls reject, and say why', async () => {
    const lone = await RedisServer.start()
    const storeClient = lone.client()
    const options = { storeClient, points: 5, duration: 10 }
    const insured = new RateLimiterRedis({
      ...options,
      insuranceLimiter: new RateLimiterMemory({ points: 2, duration: 10 }),
    })
    expect((await insured.consume('me')).remainingPoints).toBe(4)
    lone.pause()
    const startedAt = performance.now()
    expect((await insured.consume('me')).remainingPoints).toBe(1)
    expect(performance.now() - startedAt).toBeLessThan(2000)
    lone.unpause()
    const alone = new RateLimiterRedis(options)
    await alone.consume('me')
    await lone.stop()
    await expect(alone.consume('me')).rejects.toMatchObject({ name: 'StoreError' })
    for (let i = 0; i < 5; i++) await alone.consume('me').catch(() => {})
    expect(warned.textsOf('SPILLWAY_STORE').join()).toContain('rate-limiter-flexible')
  }, 30_000)
})

test('invalid options are refused as by rate-limiter-flexible', () => {
  const wrong: object[] = [
    { points: 5, duration: 1 },
    { storeClient: client, points: 5, duration: 1, insuranceLimiter: {} },
    { storeClient: client, points: 5, duration: 1, inMemoryBlockOnConsumed: 4 },
    { storeClient: client, points: 5, duration: 1, inMemoryBlockDuration: 4 },
    { storeClient: client, points: 5, duration: 1, blockOnConsumed: 4 },
  ]
  for (const options of wrong) {
    const messages = MODULES.map(({ RateLimiterRedis }) => {
      try {
        return new RateLimiterRedis(options as IRateLimiterRedisOptions).points
      } catch (error) {
        return (error as Error).message.split(':')[0]
      }
    })
    expect(messages[1]).toBe(messages[0])
    expect(typeof messages[0]).toBe('string')
  }
  const own = { storeClient: client, points: 5, duration: 1, customIncrTtlLuaScript: 'return 1' } as never
  expect(() => new RateLimiterRedis(own)).toThrow('keep this limiter in rate-limiter-flexible')
})

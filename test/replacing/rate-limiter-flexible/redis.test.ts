import { afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { createClient } from 'redis'
import { flexibleCount } from '../../../src/redis/scripts.js'
import {
  type IRateLimiterRedisOptions,
  RateLimiterMemory,
  RateLimiterRedis,
} from '../../../src/replacing/rate-limiter-flexible/index.js'
import { ofCases } from '../../support/cases.js'
import { RedisServer } from '../../support/redis-server.js'
import { testRedis } from '../../support/test-redis.js'
import { MODULES, outcomeOf, randomCall, sequence } from './side-by-side.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})
beforeEach(() => client.flushall())
afterEach(() => {
  jest.useRealTimers()
})

/**
 * All times of the random calls are multiples of this, so that the server's clock, which runs on, changes no answer.
 */
const UNIT_MS = 100_000
const SECONDS = [0, 100, 1000]

/** Lets time pass for all keys, and for what limiters hold in memory. */
async function pass(ms: number): Promise<void> {
  jest.setSystemTime(Date.now() + ms)
  for (const key of await client.keys('*')) {
    const left = await client.pttl(key)
    if (left >= 0 && left - ms <= 0) await client.del(key)
    else if (left >= 0) await client.pexpire(key, left - ms)
  }
}

test('random calls get the same answers as from rate-limiter-flexible 11', async () => {
  jest.useFakeTimers({
    now: 1_700_000_000_000,
    doNotFake: [
      'performance',
      'nextTick',
      'setImmediate',
      'queueMicrotask',
      'setTimeout',
      'clearTimeout',
      'setInterval',
      'clearInterval',
    ],
  })
  let calls = 0
  for (let i = 0; i < ofCases(40); i++) {
    const stories: unknown[] = []
    for (const { RateLimiterRedis } of MODULES) {
      await client.flushall()
      jest.setSystemTime(1_700_000_000_000)
      const random = sequence(i)
      const points = random.integer(-1, 5)
      const from = random.pick([0, 0, Math.max(1, points + 1), Math.max(1, points) + 3])
      const limiter = new RateLimiterRedis({
        storeClient: client,
        points,
        duration: random.pick(SECONDS),
        blockDuration: random.pick([0, 0, 100, 300]),
        blockOnConsumed: random.pick([0, 0, Math.max(1, points) + 2]),
        inMemoryBlockOnConsumed: from,
        inMemoryBlockDuration: from > 0 ? random.pick([0, 200]) : 0,
      })
      const story: unknown[] = []
      for (let n = 0; n < 25; n++) {
        const [method, args] = randomCall(random, SECONDS)
        const call = limiter[method] as (...args: unknown[]) => Promise<unknown>
        story.push([method, args, await outcomeOf(() => call.apply(limiter, args), UNIT_MS)])
        if (random.integer(0, 3) === 0) await pass(random.pick([100_000, 200_000]))
        if (random.integer(0, 15) === 0) limiter.deleteInMemoryBlockedAll()
        calls++
      }
      stories.push(story)
    }
    expect(stories[1]).toEqual(stories[0])
  }
  expect(calls).toBe(50 * ofCases(40))
})

test('keys and counts of rate-limiter-flexible continue, and the other way round', async () => {
  const options: IRateLimiterRedisOptions = { storeClient: client, points: 5, duration: 1000 }
  const [theirs, ours] = MODULES.map(({ RateLimiterRedis }) => new RateLimiterRedis(options))
  const counts = []
  for (const limiter of [theirs, ours, theirs, ours]) counts.push((await limiter.consume('me')).consumedPoints)
  expect(counts).toEqual([1, 2, 3, 4])
  await ours.block('me', 50)
  await expect(theirs.consume('me')).rejects.toMatchObject({ consumedPoints: 7 })
  expect(await client.keys('*')).toEqual(['rlflx:me'])
  expect([await client.type('rlflx:me'), await client.get('rlflx:me')]).toEqual(['string', '7'])
})

test('a duration may have fractions', async () => {
  const limiter = new RateLimiterRedis({ storeClient: client, points: 1, duration: 0.5, blockDuration: 1.5 })
  expect((await limiter.consume('me')).msBeforeNext).toBe(500)
  await expect(limiter.consume('me')).rejects.toMatchObject({ msBeforeNext: 1500 })
})

test('a refusal that blocks costs one command', async () => {
  const limiter = new RateLimiterRedis({ storeClient: client, points: 0, duration: 10, blockDuration: 100 })
  await expect(limiter.consume('warm')).rejects.toMatchObject({ msBeforeNext: 100_000 })
  await client.config('RESETSTAT')
  await expect(limiter.consume('me')).rejects.toMatchObject({ msBeforeNext: 100_000 })
  const stats = await client.info('commandstats')
  expect(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]).toBe('1')
})

describe('calls of one turn', () => {
  const options: IRateLimiterRedisOptions = { storeClient: {}, points: 5, duration: 1000 }
  const scripts = async () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats'))?.[1])

  test('share a command, whatever their limits and points are', async () => {
    const [one, two] = ['one', 'two'].map(
      (keyPrefix, i) => new RateLimiterRedis({ ...options, storeClient: client, keyPrefix, points: 5 + i }),
    )
    await one.consume('warm')
    await client.config('RESETSTAT')
    const all = await Promise.all(
      Array.from({ length: 64 }, (_, i) => [one.penalty(`k${i}`, 1 + (i % 3)), two.consume(`k${i}`)]).flat(),
    )
    expect(await scripts()).toBe(1)
    expect(all.map(({ consumedPoints }) => consumedPoints)).toEqual(
      Array.from({ length: 64 }, (_, i) => [1 + (i % 3), 1]).flat(),
    )
  })

  test('get the answers of rate-limiter-flexible, in their order, also with the same key and other kinds of calls', async () => {
    const stories: unknown[] = []
    for (const { RateLimiterRedis } of MODULES) {
      await client.flushall()
      const limiter = new RateLimiterRedis({ ...options, storeClient: client, blockDuration: 2000 })
      // A script that the server does not know yet is sent a second time, after what was asked meanwhile.
      await limiter.consume('warm')
      await limiter.set('warm', 1, 100)
      await limiter.get('warm')
      stories.push(
        await Promise.all([
          outcomeOf(() => limiter.consume('me', 2), UNIT_MS),
          outcomeOf(() => limiter.reward('me', 1), UNIT_MS),
          outcomeOf(() => limiter.get('me'), UNIT_MS),
          outcomeOf(() => limiter.consume('you', 5), UNIT_MS),
          outcomeOf(() => limiter.consume('me', 4), UNIT_MS),
          outcomeOf(() => limiter.set('me', 2, 100), UNIT_MS),
          outcomeOf(() => limiter.consume('me'), UNIT_MS),
          outcomeOf(() => limiter.consume('you'), UNIT_MS),
          outcomeOf(() => limiter.delete('me'), UNIT_MS),
          outcomeOf(() => limiter.consume('me'), UNIT_MS),
        ]),
      )
    }
    expect(stories[1]).toEqual(stories[0])
  })

  test('fail separately if their key is no counter', async () => {
    await client.lpush('rlflx:list', 'x')
    const limiter = new RateLimiterRedis({ ...options, storeClient: client })
    const calls = ['a', 'list', 'b'].map(key => limiter.consume(key))
    const [a, list, b] = await Promise.allSettled(calls)
    expect([a.status, b.status]).toEqual(['fulfilled', 'fulfilled'])
    expect(list).toMatchObject({ reason: { name: 'StoreError', message: expect.stringContaining('WRONGTYPE') } })
  })

  test('are not carried out when they come too late, and get the time of the server', async () => {
    const [seconds] = (await client.time()).map(Number)
    const late = await client.eval(flexibleCount.source, 1, 'late', '1 1000', String(seconds * 1000 - 1))
    expect(late).toEqual([expect.any(Number)])
    expect((late as number[])[0]).toBeGreaterThanOrEqual(seconds * 1000)
    expect(await client.exists('late')).toBe(0)
    expect(await client.eval(flexibleCount.source, 1, 'late', '1 1000', String(seconds * 1000 + 9000))).toEqual([
      1, 1000,
    ])
  })

  test('that are too many for one command are all answered', async () => {
    const limiter = new RateLimiterRedis({ ...options, storeClient: client, points: 1000 })
    const all = await Promise.all(Array.from({ length: 600 }, () => limiter.consume('me')))
    expect(all.map(({ consumedPoints }) => consumedPoints)).toEqual(all.map((_, i) => i + 1))
  })
})

test('points that are no whole numbers are errors, as in rate-limiter-flexible', async () => {
  for (const points of [1.5, Number.NaN, '2', '1.5', '-1', '0']) {
    const outcomes: unknown[] = []
    for (const { RateLimiterRedis } of MODULES) {
      const limiter = new RateLimiterRedis({
        storeClient: client,
        points: 5,
        duration: 100,
        keyPrefix: `p${outcomes.length}`,
      })
      outcomes.push((await outcomeOf(() => limiter.consume(`k${points}`, points as number)))[0])
    }
    expect([points, outcomes[1]]).toEqual([points, outcomes[0]])
  }
})

test('a Lua script of the service replaces ours', async () => {
  const customIncrTtlLuaScript = `return { redis.call('incrby', KEYS[1], ARGV[1] * 2), ARGV[2] * 1000 + ARGV[3] + ARGV[4] }`
  const outcomes: unknown[] = []
  for (const { RateLimiterRedis } of MODULES) {
    await client.flushall()
    const limiter = new RateLimiterRedis({
      storeClient: client,
      points: 3,
      duration: 100,
      blockDuration: 1000,
      customIncrTtlLuaScript,
    })
    outcomes.push([await outcomeOf(() => limiter.consume('me')), await outcomeOf(() => limiter.consume('me'), UNIT_MS)])
  }
  expect(outcomes[1]).toEqual(outcomes[0])
})

test('node-redis works as well, without being named', async () => {
  const other = createClient({ url: redis.url })
  await other.connect()
  const limiter = new RateLimiterRedis({ storeClient: other, points: 1, duration: 10 })
  expect(await limiter.get('me')).toBeNull()
  expect((await limiter.consume('me')).isFirstInDuration).toBe(true)
  await expect(limiter.consume('me')).rejects.toMatchObject({ consumedPoints: 2 })
  expect([await limiter.delete('me'), await limiter.delete('me')]).toEqual([true, false])
  await other.close()
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
  })
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
})

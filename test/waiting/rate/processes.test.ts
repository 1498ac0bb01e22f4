import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { eventually } from '../../support/eventually.js'
import { Lateness } from '../../support/lateness.js'
import { GrantLog, logOf, mostWithin, RateWorkers } from '../../support/rate-workers.js'
import { RedisServer } from '../../support/redis-server.js'

let redis: RedisServer
let workers: RateWorkers | undefined
beforeEach(async () => {
  redis = await RedisServer.start()
})
afterEach(async () => {
  workers?.stop()
  await redis.stop()
})

describe('several processes that share a rate', () => {
  test('use all of it and no more, whenever and however much they ask', async () => {
    const limiter = new SharedRateLimiter(redis.client(), 'provider')
    await limiter.setRate({ rate: 18, interval: 1000 })
    const four = await RateWorkers.start(4, redis.url, 'provider')
    workers = four
    const log = new GrantLog(redis.client(), logOf('provider'), 1000)
    const late = await Lateness.of(redis, ...four.processes.map(({ process }) => process))
    const answers = await Promise.all([0, 1, 2, 3].map(worker => four.acquire(worker, 13)))
    const granted = await log.stop(52)
    expect(mostWithin(1000, granted)).toBe(18)
    // Whoever waits is granted as soon as a permit is free.
    const lateMs = await late.stop()
    for (let i = 18; i < 52; i++) expect(granted[i] - granted[i - 18]).toBeLessThanOrEqual(1000 + 5 + lateMs)
    // Nobody goes before its permit is granted, or before who asked earlier.
    const resolved = answers.flatMap(({ at }) => at)
    for (const { asked } of answers) expect(asked).toEqual([...asked].sort((a, b) => a - b))
    resolved.sort((a, b) => a - b)
    for (let i = 0; i < 52; i++) expect(resolved[i]).toBeGreaterThanOrEqual(granted[i])
    // Half of the hand-overs are later by at most twice of what the machine adds to one on average.
    const handOversMs = granted.slice(18).map((at, i) => at - granted[i] - 1000)
    expect(handOversMs.sort((a, b) => a - b)[17]).toBeLessThanOrEqual(5 + (2 * lateMs) / handOversMs.length)
  }, 20_000)

  test('are served in the order of their requests', async () => {
    const redisClient = redis.client()
    const limiter = new SharedRateLimiter(redisClient, 'order')
    // However slowly they come, nobody is granted before all wait.
    await limiter.setRate({ rate: 1, interval: '1m' })
    const three = await RateWorkers.start(3, redis.url, 'order')
    workers = three
    await limiter.acquire()
    const resolved: ReturnType<RateWorkers['acquire']>[] = []
    for (const [i, worker] of [2, 0, 1].entries()) {
      resolved.push(three.acquire(worker, 1))
      await eventually('waits', async () => (await redisClient.zcard('spillway:{order}:rate:line')) === i + 1)
    }
    await limiter.updateRate({ rate: 1, interval: 250 }, { keepState: true })
    const times = (await Promise.all(resolved)).map(({ at }) => at[0])
    expect(times).toEqual([...times].sort((a, b) => a - b))
  }, 20_000)

  test('a process that is killed while it waits delays the others by at most 1 s, once, and takes no permit', async () => {
    const client = redis.client()
    const limiter = new SharedRateLimiter(client, 'killed')
    await limiter.setRate({ rate: 1, interval: 400 })
    const one = await RateWorkers.start(1, redis.url, 'killed')
    workers = one
    const log = new GrantLog(redis.client(), logOf('killed'), 400)
    const late = await Lateness.of(redis)
    await limiter.acquire()
    const lost = one.acquire(0, 1).catch(() => 'lost')
    const inLine = (count: number) =>
      eventually('waits', async () => (await client.zcard('spillway:{killed}:rate:line')) === count)
    await inLine(1)
    const behind = limiter.acquire()
    await inLine(2)
    one.stop()
    expect(await lost).toBe('lost')
    await behind
    await limiter.acquire()
    const granted = await log.stop(3)
    expect(granted[1] - granted[0]).toBeGreaterThanOrEqual(400)
    const handOverMs = 5 + (await late.stop())
    expect(granted[1] - granted[0]).toBeLessThanOrEqual(400 + 1000 + handOverMs)
    expect(granted[2] - granted[1]).toBeLessThanOrEqual(400 + handOverMs)
  }, 20_000)
})

import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Lateness } from '../../test/support/lateness.js'
import { GrantLog, logOf, mostWithin, RateWorkers } from '../../test/support/rate-workers.js'
import { RedisServer } from '../../test/support/redis-server.js'

let redis: RedisServer
let workers: RateWorkers | undefined
beforeEach(async () => {
  redis = await RedisServer.start()
})
afterEach(async () => {
  workers?.stop()
  await redis.stop()
})

const PROCESSES = 8
const RATE = 18
const INTERVALS = 8

test('eight processes that share 18 per second use all 18 and never 19, with hand-overs within 5 ms', async () => {
  await new SharedRateLimiter(redis.client(), 'fleet').setRate({ rate: RATE, interval: 1000 })
  const all = await RateWorkers.start(PROCESSES, redis.url, 'fleet')
  workers = all
  const log = new GrantLog(redis.client(), logOf('fleet'), 1000)
  const late = new Lateness(redis.client())
  const answers = await Promise.all(
    all.processes.map((_, worker) => all.acquire(worker, (RATE * INTERVALS) / PROCESSES)),
  )
  const granted = await log.stop(RATE * INTERVALS)
  const lateMs = late.stop() + Math.max(...answers.map(answer => answer.lateMs))
  // By the server's clock: every permit is used again when its second is over, and not before.
  expect(mostWithin(1000, granted)).toBe(RATE)
  const handOversMs = granted.slice(RATE).map((at, i) => at - granted[i] - 1000)
  expect(Math.min(...handOversMs)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...handOversMs)).toBeLessThanOrEqual(5 + lateMs)
  handOversMs.sort((a, b) => a - b)
  if (process.env.SPILLWAY_FIGURES)
    process.stdout.write(
      `    hand-overs: median ${handOversMs[63]} ms, longest ${handOversMs[125]} ms, late ${lateMs.toFixed(1)} ms\n`,
    )
  expect(handOversMs[handOversMs.length >> 1]).toBeLessThanOrEqual(5)
}, 60_000)

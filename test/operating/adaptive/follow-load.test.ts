import { expect, test } from '@jest/globals'
import { followLoad, type Load } from '../../../src/operating/adaptive/index.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { eventually } from '../../support/eventually.js'
import { monitor } from '../../support/monitor.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

const loadOf = (level: number): Load & { level: number } => ({ level, reason: 'custom', close: () => {} })

test('a shared rate follows a load between its bounds; mode, lifetime and what was taken stay; one process writes', async () => {
  const load = loadOf(0)
  const rates = [1, 2].map(() => new SharedRateLimiter(redis.client(), 'mail'))
  const [rate] = rates
  await rate.setRate({ rate: 40, interval: '10m', mode: 'per-client', keepAlive: '20m' })
  await rate.acquire(5)
  // As many changes as there are: another writer would set the other's rate again.
  let written = 0
  const stop = await monitor(redis.port, ({ args: [command, field] }) => {
    if (/^hset$/i.test(command) && field?.includes(':rate')) written++
  })
  const followers = rates.map(each => followLoad(each, { load, min: 10, max: 40, interval: '10m' }))
  load.level = 2
  await eventually('the rate falls to its minimum', async () => (await rate.getConfig())?.rate === 10)
  expect(await rate.getConfig()).toEqual({ rate: 10, intervalMs: 600_000, mode: 'per-client', keepAliveMs: 1_200_000 })
  expect(await rate.availablePermits()).toBe(5)
  load.level = 0.1
  await eventually('it rises', async () => ((await rate.getConfig())?.rate ?? 0) >= 14)
  expect(await rate.availablePermits()).toBeGreaterThanOrEqual(9)
  expect(written).toBeGreaterThan(0)
  stop()
  await Promise.all(followers.map(follower => follower.close()))
  await Promise.all(rates.map(each => each.close()))
}, 20_000)

test('followLoad sets the largest rate if none is set', async () => {
  const rate = new SharedRateLimiter(redis.client(), 'new')
  const follower = followLoad(rate, { load: loadOf(0.8), min: 1, max: 7, interval: '1s' })
  await eventually('a rate is set', async () => (await rate.getConfig())?.rate === 7)
  await follower.close()
  await rate.close()
})

test.each([
  ['far below the bounds, in another interval', { rate: 1, interval: '1m' }, 10],
  ['far above the bounds', { rate: 1000, interval: '1s' }, 100],
  ['within them, in another interval', { rate: 300, interval: '10s' }, 30],
])('a rate that an operator sets %s is brought within the bounds, not to the largest', async (_, config, followed) => {
  const rate = new SharedRateLimiter(redis.client(), `operator ${followed}`)
  await rate.setRate({ mode: 'overall', ...config })
  const follower = followLoad(rate, { load: loadOf(0.8), min: 10, max: 100, interval: '1s' })
  await eventually('it is followed', async () => {
    const set = await rate.getConfig()
    return set?.rate === followed && set.intervalMs === 1000
  })
  await follower.close()
  await rate.close()
})

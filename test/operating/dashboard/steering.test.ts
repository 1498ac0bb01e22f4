import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals'
import { followLoad, type Load } from '../../../src/operating/adaptive/index.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { RedisServer } from '../../support/redis-server.js'
import { OpenDashboard } from './open-dashboard.js'

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterEach(() => {
  jest.useRealTimers()
})
afterAll(() => redis.stop())

test('a rate that followLoad steers says so with its bounds, and so does the answer to a change; after its end no longer', async () => {
  const client = redis.client()
  await client.ping()
  // Objects record themselves after ten seconds. From the beginning, because what is shared among viewers has an age by
  // this clock.
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] })
  const page = await OpenDashboard.start({ client, authorize: () => 'write' })
  await page.view({ page: 'waiting' })
  const load: Load = { level: 0.8, reason: 'custom', close: () => {} }
  const rates = ['mail', 'calm'].map(name => new SharedRateLimiter(client, name))
  for (const rate of rates) await rate.setRate({ rate: 40, interval: '1s' })
  const follower = followLoad(rates[0], { load, min: 10, max: 100, interval: '1s' })
  const pass = async (seconds: number) => {
    for (let i = 0; i < seconds; i++) {
      await jest.advanceTimersByTimeAsync(1000)
      await client.ping()
    }
  }
  await pass(11)
  const shown = async () => {
    // Readings are shared for a second.
    await pass(1)
    const { shared } = await page.view({ page: 'waiting' })
    return Object.fromEntries(shared.map(({ name, of, steered }) => [name, { of, steered }]))
  }
  expect(await shown()).toEqual({
    mail: { of: 40, steered: { min: 10, max: 100, intervalMs: 1000 } },
    calm: { of: 40, steered: undefined },
  })
  const set = (name: string) => page.act({ act: 'set-rate', name, rate: 50, interval: '1s' })
  expect((await set('mail')).text).toBe(
    'mail grants 50 per second. followLoad steers it, between 10 and 100 per second.',
  )
  expect((await set('calm')).text).toBe('calm grants 50 per second.')
  const closed = follower.close()
  await pass(1)
  await closed
  expect((await shown()).mail).toEqual({ of: 50, steered: undefined })
  jest.useRealTimers()
  await Promise.all(rates.map(rate => rate.close()))
  await page.close()
})

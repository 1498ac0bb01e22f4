import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { LivePolicies } from '../../src/operating/live/live-policies.js'
import { Subscriber } from '../../src/redis/subscriber.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../support/eventually.js'
import { testRedis } from '../support/test-redis.js'

describe('over Redis', () => {
  const redis = testRedis()
  afterEach(() => {
    jest.restoreAllMocks()
  })

  test('live policies that are closed twice release their subscription once', async () => {
    const subscription = jest.spyOn(Subscriber.prototype, 'subscription')
    const live = new LivePolicies(redis.client(), { defaults: { api: '1/1m' } })
    const [{ value }] = subscription.mock.results as { value: { release(): void } }[]
    const release = jest.spyOn(value, 'release')
    await live.close()
    await live.close()
    expect(release).toHaveBeenCalledTimes(1)
  })

  test.each(['a semaphore', 'a shared rate'])(
    '%s that is closed twice resolves both when its waiters have left',
    async kind => {
      const client = redis.client()
      const object =
        kind === 'a semaphore' ? new Semaphore(client, 's', { permits: 1 }) : new SharedRateLimiter(client, 'r')
      if (object instanceof SharedRateLimiter) await object.trySetRate({ rate: 1, interval: '1h' })
      await object.acquire()
      const waiting = expect(object.acquire()).rejects.toThrow('was closed')
      await eventually('it waits', async () => (await client.keys('*:asks')).length > 0)
      const first = object.close()
      let left = false
      first.then(() => {
        left = true
      })
      await object.close()
      await new Promise(resolve => setImmediate(resolve))
      expect(left).toBe(true)
      await waiting
      await client.flushall()
    },
  )
})

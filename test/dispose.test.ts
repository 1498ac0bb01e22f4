import { expect, test } from '@jest/globals'
import { DelayQueue, RateLimiter, RedisStore, Semaphore, SharedRateLimiter } from '../src/index.js'
import { reporter } from '../src/operating/dashboard/index.js'
import { LivePolicies } from '../src/operating/live/index.js'
import { alerts } from '../src/operating/observing/alerts/index.js'
import { testRedis } from './support/test-redis.js'

const redis = testRedis()

const OWNERS: Record<string, () => AsyncDisposable & { close(): Promise<void> }> = {
  RateLimiter: () => new RateLimiter({ policy: '5/1m' }),
  RedisStore: () => new RedisStore(redis.client()),
  Semaphore: () => new Semaphore(redis.client(), 'jobs', { permits: 1 }),
  SharedRateLimiter: () => new SharedRateLimiter(redis.client(), 'partner'),
  DelayQueue: () => new DelayQueue(redis.client(), 'mails'),
  LivePolicies: () => new LivePolicies(redis.client(), { defaults: { api: '5/1m' } }),
  reporter: () => reporter({ client: redis.client() }),
  alerts: () => alerts({ rules: [], notify: () => {} }),
}

test.each(Object.keys(OWNERS))('%s closes at the end of `await using`', async name => {
  const one = OWNERS[name]()
  let closes = 0
  const { close } = one
  one.close = function (this: unknown) {
    closes++
    return close.call(this)
  }
  await one[Symbol.asyncDispose]()
  // What has no class calls the function that it was made with.
  if (Object.getPrototypeOf(one) !== Object.prototype) expect(closes).toBe(1)
  await expect(close.call(one)).resolves.toBeUndefined()
})

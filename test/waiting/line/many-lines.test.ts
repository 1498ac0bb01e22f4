import { afterEach, expect, jest, test } from '@jest/globals'
import { RedisStore } from '../../../src/index.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { WaitingLine } from '../../../src/waiting/line/waiting-line.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

afterEach(() => {
  jest.restoreAllMocks()
})

test('a key that begins to wait looks at a few others, however many wait', async () => {
  const limiter = new RateLimiter({ policy: '1/1h', store: new RedisStore(redis.client()), deadline: '5s' })
  const keys = Array.from({ length: 1200 }, (_, i) => `key ${i}`)
  await Promise.all(keys.map(key => limiter.consume(key)))
  const looked = jest.spyOn(WaitingLine.prototype, 'isIdle', 'get')
  const waits = keys.map(key => limiter.acquire(key).catch(() => 'closed'))
  await Promise.resolve()
  expect(looked.mock.calls.length).toBeLessThan(1000)
  await limiter.close()
  expect(new Set(await Promise.all(waits))).toEqual(new Set(['closed']))
})

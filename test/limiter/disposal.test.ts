import { expect, jest, test } from '@jest/globals'
import { RedisStore } from '../../src/index.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()

test.each<[string, () => AsyncDisposable & { close(): Promise<void> }]>([
  ['a limiter', () => new RateLimiter({ policy: '1/1m' })],
  ['a MemoryStore', () => new MemoryStore()],
  ['a RedisStore', () => new RedisStore(redis.client())],
])('%s is closed at the end of `await using`', async (_, make) => {
  const owner = make()
  const close = jest.spyOn(owner, 'close')
  {
    await using used = owner
    expect(used).toBe(owner)
  }
  expect(close).toHaveBeenCalledTimes(1)
  expect(close.mock.results[0].value).toBeInstanceOf(Promise)
})

import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'
import { testRedis } from '../../test/support/test-redis.js'

const redis = testRedis()
let proxy: TcpProxy
let limiter: RateLimiter
let witness: RateLimiter
beforeEach(async () => {
  await redis.client().flushall()
  proxy = await TcpProxy.start(redis.port)
  const [client, other] = [redis.client({ port: proxy.port }), redis.client()]
  limiter = new RateLimiter({ policy: '5/1h', store: new RedisStore(client), deadline: '500ms' })
  witness = new RateLimiter({ policy: '5/1h', store: new RedisStore(other), deadline: '5s', denyCache: false })
  for (let i = 0; i < 4; i++) await limiter.consume('k')
})
afterEach(() => proxy.stop())
const left = async () => (await witness.peek('k', 0)).remaining

describe('a change that failed in time', () => {
  const CHANGES: Record<string, () => Promise<void>> = {
    refund: () => limiter.refund('k', 2),
    reset: () => limiter.reset('k'),
    block: () => limiter.block('k', '1h'),
  }
  test.each(Object.keys(CHANGES))('is not carried out long afterwards: %s', async name => {
    proxy.swallow()
    await expect(CHANGES[name]()).rejects.toThrow('did not answer')
    await pause(1200)
    proxy.release()
    await pause(100)
    expect(await left()).toBe(1)
    expect((await witness.peek('k')).allowed).toBe(true)
  })
})

test('a refund that the client sends again, because the connection broke before the answer, is carried out once', async () => {
  proxy.delayMs = () => 10_000
  const refund = limiter.refund('k', 1)
  refund.catch(() => {})
  await pause(100)
  proxy.delayMs = () => 0
  proxy.cut()
  await refund.catch(() => {})
  await pause(300)
  expect(await left()).toBe(2)
})

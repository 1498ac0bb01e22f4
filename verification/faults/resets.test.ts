import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { eventually } from '../../test/support/eventually.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'
import { testRedis } from '../../test/support/test-redis.js'

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

function limiterOver(client: object, prefix: string, policy = '2/1h'): RateLimiter {
  return new RateLimiter({ policy, store: new RedisStore(client, { prefix }), deadline: '5s' })
}

const listeners = async (prefix: string) => ((await admin.pubsub('NUMSUB', `${prefix}!resets`)) as [string, number])[1]

/** Has a limiter remember a denial of the key, while it listens to others. */
async function denied(limiter: RateLimiter, prefix: string, key: string): Promise<void> {
  expect((await limiter.consume(key)).allowed).toBe(false)
  await eventually('it listens', async () => (await listeners(prefix)) > 0)
  // What it had learnt before it listened is asked again.
  await eventually('it remembers', async () => (await limiter.consume(key)).source === 'deny-cache')
}

test('a connection that has gone silent is replaced within 5 s while a denial is remembered', async () => {
  const proxy = await TcpProxy.start(redis.port)
  const client = redis.client({ port: proxy.port })
  const other = limiterOver(client, 'silent')
  const one = limiterOver(redis.client(), 'silent')
  await one.consume('k', 2)
  await denied(other, 'silent', 'k')
  // It listens by the newest one.
  proxy.swallowNewest()
  const silentAt = performance.now()
  await one.reset('k')
  await eventually('it is allowed', async () => (await other.peek('k')).allowed, 8000)
  expect(performance.now() - silentAt).toBeLessThan(6000)
  await proxy.stop()
}, 20_000)

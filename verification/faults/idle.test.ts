import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { DelayQueue, RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { eventually } from '../../test/support/eventually.js'
import { closeClients } from '../../test/support/redis-clients.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'
import { testRedis } from '../../test/support/test-redis.js'
import { connected } from '../histories/clients.js'

const redis = testRedis()

test.each(['ioredis', 'ioredis 5', 'node-redis'])(
  'an idle process sends Redis nothing, nor after refusals, a wait and an outage (%s)',
  async kind => {
    const proxy = await TcpProxy.start(redis.port)
    const servers = [{ host: '127.0.0.1', port: proxy.port }]
    const place = { topology: 'single', servers, sentinels: [], doors: {} } as const
    const client = await connected({ client: kind, place })
    const limiter = new RateLimiter({ policy: '2/200ms', store: new RedisStore(client, { prefix: kind }) })
    const sentIn = async (ms: number) => {
      const before = proxy.bytes.up
      await pause(ms)
      return proxy.bytes.up - before
    }

    const isRedis = async () => (await limiter.consume('user')).source === 'redis'
    await eventually('Redis decides', isRedis)
    for (let i = 0; i < 5; i++) await limiter.consume('user')
    await limiter.acquire('user')
    await pause(100)
    expect(await sentIn(1200)).toBe(0)

    proxy.swallow()
    await Promise.all(Array.from({ length: 50 }, (_, i) => limiter.consume(`user ${i}`)))
    // The breaker is open now. It probes only at a request, and there is none.
    expect(await sentIn(600)).toBe(0)
    proxy.release()
    await eventually('Redis decides again', isRedis)

    await limiter.close()
    await closeClients()
    await proxy.stop()
  },
)

test('an idle consumer blocks for two seconds and then asks whether the queue has changed, and writes nothing', async () => {
  const admin = redis.client()
  const queue = new DelayQueue(redis.client(), 'idle')
  await queue.push('later', { delay: '1h' })
  const consumer = queue.consume(async () => {})
  // The first block ends, and a look that knows the queue as it is now. After ten seconds the queue records itself.
  await pause(4600)
  await admin.config('RESETSTAT')
  await pause(4800)
  const stats = await admin.info('commandstats')
  const calls = Object.fromEntries([...stats.matchAll(/cmdstat_(\w+):calls=(\d+)/g)].map(([, name, n]) => [name, +n]))
  const { config: _, info: __, ...sent } = calls
  expect(Object.keys(sent).sort()).toEqual(['bzpopmin', 'evalsha', 'get'])
  for (const count of Object.values(sent)) expect(count).toBeLessThanOrEqual(3)
  await consumer.close()
  await queue.close()
})

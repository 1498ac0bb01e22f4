import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { parseLimit } from '../../src/limiter/core/limit.js'
import { portOf } from '../../src/redis/clients.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { RedisCounter } from '../../src/replacing/koa-ratelimit/counters.js'
import { RateLimiterRedis } from '../../src/replacing/rate-limiter-flexible/index.js'
import { RedisCluster } from '../support/redis-cluster.js'

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await RedisCluster.start()
}, 30_000)
afterAll(() => cluster?.stop())

const NAMES = Array.from({ length: 8 }, (_, i) => `client ${i}`)

const MANY = Array.from({ length: 64 }, (_, i) => `client ${i}`)

/** The server that has a key. */
async function ownerOf(key: string): Promise<string> {
  const { host, port } = await cluster.ownerOf(await cluster.slotOf(key))
  return `${host}:${port}`
}

describe.each(['app:', '{app}:', 'a{', 'a{}b:'])('on a cluster whose client adds the prefix %p', keyPrefix => {
  test('koa-ratelimit counts 64 keys in one turn', async () => {
    const namespace = `koa${keyPrefix.length}`
    const counter = new RedisCounter(cluster.client({ keyPrefix }), namespace, 5, 60_000)
    await counter.count('first')
    const counts = await Promise.allSettled(MANY.map(name => counter.count(name)))
    const left = counts.map(count => (count.status === 'fulfilled' ? count.value.remaining : count.reason.message))
    expect(left).toEqual(counts.map(() => 4))
  })

  test('rate-limiter-flexible counts 64 keys in one turn', async () => {
    const storeClient = cluster.client({ keyPrefix })
    const limiter = new RateLimiterRedis({ storeClient, points: 5, duration: 60 })
    await limiter.consume('first')
    const counts = await Promise.allSettled(MANY.map(name => limiter.consume(name)))
    const left = counts.map(count =>
      count.status === 'fulfilled' ? count.value.remainingPoints : count.reason.message,
    )
    expect(left).toEqual(counts.map(() => 4))
    await limiter.set('first', 3, 60)
    expect((await limiter.get('first'))?.consumedPoints).toBe(3)
  })
})

test.each(['app:', '{app}:', 'a{', 'a{}b:'])(
  'with the prefix %p the server of a key is the one that the client asks',
  async keyPrefix => {
    const client = cluster.client({ keyPrefix })
    const port = portOf(client, 'test')
    await client.get('first')
    for (const key of NAMES) {
      expect(port.serverOf(port.slotOf(key))).toBe(await ownerOf(keyPrefix + key))
    }
  },
)

test.each(['app:', '{app}:', 'a{'])('with the prefix %p a limiter knows which server decides', async keyPrefix => {
  const store = new RedisStore(cluster.client({ keyPrefix }), { prefix: 'charges' })
  const limit = parseLimit({ quota: 5, window: '1h' })
  for (const key of NAMES) {
    await store.consume([{ key, limit }], 1)
    const sent = (await Promise.all(cluster.nodes.map(node => node.client().keys('*')))).flat()
    const found = sent.find(name => name.startsWith(`${keyPrefix}charges:`) && name.includes(`:${key}:`))
    expect(store.serverOf?.({ key, limit })).toBe(await ownerOf(String(found)))
  }
})

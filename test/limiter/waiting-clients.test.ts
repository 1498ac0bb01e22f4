import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { RedisClient } from '../../src/redis/client.js'
import { eventually } from '../support/eventually.js'
import { RedisCluster } from '../support/redis-cluster.js'
import { RedisServer } from '../support/redis-server.js'

let server: RedisServer
let cluster: RedisCluster
let prefixes = 0
let watchers: Redis[]
let node: ReturnType<typeof createClient>
beforeAll(async () => {
  ;[server, cluster] = await Promise.all([RedisServer.start(), RedisCluster.start()])
  watchers = [server.url, ...cluster.nodes.map(({ url }) => url)].map(url => server.track(new Redis(url)))
  node = createClient({ url: server.url })
  await node.connect()
}, 60_000)
afterAll(async () => {
  node.destroy()
  await Promise.all([server.stop(), cluster.stop()])
})

/** True when somebody listens to a channel of that prefix, on whatever server. */
async function isHeard(prefix: string): Promise<boolean> {
  const channels = await Promise.all(
    watchers.map(watcher => watcher.pubsub('CHANNELS', `*${prefix}*`) as Promise<string[]>),
  )
  return channels.flat().length > 0
}

describe.each<[string, () => RedisClient]>([
  ['a cluster', () => cluster.client()],
  ['node-redis', () => node],
])('whoever waits over %s', (_, clientOf) => {
  const limiterOf = (policy: string, prefix = 'spillway') =>
    new RateLimiter({ policy, store: new RedisStore(clientOf(), { prefix }), deadline: '5s' })

  test.each(['1/50ms', '1/50ms token-bucket', '1/50ms leaky-bucket burst=9'])(
    'is served in the order of the requests, for keys of any slot (%s)',
    async policy => {
      const limiter = limiterOf(policy)
      const order: string[] = []
      const keys = ['a', 'b', 'c']
      await Promise.all(
        keys.flatMap(key =>
          [1, 2, 3, 4].map(async n => {
            expect(await limiter.acquire(key)).toMatchObject({ allowed: true, source: 'redis' })
            order.push(`${key}${n}`)
          }),
        ),
      )
      for (const key of keys) {
        expect(order.filter(name => name.startsWith(key))).toEqual([1, 2, 3, 4].map(n => `${key}${n}`))
      }
    },
  )

  test('moves up when one before it gives up, and waits for the end of a block', async () => {
    const prefix = `moves-up-${prefixes++}-`
    const limiter = limiterOf('1/1h', prefix)
    const control = new AbortController()
    const first = await limiter.acquire('k')
    const quitter = limiter.acquire('k', { signal: control.signal })
    const patient = limiter.acquire('k')
    await limiter.peek('k', 0)
    control.abort(new Error('gives up'))
    await expect(quitter).rejects.toThrow('gives up')
    await eventually('it listens', () => isHeard(prefix))
    await limiter.settle(first, 0)
    expect(await patient).toMatchObject({ allowed: true })
    const startedAt = performance.now()
    await limiter.block('other', '200ms')
    await limiter.acquire('other')
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(150)
  })
})

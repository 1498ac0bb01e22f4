import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Cluster as Cluster5 } from 'ioredis5'
import * as nodeRedis6 from 'redis'
import * as nodeRedis4 from 'redis4'
import * as nodeRedis5 from 'redis5'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { RedisClient } from '../../src/redis/client.js'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import { RedisCluster } from '../support/redis-cluster.js'
import { eventually } from '../support/redis-process.js'
import { RedisSentinel } from '../support/redis-sentinel.js'
import { RedisServer } from '../support/redis-server.js'
import { describeStore } from '../support/store-contract.js'

/** What every version of a node-redis client can do. */
interface NodeRedis {
  connect(): Promise<unknown>
  disconnect(): Promise<void> | void
  on(event: 'error', listener: () => void): unknown
}

let redis: RedisServer
let cluster: RedisCluster
const opened: NodeRedis[] = []
beforeAll(async () => {
  ;[redis, cluster] = await Promise.all([RedisServer.start(), RedisCluster.start()])
}, 60_000)
afterAll(async () => {
  await Promise.all(opened.map(client => client.disconnect()))
  await Promise.all([redis.stop(), cluster.stop()])
})

async function connected<Client extends NodeRedis>(client: Client): Promise<Client> {
  client.on('error', () => {})
  await client.connect()
  opened.push(client)
  return client
}

const rootNodes = () => cluster.nodes.map(({ url }) => ({ url }))

const CLIENTS: Readonly<Record<string, () => Promise<RedisClient> | RedisClient>> = {
  'node-redis 6': () => connected(nodeRedis6.createClient({ url: redis.url })),
  'node-redis 5': () => connected(nodeRedis5.createClient({ url: redis.url })),
  'node-redis 4': () => connected(nodeRedis4.createClient({ url: redis.url })),
  'a cluster of node-redis 6': () => connected(nodeRedis6.createCluster({ rootNodes: rootNodes() })),
  'a cluster of node-redis 5': () => connected(nodeRedis5.createCluster({ rootNodes: rootNodes() })),
  'a cluster of node-redis 4': () => connected(nodeRedis4.createCluster({ rootNodes: rootNodes() })),
  'a cluster of ioredis 5': () => new Cluster5(cluster.nodes.map(({ host, port }) => ({ host, port }))),
}

let stores = 0
for (const [name, make] of Object.entries(CLIENTS)) {
  let client: RedisClient
  describeStore(`RedisStore over ${name}`, {
    make: clock => new RedisStore(client, { clock, prefix: `store ${stores++}` }),
    promises: 100,
    properties: 10,
    start: async () => {
      client = await make()
    },
    stop: async () => {
      if (client instanceof Cluster5) client.disconnect()
    },
  })
}

describe.each(Object.keys(CLIENTS))('acquire over %s', name => {
  test('a waiter moves up when the one before it gives up, and that is no failure of the store', async () => {
    const client = await CLIENTS[name]()
    const failures: Error[] = []
    const limiter = new RateLimiter({
      policy: '1/400ms',
      store: new RedisStore(client, { prefix: `acquire ${name}` }),
      deadline: '5s',
      observer: { storeFailed: error => failures.push(error) },
    })
    await eventually('Redis decides', async () => (await limiter.consume('warm')).source === 'redis')
    await limiter.acquire('k')
    const impatient = new AbortController()
    const first = limiter.acquire('k', { signal: impatient.signal })
    first.catch(() => {})
    const second = limiter.acquire('k')
    const askedAt = performance.now()
    await new Promise(done => setTimeout(done, 150))
    impatient.abort(new Error('gone'))
    await expect(first).rejects.toThrow('gone')
    expect((await second).source).toBe('redis')
    expect(performance.now() - askedAt).toBeLessThan(700)
    expect(failures).toEqual([])
    if (client instanceof Cluster5) client.disconnect()
  })
})

describe('a sentinel of node-redis', () => {
  test('decides and books, without moving up', async () => {
    const group = await RedisSentinel.start()
    const sentinelRootNodes = group.sentinels.map(({ host, port }) => ({ host, port }))
    const client = nodeRedis6.createSentinel({ name: 'spillway', sentinelRootNodes })
    client.on('error', () => {})
    await client.connect()
    const limiter = new RateLimiter({ policy: '1/300ms', store: new RedisStore(client), deadline: '5s' })
    expect((await limiter.consume('k')).source).toBe('redis')
    expect((await limiter.acquire('k')).source).toBe('redis')
    client.destroy()
    await group.stop()
  }, 30_000)
})

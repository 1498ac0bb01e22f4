import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Decoder, GlideClient, GlideClusterClient, Logger, ProtocolVersion } from '@valkey/valkey-glide'
import { RedisStore } from '../../../src/index.js'
import { StoreError } from '../../../src/limiter/core/errors.js'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { reporter } from '../../../src/operating/dashboard/index.js'
import { clientName } from '../../../src/redis/clients.js'
import { Subscriber } from '../../../src/redis/subscriber.js'
import { RedisStore as DropInStore } from '../../../src/replacing/express-rate-limit/index.js'
import { Semaphore } from '../../../src/waiting/semaphore/semaphore.js'
import { OpenDashboard } from '../../operating/dashboard/open-dashboard.js'
import { eventually } from '../../support/eventually.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { RedisServer } from '../../support/redis-server.js'
import { TcpProxy } from '../../support/tcp-proxy.js'

Logger.setLoggerConfig('off')

let redis: RedisServer
let cluster: RedisCluster
let client: GlideClient
let clusterClient: GlideClusterClient
const open: { close(): void }[] = []
const at = ({ host, port }: { host: string; port: number }) => ({ host, port })
async function kept<Client extends { close(): void }>(made: Promise<Client>): Promise<Client> {
  const client = await made
  open.push(client)
  return client
}
const glide = (port = redis.port, more = {}) =>
  kept(GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port }], ...more }))
beforeAll(async () => {
  ;[redis, cluster] = await Promise.all([RedisServer.start(), RedisCluster.start()])
  client = await glide()
  clusterClient = await kept(GlideClusterClient.createClient({ addresses: cluster.nodes.map(at) }))
}, 60_000)
afterAll(async () => {
  for (const each of open) each.close()
  await Promise.all([redis.stop(), cluster.stop()])
})

test('on a cluster the tags of one node share a breaker: beside a node that hangs only some decisions wait', async () => {
  const store = new RedisStore(clusterClient, { prefix: 'breaker' })
  const limiter = new RateLimiter({ policy: '2/1h', store, observer: {} })
  for (let i = 0; i < 100; i++) await limiter.consume(`warm ${i}`)
  const [node] = cluster.nodes
  node.pause()
  const decisions = []
  const startedAt = performance.now()
  for (let i = 0; i < 300; i++) decisions.push(await limiter.consume(`k${i}`))
  const tookMs = performance.now() - startedAt
  node.unpause()
  const degraded = decisions.filter(decision => decision.degraded).length
  // A third of them are the node's; 20 in a row open its breaker, and then one in 200 ms probes it.
  expect(degraded).toBeGreaterThan(60)
  expect(degraded).toBeLessThan(140)
  expect(tookMs).toBeLessThan(40 * 50)
})

describe('the client of GLIDE', () => {
  test('may use RESP2 and read bytes: texts are decoded, and listening works', async () => {
    const odd = await glide(redis.port, { protocol: ProtocolVersion.RESP2, defaultDecoder: Decoder.Bytes })
    const store = new RedisStore(odd, { prefix: 'odd' })
    const limiter = new RateLimiter({ policy: '2/1h; 5/1d', store, deadline: '5s' })
    expect(await limiter.consume('k')).toMatchObject({ source: 'redis', remaining: 1 })
    const [holder, waiter] = [new Semaphore(odd, 'jobs', { permits: 1 }), new Semaphore(odd, 'jobs')]
    const lease = await holder.acquire()
    const next = waiter.acquire({ timeout: '5s' })
    await eventually('it listens', async () => (await redis.client().pubsub('CHANNELS', 'spillway!turns:*')).length > 0)
    await lease.release()
    await (await next).release()
    await Promise.all([holder.close(), waiter.close()])
  })

  test('reports errors in the words of the server', async () => {
    const store = new RedisStore(client, { prefix: 'wrong' })
    const limiter = new RateLimiter({ policy: '1/1h', store, deadline: '5s', onStoreFailure: 'closed' })
    await limiter.acquire('k')
    const log = (await redis.client().keys('wrong:{k}:*')).find(key => !key.includes(':line'))
    await redis.client().set(`${log}:line:meta`, 'something else')
    // A fault is told at once: it would come again.
    await expect(limiter.acquire('k')).rejects.toThrow(/: WRONGTYPE Operation against a key/)
  })

  test('reports a missing permission for a channel in the words of the server, and hears the others', async () => {
    const users = ['on', 'nopass', '~*', '+@all', 'resetchannels', '&allowed']
    await redis.client().call('ACL', 'SETUSER', 'deaf', ...users)
    const deaf = await glide(redis.port, { credentials: { username: 'deaf', password: 'x' } })
    const told: string[] = []
    const hold = (channel: string) => {
      const listener = {
        hear: (text: string) => told.push(text),
        live() {},
        refused: ({ message }: Error) => told.push(`${channel}: ${message}`),
      }
      const subscription = Subscriber.of(deaf)!.subscription(channel, listener)
      subscription.hold()
      return subscription
    }
    const [allowed] = [hold('allowed'), hold('forbidden')]
    await eventually('it is refused', async () => told.length > 0)
    expect(told).toEqual(['forbidden: NOPERM: the server did not let GLIDE subscribe to forbidden within 1000 ms'])
    await eventually('the other channel is live', async () => allowed.live)
    await redis.client().publish('allowed', 'heard')
    await eventually('it is heard', async () => told.includes('heard'))
    allowed.release()
  })

  test('is not used after it was closed', async () => {
    const closed = await glide()
    closed.close()
    await expect(new RedisStore(closed).consume([{ key: 'k', limit: parsePolicy('1/1s')[0] }], 1)).rejects.toThrow(
      new StoreError('the Redis client is not connected'),
    )
  })

  test('is named by its address, or as a cluster', () => {
    expect(clientName(client)).toBe(`127.0.0.1:${redis.port}`)
    expect(clientName(clusterClient)).toBe('a cluster')
  })

  test('serves the dashboard, on one server and on a cluster', async () => {
    for (const each of [client, clusterClient]) {
      const observer = reporter({ client: each, every: '20ms', service: 'shop', version: '1.2.0', prefix: 'board' })
      const page = await OpenDashboard.start({ client: each, prefix: 'board', authorize: () => 'read' })
      const limiter = new RateLimiter({
        policy: '5/1h',
        name: 'login',
        store: new RedisStore(each),
        deadline: '5s',
        observer,
      })
      for (let i = 0; i < 7; i++) await limiter.consume('k')
      const { status } = await page.shows('limits', ({ rows }) => rows[0]?.limiter === 'login')
      expect(status.processes).toBe(1)
      observer.close()
      await page.close()
    }
  })
})

describe('a lost connection of GLIDE', () => {
  test('that loses its connection after a decision was carried out does not carry it out twice', async () => {
    const proxy = await TcpProxy.start(redis.port)
    const cut = await glide(proxy.port)
    const limiterOver = (over: object) =>
      new RateLimiter({
        policy: '9/1h',
        store: new RedisStore(over, { prefix: 'cut' }),
        deadline: '5s',
        onStoreFailure: 'closed',
      })
    const limiter = limiterOver(cut)
    const spent = async () => 9 - (await limiterOver(client).peek('k', 0)).remaining
    for (let i = 0; i < 2; i++) await limiter.consume('k')
    proxy.delayMs = () => 10_000
    const done = limiter.consume('k')
    await eventually('it is carried out', async () => (await spent()) === 3)
    proxy.delayMs = () => 0
    proxy.cut()
    expect((await done).source).toBe('closed')
    await eventually('it decides again', async () => (await limiter.consume('other')).source === 'redis')
    expect(await spent()).toBe(3)
    await proxy.stop()
  })

  test('is noticed by listeners, although GLIDE reconnects by itself without an event', async () => {
    const kill: Record<string, () => Promise<unknown>> = {
      single: () => redis.client().call('CLIENT', 'KILL', 'TYPE', 'pubsub'),
      cluster: () => Promise.all(cluster.nodes.map(node => node.client().call('CLIENT', 'KILL', 'TYPE', 'pubsub'))),
    }
    await Promise.all(
      [await glide(), clusterClient].map(async (each, i) => {
        let lives = 0
        const heard: string[] = []
        const listener = { hear: (text: string) => heard.push(text), live: () => lives++ }
        const subscription = Subscriber.of(each)!.subscription('{x}:news', listener)
        subscription.hold()
        await eventually('live', async () => subscription.live)
        await kill[i === 0 ? 'single' : 'cluster']()
        await eventually(
          'live again',
          async () => {
            subscription.check()
            return lives === 2
          },
          6000,
        )
        await each.publish('again', '{x}:news')
        await eventually('heard', async () => heard.at(-1) === 'again')
        subscription.release()
      }),
    )
  })

  test('a server that stands still degrades decisions within their deadline, and charges none of them later', async () => {
    const server = await RedisServer.start()
    const own = await glide(server.port)
    const limiter = new RateLimiter({ policy: '9/1h', store: new RedisStore(own), onStoreFailure: 'closed' })
    await eventually('Redis decides', async () => (await limiter.consume('warm')).source === 'redis')
    server.pause()
    const startedAt = performance.now()
    const degraded = await Promise.all([1, 2, 3].map(() => limiter.consume('k')))
    expect(performance.now() - startedAt).toBeLessThan(250)
    expect(degraded.map(({ source }) => source)).toEqual(['closed', 'closed', 'closed'])
    // The server hangs for longer than the breaker waits before it asks again.
    await new Promise(done => setTimeout(done, 200))
    server.unpause()
    await eventually('Redis decides again', async () => (await limiter.consume('warm')).source === 'redis')
    expect((await limiter.peek('k', 0)).remaining).toBe(9)
    await server.stop()
  })
})

test('the drop-in for express-rate-limit counts over GLIDE, and resetAll forgets the keys of all nodes', async () => {
  for (const each of [client, clusterClient]) {
    const store = new DropInStore({ client: each, prefix: 'drop*in:' })
    store.init({ windowMs: 60_000 })
    const keys = Array.from({ length: 50 }, (_, i) => `client ${i}`)
    const count = async () =>
      (await Promise.all(keys.map(key => store.increment(key)))).map(({ totalHits }) => totalHits)
    expect(new Set(await count())).toEqual(new Set([1]))
    expect(new Set(await count())).toEqual(new Set([2]))
    await store.resetAll()
    expect(new Set(await count())).toEqual(new Set([1]))
  }
})

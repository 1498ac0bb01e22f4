import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { eventually } from '../../test/support/eventually.js'
import { olderModule } from '../../test/support/older.js'
import { RedisCluster } from '../../test/support/redis-cluster.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'
import { testRedis } from '../../test/support/test-redis.js'

jest.setTimeout(30_000)

const limiterOver = (client: object, deadline: number | string) =>
  new RateLimiter({ policy: '5/1h', store: new RedisStore(client), deadline, denyCache: false })
/** The spent units of the key, read by a client without faults. */
const spent = async (client: object, key: string) => 5 - (await limiterOver(client, '5s').peek(key, 0)).remaining

const redis = testRedis()
let proxy: TcpProxy
beforeEach(async () => {
  await redis.client().flushall()
  proxy = await TcpProxy.start(redis.port)
})
afterEach(() => proxy.stop())

describe('a decision that was given up is not carried out', () => {
  test('by a server that stood still (SIGSTOP), although it had answered nothing before', async () => {
    const client = redis.client()
    await client.ping()
    const limiter = limiterOver(client, 50)
    redis.pause()
    const decisions = await Promise.all([limiter.consume('k'), limiter.consume('k', 2)])
    expect(decisions.map(({ degraded }) => degraded)).toEqual([true, true])
    await pause(150)
    redis.unpause()
    await client.ping()
    expect(await spent(redis.client(), 'k')).toBe(0)
  })

  test('by a server that stood still for a little longer than the deadline and 50 ms', async () => {
    const client = redis.client()
    const limiter = limiterOver(client, 50)
    await eventually('it is decided by Redis', async () => !(await limiter.consume('other')).degraded)
    redis.pause()
    expect(await limiter.consume('k')).toMatchObject({ degraded: true })
    await pause(60)
    redis.unpause()
    await client.ping()
    expect(await spent(redis.client(), 'k')).toBe(0)
  })

  test('when the client gets its first connection at last', async () => {
    proxy.swallow()
    const client = redis.client({ port: proxy.port })
    const limiter = limiterOver(client, 50)
    expect(await limiter.consume('k')).toMatchObject({ degraded: true })
    await pause(150)
    proxy.release()
    await client.ping()
    expect(await spent(redis.client(), 'k')).toBe(0)
  })

  test('when the clock of the next server is behind', async () => {
    const client = redis.client({ port: proxy.port })
    const limiter = limiterOver(client, 50)
    await eventually('it is decided by Redis', async () => !(await limiter.consume('other')).degraded)
    // What was learnt of one server's clock is not used for the next.
    proxy.cut()
    await eventually('it is connected again', async () => (await client.ping()) === 'PONG')
    redis.pause()
    expect(await limiter.consume('k')).toMatchObject({ degraded: true })
    await pause(100)
    redis.unpause()
    await client.ping()
    expect(await spent(redis.client(), 'k')).toBe(0)
  })
})

describe('a change that was given up is not carried out long afterwards', () => {
  test.each<[string, (limiter: RateLimiter) => Promise<void>]>([
    ['refund', limiter => limiter.refund('k', 2)],
    ['reset', limiter => limiter.reset('k')],
    ['block', limiter => limiter.block('k', '1h')],
  ])('%s', async (_, change) => {
    const limiter = limiterOver(redis.client({ port: proxy.port }), '500ms')
    for (let i = 0; i < 4; i++) await limiter.consume('k')
    proxy.swallow()
    await expect(change(limiter)).rejects.toThrow('did not answer')
    await pause(1200)
    proxy.release()
    await pause(100)
    expect(await spent(redis.client(), 'k')).toBe(4)
    expect((await limiterOver(redis.client(), '5s').peek('k')).allowed).toBe(true)
  })
})

test('an answer that comes within the deadline counts, also after more than a second', async () => {
  const limiter = limiterOver(redis.client(), '4s')
  await limiter.consume('other')
  redis.pause()
  const decision = limiter.consume('k')
  setTimeout(() => redis.unpause(), 1500)
  expect(await decision).toMatchObject({ source: 'redis', degraded: false, remaining: 4 })
})

describe('a command that the client repeats, because the connection broke before the answer, is carried out once', () => {
  test.each<[string, number, (limiter: RateLimiter) => Promise<unknown>]>([
    ['a decision', 3, limiter => limiter.consume('k')],
    ['a refund', 1, limiter => limiter.refund('k')],
  ])('%s', async (_, expected, act) => {
    const client = redis.client({ port: proxy.port })
    const limiter = limiterOver(client, '5s')
    await limiter.consume('k', 2)
    // The server learns the script.
    await limiter.refund('other')
    proxy.delayMs = () => 10_000
    const done = act(limiter).catch(() => {})
    await eventually('it is carried out', async () => (await spent(redis.client(), 'k')) === expected)
    proxy.delayMs = () => 0
    proxy.cut()
    await done
    expect(await spent(redis.client(), 'k')).toBe(expected)
  })

  const CLIENTS: Record<string, () => Redis> = {
    'ioredis 5': () => new (olderModule<{ Redis: typeof Redis }>('ioredis5').Redis)({ port: proxy.port }),
    'ioredis with auto-pipelining': () => redis.client({ port: proxy.port, enableAutoPipelining: true }),
    'a client that is wrapped, and sends later': () => {
      const client = redis.client({ port: proxy.port })
      const { evalsha } = client
      client.evalsha = (async (...args: Parameters<typeof evalsha>) => {
        await pause(1)
        return evalsha.apply(client, args)
      }) as typeof evalsha
      return client
    },
  }
  test.each(Object.keys(CLIENTS))('a decision, by %s', async name => {
    const client = CLIENTS[name]()
    try {
      const limiter = limiterOver(client, '5s')
      // The server has learnt the script, and the limiter how the client keeps what it sends.
      for (let i = 0; i < 2; i++) await limiter.consume('k')
      proxy.delayMs = () => 10_000
      const done = limiter.consume('k')
      await eventually('it is carried out', async () => (await spent(redis.client(), 'k')) === 3)
      proxy.delayMs = () => 0
      proxy.cut()
      await done
      expect(await spent(redis.client(), 'k')).toBe(3)
    } finally {
      client.disconnect()
    }
  })

  test('a thousand decisions, over a connection that is cut ten times: no key is charged twice', async () => {
    const client = redis.client({ port: proxy.port, retryStrategy: () => 5 })
    const limiter = limiterOver(client, '2s')
    await limiter.consume('first')
    const keys: string[] = []
    for (let round = 0; round < 10; round++) {
      // Redis has decided, and its answers are under way.
      proxy.delayMs = () => 1000
      const decisions = Array.from({ length: 100 }, (_, i) => {
        keys.push(`${round}.${i}`)
        return limiter.consume(`${round}.${i}`)
      })
      await pause(20)
      proxy.delayMs = () => 0
      proxy.cut()
      await Promise.all(decisions)
      await eventually('Redis decides again', async () => (await limiter.peek('first')).source === 'redis')
    }
    const witness = redis.client()
    const counts = await Promise.all(keys.map(key => spent(witness, key)))
    expect(counts.filter(count => count === 1).length).toBeGreaterThan(100)
    expect(counts.filter(count => count > 1)).toEqual([])
  })

  test('on a cluster, which asks the next connection of its own accord', async () => {
    const cluster = await RedisCluster.start()
    try {
      const client = cluster.client()
      const limiter = limiterOver(client, '5s')
      await limiter.consume('k')
      const [key] = await keysOf(cluster)
      const owner = await cluster.ownerOf(await cluster.slotOf(key))
      owner.pause()
      const done = limiter.consume('k')
      await pause(50)
      const node = client.nodes('master').find(({ options }) => options.port === owner.port) as Redis
      ;(node as unknown as { stream: { destroy(): void } }).stream.destroy()
      await pause(300)
      owner.unpause()
      await done
      expect(await spent(client, 'k')).toBe(2)
    } finally {
      await cluster.stop()
    }
  })
})

async function keysOf(cluster: RedisCluster): Promise<string[]> {
  const keys = await Promise.all(cluster.nodes.map(node => node.client().keys('*')))
  return keys.flat()
}

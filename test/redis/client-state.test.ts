import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient, createClientPool } from 'redis'
import * as redis4 from 'redis4'
import * as redis5 from 'redis5'
import { PolicyError } from '../../src/limiter/core/errors.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { RedisClient } from '../../src/redis/client.js'
import { portOf } from '../../src/redis/clients.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { attemptsTo } from '../support/reconnection-contract.js'
import { eventually } from '../support/redis-process.js'
import { RedisServer } from '../support/redis-server.js'
import { TcpProxy } from '../support/tcp-proxy.js'

let redis: RedisServer
const closers: (() => unknown)[] = []
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(async () => {
  await Promise.all(closers.map(close => close()))
  await redis.stop()
})

/** A client whose server refuses connections until the door accepts them. */
async function shut<Client extends RedisClient>(make: (port: number) => Client) {
  const door = await TcpProxy.start(redis.port)
  const { port } = door
  await door.refuse()
  const client = make(port)
  closers.push(() => door.stop())
  return { door, client, port: portOf(client, 'test') }
}

const nodeRedis = (lib: { createClient(options: object): RedisClient }) => (port: number) => {
  const client = lib.createClient({ socket: { host: '127.0.0.1', port, reconnectStrategy: 50 } }) as ReturnType<
    typeof createClient
  >
  client.on('error', () => {})
  closers.push(() => (client.destroy ? client.destroy() : client.disconnect()))
  return client
}
const ioredis =
  (Client: typeof Redis, more = {}) =>
  (port: number) =>
    redis.track(new Client({ host: '127.0.0.1', port, retryStrategy: () => 50, ...more }))

const CLIENTS: readonly [string, (port: number) => RedisClient, 'starting' | 'unopened'][] = [
  ['ioredis 6', ioredis(Redis), 'starting'],
  ['ioredis 5', ioredis(Redis5 as unknown as typeof Redis), 'starting'],
  ['node-redis 6', nodeRedis({ createClient }), 'unopened'],
  ['node-redis 5', nodeRedis(redis5 as never), 'unopened'],
  ['node-redis 4', nodeRedis(redis4 as never), 'unopened'],
]

describe('the state of a client', () => {
  test.concurrent.each(CLIENTS)(
    'of %s is starting until its first attempt has failed, then down until it is ready',
    async (_, make, first) => {
      const { door, client, port } = await shut(make)
      expect(port.state()).toBe(first)
      const seen: string[] = []
      const lost = new Promise<void>(done =>
        port.onLost(() => {
          seen.push(port.state())
          done()
        }),
      )
      let readies = 0
      port.onReady(() => {
        readies++
        seen.push(port.state())
      })
      if (first === 'unopened') (client as ReturnType<typeof createClient>).connect().catch(() => {})
      expect(port.state()).toBe('starting')
      await lost
      for (const end = performance.now() + 120; performance.now() < end; ) {
        seen.push(port.state())
        await new Promise(done => setTimeout(done, 1))
      }
      expect(new Set(seen)).toEqual(new Set(['down']))
      seen.length = 0
      await door.accept()
      await eventually('it is ready', async () => readies > 0)
      expect(seen.at(-1)).toBe('ready')
      await door.refuse()
      await eventually('it is down', async () => port.state() === 'down')
      await door.accept()
      await eventually('it is ready again', async () => readies > 1)
    },
  )

  test('a failure of node-redis is heard without handling it: an application without a listener for errors still ends', async () => {
    const { client, port } = await shut(number =>
      createClient({ socket: { host: '127.0.0.1', port: number, reconnectStrategy: false } }),
    )
    expect(port.state()).toBe('unopened')
    await expect(client.connect()).rejects.toThrow(/ECONNREFUSED/)
    expect(port.state()).toBe('down')
    expect(client.listenerCount('error')).toBe(0)
  })
})

test('a lazy client is opened by the first decision, and never again', async () => {
  const { door, client, port } = await shut(number =>
    redis.track(new Redis({ host: '127.0.0.1', port: number, lazyConnect: true, retryStrategy: () => 1000 })),
  )
  const at = (client as Redis).options.port as number
  const limiter = new RateLimiter({ policy: '9/1h', store: new RedisStore(client), observer: {} })
  expect([client.status, attemptsTo(at)]).toEqual(['wait', 0])
  await limiter.consume('k')
  for (let i = 0; i < 5; i++) {
    port.open()
    await limiter.consume('k')
    await new Promise(done => setTimeout(done, 20))
  }
  expect([client.status, attemptsTo(at)]).toEqual(['reconnecting', 1])
  await door.accept()
  await eventually('Redis decides', async () => (await limiter.consume('k')).source === 'redis')
})

describe('what node-redis makes besides clients', () => {
  test('a client of version 4 in legacy mode is refused, and the client that the error names works', async () => {
    const legacy = redis4.createClient({ url: redis.url, legacyMode: true })
    expect(() => new RedisStore(legacy)).toThrow(PolicyError)
    expect(() => new RedisStore(legacy)).toThrow(
      'RedisStore: client a client of node-redis 4 in legacy mode: expected a client without it, whose commands return promises, like client.duplicate({ legacyMode: false }), and await its connect()',
    )
    // Has commands, but is no client.
    expect(() => new RedisStore(legacy.v4)).toThrow(PolicyError)
    const plain = legacy.duplicate({ legacyMode: false })
    await plain.connect()
    closers.push(() => plain.disconnect())
    const limiter = new RateLimiter({ policy: '9/1h', store: new RedisStore(plain), deadline: '5s' })
    expect(await limiter.consume('legacy')).toMatchObject({ source: 'redis', remaining: 8 })
  })

  test.each<[string, RedisClient]>([
    ['6', createClientPool()],
    ['6, of a client', createClient().createPool()],
    ['5', redis5.createClientPool()],
  ])(
    'a pool of version %s is refused: it hears no changes, and connects for each decision while the server is dead',
    (_, pool) => {
      expect(() => new RedisStore(pool)).toThrow(PolicyError)
      expect(() => new RedisStore(pool)).toThrow(
        /^RedisStore: client a pool of node-redis: expected one client, like createClient/,
      )
    },
  )
})

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { createClient, createClientPool } from 'redis'
import { RedisStore } from '../../src/index.js'
import { PolicyError } from '../../src/limiter/core/errors.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { RedisClient } from '../../src/redis/client.js'
import { portOf } from '../../src/redis/clients.js'
import { eventually } from '../support/eventually.js'
import { older } from '../support/older.js'
import { attemptsTo } from '../support/reconnection-contract.js'
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

interface NodeRedis {
  createClient(options: object): RedisClient
}
const nodeRedis = (lib: NodeRedis) => (port: number) => {
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

type ClientRow = [string, (port: number) => RedisClient, 'starting' | 'unopened']
const CLIENTS: readonly ClientRow[] = [
  ['ioredis 6', ioredis(Redis), 'starting'],
  ...older('ioredis5', (lib: { Redis: typeof Redis }): ClientRow => ['ioredis 5', ioredis(lib.Redis), 'starting']),
  ['node-redis 6', nodeRedis({ createClient }), 'unopened'],
  ...older('redis5', (lib: NodeRedis): ClientRow => ['node-redis 5', nodeRedis(lib), 'unopened']),
  ...older('redis4', (lib: NodeRedis): ClientRow => ['node-redis 4', nodeRedis(lib), 'unopened']),
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

/** A client of node-redis 4 in its legacy mode. */
type Legacy = RedisClient & { v4: RedisClient; duplicate(options: object): ReturnType<typeof createClient> }

describe('what node-redis makes besides clients', () => {
  older('redis4', ({ createClient }: { createClient(options: object): Legacy }) =>
    test('a client of version 4 in legacy mode is refused, and the client that the error names works', async () => {
      const legacy = createClient({ url: redis.url, legacyMode: true })
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
    }),
  )

  test.each<[string, RedisClient]>([
    ['6', createClientPool()],
    ['6, of a client', createClient().createPool()],
    ...older('redis5', (lib: { createClientPool(): RedisClient }): [string, RedisClient] => [
      '5',
      lib.createClientPool(),
    ]),
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

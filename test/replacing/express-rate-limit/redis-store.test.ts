import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import express from 'express'
import type { Redis } from 'ioredis'
import { createClient } from 'redis'
import { RedisStore } from '../../../src/replacing/express-rate-limit/index.js'
import { RedisServer } from '../../support/redis-server.js'
import { stateKeys } from '../../support/state-keys.js'
import { testRedis } from '../../support/test-redis.js'
import { OURS, THEIRS, World } from './world.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})
beforeEach(() => client.flushall())

function storeOf(options: ConstructorParameters<typeof RedisStore>[0] = { client }, windowMs = 60_000): RedisStore {
  const store = new RedisStore(options as { client: object })
  store.init({ windowMs })
  return store
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1)
const hits = async (store: RedisStore, key = 'me') => (await store.get(key))?.totalHits

describe('RedisStore', () => {
  test('counts from the first hit for one window, gives back, forgets', async () => {
    const store = storeOf()
    const before = Date.now()
    const first = await store.increment('me')
    expect(first.totalHits).toBe(1)
    expect(first.resetTime!.getTime()).toBeGreaterThanOrEqual(before + 60_000)
    expect(first.resetTime!.getTime()).toBeLessThanOrEqual(Date.now() + 60_000)
    expect((await store.increment('me')).totalHits).toBe(2)
    expect(await hits(store)).toBe(2)
    await store.decrement('me')
    expect(await hits(store)).toBe(1)
    await store.resetKey('me')
    expect(await store.get('me')).toBeUndefined()
  })

  test('giving back never goes below 0 and never makes a key', async () => {
    const store = storeOf()
    await store.decrement('me')
    expect(await stateKeys(client)).toEqual([])
    await store.increment('me')
    for (let i = 0; i < 3; i++) await store.decrement('me')
    expect(await hits(store)).toBe(0)
    expect((await store.increment('me')).totalHits).toBe(1)
  })

  test('200 at once over several connections are counted 1 to 200', async () => {
    const stores = [storeOf(), storeOf({ client: redis.client() }), storeOf({ client: redis.client() })]
    const counted = await Promise.all(upTo(200).map((_, i) => stores[i % 3].increment('me')))
    expect(counted.map(({ totalHits }) => totalHits).sort((a, b) => a - b)).toEqual(upTo(200))
  })

  test('every key has a lifetime', async () => {
    const store = storeOf({ client }, 5000)
    await store.increment('me')
    await store.increment('you')
    const lifetimes = await Promise.all((await stateKeys(client)).map(key => client.pttl(key)))
    expect(lifetimes).toHaveLength(2)
    // Longer than the window by some seconds, because no decision may depend on it.
    for (const ms of lifetimes) expect(ms > 0 && ms <= 5000 + 6000).toBe(true)
  })

  test('prefixes keep counts apart, also one that looks like another', async () => {
    const stores = ['a:', 'a', 'a:b:', 'a*', 'rl:'].map(prefix => storeOf({ client, prefix }))
    for (const store of stores) expect((await store.increment('me')).totalHits).toBe(1)
    expect((await stateKeys(client)).sort()[0]).toMatch(/^a#|^a%|^a:/)
  })

  test('resetAll forgets the keys of its prefix and nothing else', async () => {
    const [mine, other, odd] = ['mine:', 'other:', 'o[*]?:'].map(prefix => storeOf({ client, prefix }))
    await client.set('mine', 'not ours')
    for (const store of [mine, other, odd]) for (const key of ['a', 'b', '2001:db8::/56']) await store.increment(key)
    await mine.resetAll()
    expect([await hits(mine, 'a'), await hits(mine, '2001:db8::/56'), await hits(other, 'a')]).toEqual([
      undefined,
      undefined,
      1,
    ])
    await odd.resetAll()
    expect([await hits(odd, 'a'), await hits(other, 'a'), await client.get('mine')]).toEqual([undefined, 1, 'not ours'])
  })

  test('continues to count after SCRIPT FLUSH, and counts from 1 after FLUSHALL', async () => {
    const store = storeOf()
    await store.increment('me')
    await client.script('FLUSH')
    expect((await store.increment('me')).totalHits).toBe(2)
    await client.script('FLUSH')
    await store.decrement('me')
    expect(await hits(store)).toBe(1)
    await client.flushall()
    expect((await store.increment('me')).totalHits).toBe(1)
  })

  test('reports that other instances count its keys, and its prefix', () => {
    expect(storeOf()).toMatchObject({ localKeys: false, prefix: 'rl:' })
    expect(storeOf({ client, prefix: 'mine:' }).prefix).toBe('mine:')
  })
})

/** A client of node-redis, whose end is expected here. */
async function nodeRedis() {
  const other = createClient({ url: redis.url })
  other.on('error', () => {})
  return other.connect()
}

describe('RedisStore is given', () => {
  const works = async (store: RedisStore) => {
    store.init({ windowMs: 60_000 })
    const counted = await Promise.all(upTo(5).map(() => store.increment('me')))
    expect(counted.map(({ totalHits }) => totalHits)).toEqual(upTo(5))
    await store.decrement('me')
    expect(await hits(store)).toBe(4)
    await store.resetAll()
    expect(await store.get('me')).toBeUndefined()
    expect((await store.increment('me')).totalHits).toBe(1)
    await store.resetKey('me')
    expect(await stateKeys(client)).toEqual([])
  }

  test('a client of ioredis, with or without options', async () => {
    await works(new RedisStore(client))
    await works(new RedisStore(client, { prefix: 'mine:' }))
    await works(new RedisStore({ client }))
  })

  test('a client of ioredis with a key prefix', async () => {
    await works(new RedisStore({ client: redis.client({ keyPrefix: 'app*:' }) }))
  })

  test('a client of node-redis', async () => {
    const other = await nodeRedis()
    await works(new RedisStore({ client: other }))
    other.destroy()
  })

  test('sendCommand, like rate-limit-redis', async () => {
    await works(new RedisStore({ sendCommand: (...args: string[]) => client.call(...(args as [string])) }))
    const other = await nodeRedis()
    await works(new RedisStore({ sendCommand: (...args: string[]) => other.sendCommand(args), prefix: 'mine:' }))
    other.destroy()
  })

  test('sendCommandCluster, which receives the key', async () => {
    const keys = new Set<string | undefined>()
    const sendCommandCluster = async ({ key, command }: { key?: string; command: string[] }) => {
      keys.add(key)
      return client.call(...(command as [string]))
    }
    const store = storeOf({ sendCommandCluster })
    expect((await store.increment('me')).totalHits).toBe(1)
    expect([...keys]).toEqual([expect.stringContaining('rl:{')])
    await expect(store.resetAll()).rejects.toThrow('expected the client itself')
  })

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['no client', { prefix: 'rl:' }],
    ['what is no client', { client: {} }],
    ['no function', { sendCommand: 'GET' }],
    ['an empty prefix', { client: 'here', prefix: '' }],
    ['a deadline of 0', { client: 'here', deadline: 0 }],
    ['resetExpiryOnChange', { client: 'here', resetExpiryOnChange: true }],
  ])('%s, and says what it expects', (_, options) => {
    const given = (options as { client?: unknown })?.client === 'here' ? { ...(options as object), client } : options
    expect(() => new RedisStore(given as { client: object })).toThrow(/expected/)
  })
})

describe('behind a limiter', () => {
  test.each([OURS, THEIRS])('of $name, counts for two services together', async module => {
    const world = new World(module, express)
    const serve = () => world.serve(world.limiter({ limit: 3, store: new RedisStore({ client: redis.client() }) }))
    const [one, two] = [serve(), serve()]
    expect([await world.statuses(2, one), await world.statuses(2, two)]).toEqual([
      [200, 200],
      [200, 429],
    ])
    expect((await world.get(one)).headers['x-ratelimit-remaining']).toBe('0')
    expect(world.logged).toEqual([])
  })

  test('the deadline of the store holds for another algorithm, too', async () => {
    const world = new World(OURS, express)
    const store = new RedisStore({ client, deadline: '5s' })
    const app = world.serve(world.limiter({ limit: 2, algorithm: 'sliding-window', store }))
    expect(await world.statuses(1, app)).toEqual([200])
    await client.call('CLIENT', 'PAUSE', '200')
    expect(await world.statuses(2, app)).toEqual([200, 429])
  })

  test('a window in words is as long for another algorithm as for the store', async () => {
    const world = new World(OURS, express)
    const store = new RedisStore({ client, deadline: '5s' })
    const app = world.serve(
      world.limiter({ limit: 2, windowMs: '14m60s' as never, algorithm: 'sliding-window', store }),
    )
    expect(await world.statuses(3, app)).toEqual([200, 200, 429])
    const [key] = await stateKeys(client)
    expect(await client.pttl(key)).toBeGreaterThan(14 * 60_000)
  })

  test('another algorithm counts on the same Redis, and refusals spend nothing', async () => {
    const world = new World(OURS, express)
    const store = new RedisStore({ client, deadline: '5s' })
    const limiter = world.limiter({ limit: 2, windowMs: 60_000, algorithm: 'sliding-window', store })
    const app = world.serve(limiter)
    expect(await world.statuses(4, app)).toEqual([200, 200, 429, 429])
    expect(await limiter.getKey('192.0.2.1')).toMatchObject({ totalHits: 2 })
    limiter.resetKey('192.0.2.1')
    expect(await world.statuses(3, app)).toEqual([200, 200, 429])
  })

  test('while Redis is down, each request is answered within the deadline, as passOnStoreError says', async () => {
    const own = await RedisServer.start()
    try {
      const world = new World(OURS, express)
      const limiter = (passOnStoreError: boolean) => {
        const store = new RedisStore({ client: own.client(), deadline: '100ms', prefix: `${passOnStoreError}:` })
        return world.serve(world.limiter({ store, passOnStoreError }))
      }
      const [closed, open] = [limiter(false), limiter(true)]
      expect([await world.statuses(1, closed), await world.statuses(1, open)]).toEqual([[200], [200]])
      own.pause()
      expect([await world.statuses(1, closed), await world.statuses(1, open)]).toEqual([[500], [200]])
      own.unpause()
      await own.kill()
      expect([await world.statuses(2, closed), await world.statuses(2, open)]).toEqual([
        [500, 500],
        [200, 200],
      ])
      expect(world.logged.filter(([, , text]) => text)).toHaveLength(3)
    } finally {
      await own.stop()
    }
  })
})

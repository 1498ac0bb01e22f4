import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { PolicyError, RateLimiter, RedisStore } from '../../../src/index.js'
import { closeClients } from '../../support/redis-clients.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

let names = 0
function open(policy = '5/1m', client: object = redis.client()) {
  const prefix = `blocked-${names++}`
  const store = new RedisStore(client as Redis, { prefix })
  const limiterOf = (name: string) => new RateLimiter({ policy, name, store, deadline: '5s' })
  return { prefix, store, limiterOf }
}

/** Lists that are read whole are told exactly; of long ones, at least how many there are. */
describe('RedisStore.inspect', () => {
  test('lists the keys that are blocked, whoever blocked them, those first that are blocked longest', async () => {
    const { prefix, store, limiterOf } = open('5/1m; 100/1h')
    const elsewhere = new RateLimiter({
      policy: '5/1m; 100/1h',
      name: 'login',
      store: new RedisStore(redis.client(), { prefix }),
      deadline: '5s',
    })
    const limiter = limiterOf('login')
    limiterOf('search')
    const keys = ['203.0.113.9', 'user:42', 'a {b} %c', '', 'ключ', 'lone \ud800']
    const now = Date.now()
    for (const [i, key] of keys.entries()) await elsewhere.block(key, 60_000 * (i + 1))
    await limiterOf('search').block('other', '1h')
    const { blocked } = await store.inspect({ limiter: 'login' })
    expect(blocked.more).toBe(0)
    expect(blocked.items.map(({ limiter, key }) => [limiter, key])).toEqual(
      [...keys].reverse().map(key => ['login', key]),
    )
    for (const [i, { until }] of [...blocked.items].reverse().entries())
      expect(Math.abs(until - now - 60_000 * (i + 1))).toBeLessThan(5000)
    expect((await store.inspect({ limiter: ['login', 'search'], limit: 1 })).blocked).toMatchObject({
      items: [{ limiter: 'search', key: 'other' }],
      more: 6,
    })
    await limiter.unblock('ключ')
    expect((await store.inspect({ limiter: 'login', key: 'ключ' })).blocked).toEqual({ items: [], more: 0 })
    expect((await store.inspect({ limiter: 'login', key: 'user:42' })).blocked).toMatchObject({
      items: [{ limiter: 'login', key: 'user:42' }],
      more: 0,
    })
  })

  test('is one call that changes nothing, and says how many it does not list', async () => {
    const { prefix, store, limiterOf } = open('5/1m; 100/1h')
    const client = redis.client()
    const limiter = limiterOf('login')
    await Promise.all(Array.from({ length: 120 }, (_, i) => limiter.block(`key ${i}`, '1h')))
    await limiter.block('long ago', 1)
    const dumped = async () =>
      Promise.all((await client.keys(`${prefix}*`)).sort().map(key => client.dumpBuffer(key).then(String)))
    const before = await dumped()
    const calls = async () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats'))?.[1])
    await store.inspect({ limiter: 'login' })
    const counted = await calls()
    const { blocked } = await store.inspect({ limiter: 'login' })
    expect((await calls()) - counted).toBe(1)
    expect([blocked.items.length, blocked.more]).toEqual([50, 70])
    expect((await store.inspect({ limiter: 'login', limit: 1000 })).blocked).toMatchObject({ more: 0 })
    expect((await store.inspect({ limiter: 'login', limit: 0 })).blocked).toEqual({ items: [], more: 120 })
    expect(await dumped()).toEqual(before)
  })

  test('knows nothing of a limiter that this process has not built, and refuses invalid options', async () => {
    const { store, limiterOf } = open()
    limiterOf('login')
    expect((await store.inspect({ limiter: 'nobody' })).blocked).toEqual({ items: [], more: 0 })
    for (const options of [{}, { limiter: 3 }, { limiter: 'login', limit: 1001 }, { limiter: 'login', most: 1 }])
      await expect(store.inspect(options as never)).rejects.toThrow(PolicyError)
  })
})

describe('on a cluster', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await RedisCluster.start()
  }, 60_000)
  afterAll(async () => {
    await closeClients()
    await cluster.stop()
  })

  test('it reads the lists of all hash tags, and those of one key at its own', async () => {
    const client = cluster.client()
    await client.ping()
    const { store, limiterOf } = open('5/1m; 100/1h', client)
    const limiter = limiterOf('login')
    for (let i = 0; i < 30; i++) await limiter.block(`user:${i}`, '1h')
    const { blocked } = await store.inspect({ limiter: 'login' })
    expect(blocked.items.map(({ key }) => key).sort()).toEqual(Array.from({ length: 30 }, (_, i) => `user:${i}`).sort())
    expect((await store.inspect({ limiter: 'login', key: 'user:7' })).blocked.items).toMatchObject([{ key: 'user:7' }])
    const few = (await store.inspect({ limiter: 'login', limit: 5 })).blocked
    expect([few.items.length, few.more]).toEqual([5, 25])
  })
})

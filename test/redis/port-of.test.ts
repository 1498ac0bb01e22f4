import { describe, expect, test } from '@jest/globals'
import { GlideClient, GlideClusterClient } from '@valkey/valkey-glide'
import { Cluster, Redis } from 'ioredis'
import * as iovalkey from 'iovalkey'
import { createClient, createCluster } from 'redis'
import { PolicyError } from '../../src/limiter/core/errors.js'
import { portOf } from '../../src/redis/clients.js'
import { RedisStore, type RedisStoreOptions } from '../../src/redis/store/redis-store.js'
import { older } from '../support/older.js'

const lazy = { lazyConnect: true }
const nowhere = { addresses: [{ host: '127.0.0.1', port: 1 }], lazyConnect: true }

describe('a Redis client', () => {
  type Row = [string, object | Promise<object>, boolean]
  type Ioredis = typeof import('ioredis')
  test.each<Row>([
    ['ioredis 6', new Redis(lazy), false],
    ...older('ioredis5', (lib: Ioredis): Row => ['ioredis 5', new lib.Redis(lazy), false]),
    ['a cluster of ioredis 6', new Cluster([{ port: 1 }], lazy), true],
    ...older('ioredis5', (lib: Ioredis): Row => ['a cluster of ioredis 5', new lib.Cluster([{ port: 1 }], lazy), true]),
    ['iovalkey', new iovalkey.Redis(lazy), false],
    ['a cluster of iovalkey', new iovalkey.Cluster([{ port: 1 }], lazy), true],
    ['node-redis', createClient(), false],
    ['a cluster of node-redis', createCluster({ rootNodes: [{ url: 'redis://127.0.0.1:1' }] }), true],
    ['GLIDE', GlideClient.createClient(nowhere), false],
    ['a cluster of GLIDE', GlideClusterClient.createClient(nowhere), true],
  ])('of %s is known by its shape', async (_, made, cluster) => {
    const client = await made
    expect(portOf(client, 'test').cluster).toBe(cluster)
    expect(() => new RedisStore(client)).not.toThrow()
    if (client instanceof GlideClient || client instanceof GlideClusterClient) client.close()
  })

  test('has one port, however many objects use it', () => {
    const client = new Redis(lazy)
    expect(portOf(client, 'a')).toBe(portOf(client, 'b'))
  })

  test.each<[string, unknown, string]>([
    ['nothing', undefined, 'undefined'],
    ['null', null, 'null'],
    ['its address', 'redis://127.0.0.1:6379', '"redis://127.0.0.1:6379"'],
    ['its options', { host: '127.0.0.1', port: 6379 }, 'an object { host, port }'],
    ['its class', Redis, 'a function'],
    ['a promise of it', Promise.resolve(), 'an object of class Promise'],
    ['a map', new Map(), 'an object of class Map'],
    ['half of it', { status: 'ready', evalsha() {} }, 'an object { status, evalsha }'],
    [
      'its methods as texts',
      { status: 'ready', evalsha: 'x', eval: 'x', connect: 'x', on: 'x' },
      'an object { status, evalsha, eval, connect, on }',
    ],
    ['an array', [], 'an array of 0'],
  ])('that is none, %s, is refused when the store is built', (_, client, shown) => {
    const attempt = () => new RedisStore(client as object)
    expect(attempt).toThrow(PolicyError)
    expect(attempt).toThrow(`RedisStore: client ${shown}: expected a client of ioredis or iovalkey, like new Redis(`)
    expect(attempt).toThrow(
      / of node-redis, like createClient\(.+ or of @valkey\/valkey-glide, like await GlideClient\./,
    )
  })
})

test.each<[string, unknown, string]>([
  ['an empty prefix', { prefix: '' }, 'RedisStore: prefix "": expected a text that is not empty, like "spillway"'],
  ['a prefix that is a number', { prefix: 1 }, 'RedisStore: prefix 1: expected a text'],
  [
    'a clock without now',
    { clock: {} },
    'RedisStore: clock an object {  }: expected an object with now(), like new ManualClock()',
  ],
  ['no batch', { maxBatch: 0 }, 'RedisStore: maxBatch 0: expected an integer ≥ 1, like 128'],
  ['half a batch', { maxBatch: 1.5 }, 'RedisStore: maxBatch 1.5: expected an integer'],
])('a RedisStore refuses %s', (_, options, message) => {
  const attempt = () => new RedisStore(new Redis(lazy), options as RedisStoreOptions)
  expect(attempt).toThrow(PolicyError)
  expect(attempt).toThrow(message)
})

import { describe, expect, test } from '@jest/globals'
import { GlideClient, GlideClusterClient } from '@valkey/valkey-glide'
import { Cluster, Redis } from 'ioredis'
import * as iovalkey from 'iovalkey'
import { createClient, createCluster } from 'redis'
import { RedisStore } from '../../src/index.js'
import { portOf } from '../../src/redis/clients.js'
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
})

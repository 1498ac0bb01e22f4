import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { createCluster } from 'redis'
import type { RedisClient } from '../../../src/redis/client.js'
import { RedisStore } from '../../../src/replacing/express-rate-limit/index.js'
import { older } from '../../support/older.js'
import { RedisCluster } from '../../support/redis-cluster.js'

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await RedisCluster.start()
}, 30_000)
afterAll(() => cluster.stop())

const rootNodes = () => cluster.nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` }))

interface Connecting {
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  disconnect?(): Promise<unknown>
  destroy?(): unknown
}

async function connected<Client extends Connecting>(client: Client) {
  client.on('error', () => {})
  await client.connect()
  return { client, end: async () => (client.destroy ? client.destroy() : await client.disconnect?.()) }
}

type Row = [string, () => Promise<{ client: RedisClient; end: () => Promise<unknown> }>]
test.each<Row>([
  ['ioredis', async () => ({ client: cluster.client(), end: async () => {} })],
  ['node-redis 6', () => connected(createCluster({ rootNodes: rootNodes() }))],
  ...older(
    'redis4',
    (lib: { createCluster: typeof createCluster }): Row => [
      'node-redis 4',
      () => connected(lib.createCluster({ rootNodes: rootNodes() })),
    ],
  ),
])('on a cluster, by %s: counts each key, and forgets those of all nodes', async (name, make) => {
  const { client, end } = await make()
  const store = new RedisStore({ client, prefix: `${name}:` })
  store.init({ windowMs: 60_000 })
  const keys = Array.from({ length: 50 }, (_, i) => `client ${i}`)
  const count = async () => (await Promise.all(keys.map(key => store.increment(key)))).map(({ totalHits }) => totalHits)
  expect(new Set(await count())).toEqual(new Set([1]))
  expect(new Set(await count())).toEqual(new Set([2]))
  await store.resetAll()
  expect(new Set(await count())).toEqual(new Set([1]))
  await end()
})

import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { StoreError } from '../../src/limiter/core/errors.js'
import type { Observer } from '../../src/limiter/core/observer.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { eventually } from '../../test/support/eventually.js'
import { olderModule } from '../../test/support/older.js'
import { RedisCluster } from '../../test/support/redis-cluster.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'

let redis: RedisServer
beforeEach(async () => {
  redis = await RedisServer.start()
})
afterEach(() => redis.stop())

let names = 0
const nextName = () => `faults-${names++}`
const infoNumber = async (section: string, field: string) =>
  Number(new RegExp(`${field}:(\\d+)`).exec(await redis.client().info(section))?.[1])
const blocked = () => infoNumber('clients', 'blocked_clients')
const untilOneMoreBlocks = (before: number) => eventually('it waits', async () => (await blocked()) > before)

describe('a consumer whose blocking connection has gone silent', () => {
  const CLIENTS: ReadonlyArray<readonly [kind: string, open: (port: number) => Promise<{ duplicate: unknown }>]> = [
    ['ioredis', async port => redis.client({ port })],
    [
      'node-redis',
      async port =>
        redis.track(
          await createClient({ url: `redis://127.0.0.1:${port}` })
            .on('error', () => {})
            .connect(),
        ),
    ],
  ]
  test.each(CLIENTS)(
    'notices it within 5 s (%s)',
    async (_, open) => {
      const proxy = await TcpProxy.start(redis.port)
      const name = nextName()
      const [client, silenced, healthy] = [await open(redis.port), await open(proxy.port), await open(redis.port)]
      client.duplicate = (overrides: object) =>
        ((proxy.isHole ? healthy : silenced) as { duplicate(overrides: object): object }).duplicate(overrides)
      const before = await blocked()
      const queue = new DelayQueue<number>(client, name)
      const lateMs: number[] = []
      const consumer = queue.consume(async ({ dueAt }) => {
        lateMs.push(Date.now() - dueAt)
      })
      await untilOneMoreBlocks(before)
      proxy.swallow()
      await new DelayQueue(redis.client(), name).push(1)
      await eventually('it is delivered', async () => lateMs.length === 1, 8000)
      expect(lateMs[0]).toBeLessThanOrEqual(5000)
      await consumer.close()
      await queue.close()
      await proxy.stop()
    },
    20_000,
  )
})

/** The connections of these servers that block, by their ids: a connection that is opened again has another. */
async function blockingIds(servers: readonly RedisServer[], admins: readonly Redis[]): Promise<string[]> {
  const lists = (await Promise.all(admins.map(admin => admin.client('LIST')))) as string[]
  const ids = lists.flatMap((list, i) =>
    [...list.matchAll(/^id=(\d+) .* cmd=bzpopmin /gm)].map(([, id]) => `${servers[i].port} ${id}`),
  )
  return ids.sort()
}

/**
 * How a service notices a dead connection: the client pings, and closes what stays silent. A block is silent for
 * longer.
 */
const PINGING = { pingInterval: 1000, socket: { socketTimeout: 3000 }, commandOptions: { timeout: 2000 } }

type NodeRedis = typeof import('redis')

describe('with a pingInterval the blocking connection stays', () => {
  test('of node-redis 4, 5 and 6', async () => {
    const clients = [createClient, ...['redis4', 'redis5'].map(name => olderModule<NodeRedis>(name).createClient)].map(
      create => (create as typeof createClient)({ url: redis.url, ...PINGING }).on('error', () => {}),
    )
    for (const client of clients) await client.connect()
    const queues = clients.map(client => new DelayQueue(client, 'pinged'))
    const consumers = queues.map(queue => queue.consume(async () => {}))
    const ids = () => blockingIds([redis], [redis.client()])
    await eventually('all wait', async () => (await ids()).length === 3)
    const before = await ids()
    await pause(8000)
    await eventually('all wait', async () => (await ids()).length === 3)
    expect(await ids()).toEqual(before)
    await Promise.all(consumers.map(consumer => consumer.close()))
    await Promise.all(queues.map(queue => queue.close()))
    for (const client of clients) await client.disconnect()
  }, 20_000)

  test('of a cluster of node-redis', async () => {
    const cluster = await RedisCluster.start()
    const client = createCluster({ rootNodes: [{ url: cluster.nodes[0].url }], defaults: PINGING })
    client.on('error', () => {})
    await client.connect()
    const queue = new DelayQueue(client, 'pinged')
    const consumer = queue.consume(async () => {})
    const admins = cluster.nodes.map(node => node.client())
    const ids = () => blockingIds(cluster.nodes, admins)
    await eventually('it waits', async () => (await ids()).length === 1)
    const before = await ids()
    await pause(8000)
    await eventually('it waits', async () => (await ids()).length === 1)
    expect(await ids()).toEqual(before)
    await consumer.close()
    await queue.close()
    await client.close()
    await cluster.stop()
  }, 30_000)
})

test.each([
  ['is idle', 3000, 0],
  ['begins', 5000, 1],
] as const)(
  'a consumer that %s while Redis hangs tells its observer within %d ms',
  async (_, withinMs, stage) => {
    const failed: string[] = []
    const observer: Observer = { consumerFailed: ({ queue }) => failed.push(queue) }
    const handled: string[] = []
    const name = nextName()
    const queue = new DelayQueue<string>(redis.client(), name, { observer })
    await queue.stats()
    if (stage === 1) redis.pause()
    const before = stage === 0 ? await blocked() : 0
    const consumer = queue.consume(async ({ payload }) => void handled.push(payload))
    if (stage === 0) {
      await untilOneMoreBlocks(before)
      redis.pause()
    }
    await eventually('it is told', async () => failed.length > 0, withinMs + 500)
    expect(failed).toEqual([name])
    redis.unpause()
    await queue.push('after')
    await eventually('it works again', async () => handled.includes('after'), 10_000)
    await consumer.close()
    await queue.close()
  },
  40_000,
)

test('while Redis hangs, each push and each settlement rejects five seconds after its call, however many wait before it', async () => {
  const queue = new DelayQueue(redis.client(), nextName(), { visibility: '1m' })
  await queue.pushMany([1, 2].map(payload => ({ payload })))
  const deliveries = await queue.receive({ count: 2 })
  redis.pause()
  const took: number[] = []
  const rejected = async (call: () => Promise<unknown>) => {
    const calledAt = performance.now()
    await expect(call()).rejects.toBeInstanceOf(StoreError)
    took.push(performance.now() - calledAt)
  }
  const calls = [
    rejected(() => queue.push('first')),
    rejected(() => deliveries[0].ack()),
    rejected(() => queue.pushMany(Array.from({ length: 350 }, payload => ({ payload })))),
  ]
  // Both calls to Redis are in flight.
  await pause(500)
  calls.push(
    rejected(() => queue.push('later')),
    rejected(() => deliveries[1].ack()),
  )
  await Promise.all(calls)
  redis.unpause()
  for (const ms of took) {
    expect(ms).toBeGreaterThan(4900)
    expect(ms).toBeLessThan(5500)
  }
  // Afterwards all is well.
  expect(await queue.push('again')).not.toBeNull()
  await queue.close()
}, 30_000)

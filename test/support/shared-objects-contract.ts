import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { LivePolicies } from '../../src/operating/live/live-policies.js'
import type { RedisClient } from '../../src/redis/client.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { eventually } from './eventually.js'
import { type ClientKind, closeClients } from './redis-clients.js'
import { RedisCluster } from './redis-cluster.js'
import { RedisSentinel } from './redis-sentinel.js'
import { RedisServer } from './redis-server.js'

/** Within so long comes what was told; who is told nothing asks every second. */
const TOLD_MS = 700
const ASKED_MS = 2500

/**
 * What shared objects do over every client, on one server, on a cluster and by sentinels. Each cell of the table of
 * clients in docs/clients.md is a title of this contract, or of the contract of stores.
 */
export function describeSharedObjects(kinds: Readonly<Record<string, ClientKind>>): void {
  let redis: RedisServer
  let cluster: RedisCluster
  let group: RedisSentinel
  let watchers: Redis[]
  beforeAll(async () => {
    ;[redis, cluster, group] = await Promise.all([RedisServer.start(), RedisCluster.start(), RedisSentinel.start()])
    const servers = [redis, ...cluster.nodes, await group.primary()]
    watchers = servers.map(server => server.client())
  }, 60_000)
  afterAll(async () => {
    await closeClients()
    await Promise.all([redis.stop(), cluster.stop(), group.stop()])
  })

  /** True when some server counts a listener whose channel begins so. */
  async function isHeard(start: string): Promise<boolean> {
    const channels = await Promise.all(
      watchers.map(watcher => watcher.pubsub('CHANNELS', `${start}*`) as Promise<string[]>),
    )
    return channels.flat().length > 0
  }
  /** How many connections block on a sorted set, on all servers. */
  async function blocked(): Promise<number> {
    const lists = (await Promise.all(watchers.map(watcher => watcher.client('LIST')))) as string[]
    return lists.join('').split(/ cmd=bzpopmin /).length - 1
  }

  const forms = Object.entries(kinds).flatMap(([name, { single, cluster: clustered, sentinel, listens, blocks }]) => {
    const all = [{ name, listens, blocks, make: () => single(redis) }]
    if (clustered) all.push({ name: `a cluster of ${name}`, listens, blocks, make: () => clustered(cluster) })
    if (sentinel) {
      // A sentinel of node-redis gives no connection away.
      const gives = !name.startsWith('node-redis')
      all.push({ name: `${name} by sentinels`, listens: gives, blocks: gives, make: () => sentinel(group) })
    }
    return all
  })

  describe.each(forms)('over $name', ({ name, listens, blocks, make }) => {
    let client: RedisClient
    let other: RedisClient
    beforeAll(async () => {
      ;[client, other] = await Promise.all([make(), make()])
    })

    test(`a released permit goes to who waits ${listens ? 'at once, because it listens' : 'when it asks again'}`, async () => {
      const prefix = `semaphore ${name}`
      const holder = new Semaphore(client, 'jobs', { permits: 1, prefix })
      const waiter = new Semaphore(other, 'jobs', { prefix })
      const lease = await holder.acquire()
      const next = waiter.acquire({ timeout: '10s' })
      if (listens) await eventually('it listens', () => isHeard(prefix))
      else await eventually('it waits', async () => (await waiter.availablePermits()) === 0)
      const releasedAt = performance.now()
      await lease.release()
      const second = await next
      expect(performance.now() - releasedAt).toBeLessThan(listens ? TOLD_MS : ASKED_MS)
      await second.release()
      await Promise.all([holder.close(), waiter.close()])
    })

    test('a shared rate grants in the order of the requests, never too early', async () => {
      const [a, b] = [client, other].map(each => new SharedRateLimiter(each, 'calls', { prefix: `rate ${name}` }))
      await a.setRate({ rate: 1, interval: '100ms' })
      await a.acquire()
      const startedAt = performance.now()
      const order: string[] = []
      const first = a.acquire().then(() => order.push('first'))
      await eventually('one waits', async () => (await a.tryAcquire()) === false)
      const second = b.acquire().then(() => order.push('second'))
      await Promise.all([first, second])
      expect(order).toEqual(['first', 'second'])
      expect(performance.now() - startedAt).toBeGreaterThan(150)
      await Promise.all([a.close(), b.close()])
    })

    test(`a message is received ${blocks ? 'at once, because a connection blocks for it' : 'when the receiver asks again'}`, async () => {
      const prefix = `queue ${name}`
      const [sender, receiver] = [
        new DelayQueue<string>(client, 'mail', { prefix }),
        new DelayQueue<string>(other, 'mail', { prefix }),
      ]
      const before = await blocked()
      const waiting = receiver.receive({ wait: '10s' })
      if (blocks) await eventually('it blocks', async () => (await blocked()) > before)
      const pushedAt = performance.now()
      await sender.push('hello')
      const [delivery] = await waiting
      expect(performance.now() - pushedAt).toBeLessThan(blocks ? TOLD_MS : ASKED_MS)
      expect(delivery.payload).toBe('hello')
      await delivery.ack()
      await Promise.all([sender.close(), receiver.close()])
      await eventually('nothing blocks any more', async () => (await blocked()) <= before)
    })

    test('a semaphore, a rate and a queue tell about themselves, by one call each that changes nothing', async () => {
      const prefix = `inspect ${name}`
      const semaphore = new Semaphore(client, 'jobs', { permits: 3, prefix })
      const rate = new SharedRateLimiter(client, 'calls', { prefix })
      const queue = new DelayQueue<string>(client, 'mail', { prefix })
      const lease = await semaphore.acquire({ permits: 2 })
      await rate.setRate({ rate: 5, interval: '1h' })
      await rate.acquire(2)
      await queue.push('hello', { id: 'one', delay: '1h' })
      expect(await semaphore.inspect()).toMatchObject({
        permits: 3,
        available: 1,
        waiting: 0,
        longestWaitMs: 0,
        holders: { items: [{ id: lease.id, permits: 2 }], more: 0 },
      })
      expect(await rate.inspect()).toMatchObject({ config: { rate: 5 }, available: 3, waiting: 0, longestWaitMs: 0 })
      expect(await queue.inspect()).toMatchObject({
        delayed: 1,
        messages: { items: [{ id: 'one', state: 'delayed', payload: '"hello"' }], more: 0 },
      })
      await lease.release()
      await Promise.all([semaphore.close(), rate.close(), queue.close()])
    })

    test('limits that are changed live hold within a second, and a reset ends a denial elsewhere', async () => {
      const prefix = `live ${name}`
      const defaults = { api: '1/1h' }
      const [here, there] = [
        new LivePolicies(client, { defaults, prefix }),
        new LivePolicies(other, { defaults, prefix }),
      ]
      await here.set('api', '2/1h')
      const setAt = performance.now()
      await eventually('it is in force', async () => there.for('api')[0].quota === 2)
      expect(performance.now() - setAt).toBeLessThan(1000)
      await Promise.all([here.close(), there.close()])
      const limiters = [client, other].map(
        each => new RateLimiter({ policy: '1/1h', store: new RedisStore(each, { prefix }), deadline: '5s' }),
      )
      await limiters[0].consume('k')
      expect((await limiters[1].consume('k')).allowed).toBe(false)
      await limiters[0].reset('k')
      // Who does not listen, or not yet, remembers a denial for a second.
      const askedAt = performance.now()
      await eventually('it is allowed', async () => (await limiters[1].consume('k')).allowed)
      expect(performance.now() - askedAt).toBeLessThan(ASKED_MS)
    })
  })
}

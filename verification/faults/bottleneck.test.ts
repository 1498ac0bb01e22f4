import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { createCluster } from 'redis'
import { Bottleneck } from '../../src/replacing/bottleneck/index.js'
import { keysOf } from '../../src/replacing/bottleneck/redis-store.js'
import { Child } from '../../test/support/child.js'
import { eventually } from '../../test/support/eventually.js'
import { RedisCluster } from '../../test/support/redis-cluster.js'
import { RedisSentinel } from '../../test/support/redis-sentinel.js'
import { RedisServer } from '../../test/support/redis-server.js'

jest.setTimeout(90_000)

const children: Child[] = []
const connections: { disconnect(flush?: boolean): Promise<void> }[] = []
afterEach(async () => {
  for (const child of children.splice(0)) child.kill()
  await Promise.all(connections.splice(0).map(connection => connection.disconnect(false)))
})

/** A process of its own with a limiter of the id 'shared', and `say`; its clock is wrong by so much. */
async function start(server: RedisServer, options: object, work: string, skewMs = 0): Promise<Child> {
  const child = await Child.start(`
    import { setTimeout as sleep } from 'node:timers/promises'
    import { Redis } from 'ioredis'
    import { Bottleneck } from './src/replacing/bottleneck/index.js'
    const real = Date.now
    Date.now = () => real() + ${skewMs}
    const limiter = new Bottleneck({ ...${JSON.stringify(options)}, datastore: 'ioredis', id: 'shared', Redis, clientOptions: { port: ${server.port} } })
    const { client } = await limiter.ready()
    const say = text => process.send(text)
    say('ready')
    ${work}`)
  children.push(child)
  return child
}

/** A limiter in this process. */
function limiterOver(client: unknown, options: Bottleneck.ConstructorOptions): Bottleneck {
  const connection = new Bottleneck.IORedisConnection({ client })
  connections.push(connection)
  return new Bottleneck({ id: 'shared', ...options, connection })
}

/** The most of these jobs that ran at once. */
async function mostOf(limiters: readonly Bottleneck[], jobs: number, ms: number): Promise<number> {
  let [running, most] = [0, 0]
  const job = async () => {
    most = Math.max(most, ++running)
    await sleep(ms)
    running--
  }
  await Promise.all(limiters.flatMap(limiter => Array.from({ length: jobs }, () => limiter.schedule(job))))
  return most
}

describe('processes of one Redis', () => {
  let server: RedisServer
  beforeAll(async () => {
    server = await RedisServer.start()
  })
  afterEach(() => server.client().flushall())
  afterAll(() => server.stop())

  test('a process that is killed with places and with waiting jobs stops nobody: all jobs of the others end, and all places come back', async () => {
    const options = { maxConcurrent: 2, timeout: 3000 }
    const held = await start(
      server,
      options,
      `for (let i = 0; i < 9; i++) limiter.schedule(() => sleep(60_000)); setTimeout(() => say('held'), 100)`,
    )
    await held.says('held')
    const limiters = [1, 2].map(() => limiterOver(server.client(), options))
    const ended = mostOf(limiters, 5, 10)
    await eventually('both wait', async () => limiters.every(limiter => limiter.queued() > 0))
    held.kill()
    expect(await ended).toBeLessThanOrEqual(2)
    expect([await limiters[0].running(), await limiters[0].clusterQueued()]).toEqual([0, 0])
    expect(await mostOf(limiters, 5, 20)).toBe(2)
  })

  test('a process that is stopped loses its places after its timeout; when it goes on, its jobs count again until they end', async () => {
    const options = { maxConcurrent: 1, timeout: 3000 }
    const work = `limiter.schedule(async () => { say('runs'); await sleep(6000) }).then(() => say('ended'))`
    const stopped = await start(server, options, work)
    await stopped.says('runs')
    stopped.kill('SIGSTOP')
    const other = limiterOver(server.client(), options)
    expect(await other.schedule(async () => 'served')).toBe('served')
    stopped.kill('SIGCONT')
    await eventually(
      'its job counts again',
      async () => (await other.running()) === 1 || stopped.said.includes('ended'),
    )
    await stopped.says('ended')
    await eventually('all places are back', async () => (await other.running()) === 0)
  })

  test('clocks of processes that are 4 s ahead and behind bring no refresh forward', async () => {
    const options = { reservoir: 2, reservoirRefreshInterval: 500, reservoirRefreshAmount: 2, minTime: 20 }
    const work = `
      const job = async () => say((await client.time()).join(' '))
      await Promise.all([1, 2, 3, 4].map(() => limiter.schedule(job)))
      say('ended')`
    const all = await Promise.all([-4000, 0, 4000].map(skewMs => start(server, options, work, skewMs)))
    await Promise.all(all.map(child => child.says('ended')))
    const begun = Number(await server.client().hget(keysOf('shared')[0], 'refreshedAt'))
    const launches = all
      .flatMap(({ said }) => (said as string[]).filter(line => line !== 'ended'))
      .map(line => Number(line.split(' ')[0]) * 1000 + Number(line.split(' ')[1]) / 1000)
      .sort((a, b) => a - b)
    expect(launches).toHaveLength(12)
    // The first refresh is a whole number of intervals before the last one that was noticed.
    const first = begun - 500 * Math.floor((begun - launches[0]) / 500)
    const beginning = first > launches[0] ? first - 500 : first
    launches.forEach((at, i) => {
      expect(at).toBeGreaterThanOrEqual(beginning + 500 * Math.floor(i / 2))
    })
  })

  test('a reservoir of 100 a second launches 100 jobs in every second by the clock of the server, also after a process was killed and another has begun', async () => {
    const options = { reservoir: 100, reservoirRefreshInterval: 1000, reservoirRefreshAmount: 100 }
    const work = `
      const job = async () => say((await client.time()).join(' '))
      for (let i = 0; i < 2000; i++) limiter.schedule(job)`
    const all = await Promise.all([1, 2].map(() => start(server, options, work)))
    await sleep(4000)
    // Between two refreshes, so that all that was launched has been told.
    const told = () => all.reduce((sum, { said }) => sum + said.length, 0)
    for (let before = -1; before !== told(); await sleep(250)) before = told()
    all[0].kill()
    all.push(await start(server, options, work))
    await sleep(6000)
    const begun = Number(await server.client().hget(keysOf('shared')[0], 'refreshedAt'))
    const counts = new Map<number, number>()
    for (const line of all.flatMap(({ said }) => said as string[])) {
      const [seconds, micros] = line.split(' ').map(Number)
      const interval = Math.floor((seconds * 1000 + micros / 1000 - begun) / 1000)
      counts.set(interval, (counts.get(interval) ?? 0) + 1)
    }
    // The first and the last interval are cut off.
    const whole = [...counts].sort(([a], [b]) => a - b).slice(1, -1)
    expect(whole.length).toBeGreaterThanOrEqual(8)
    for (const [, count] of whole) {
      expect(count).toBeLessThanOrEqual(100)
      expect(count).toBeGreaterThanOrEqual(99)
    }
  })
})

test('a failover by Sentinel delays jobs and loses none; maxConcurrent holds in each process afterwards', async () => {
  const group = await RedisSentinel.start()
  try {
    const limiters = [1, 2].map(() => limiterOver(group.client(), { maxConcurrent: 2 }))
    expect(await mostOf(limiters, 5, 10)).toBe(2)
    const results = limiters.map(limiter =>
      Promise.all(Array.from({ length: 60 }, (_, job) => limiter.schedule(() => sleep(20, job)))),
    )
    await sleep(100)
    await group.failover()
    for (const result of await Promise.all(results)) expect(result).toEqual(Array.from({ length: 60 }, (_, job) => job))
    expect(await mostOf(limiters, 5, 10)).toBe(2)
    expect(await limiters[0].running()).toBe(0)
  } finally {
    await group.stop()
  }
})

test('on a cluster, clients of ioredis and node-redis share a limiter, whose keys lie in one slot', async () => {
  const cluster = await RedisCluster.start()
  try {
    const rootNodes = cluster.nodes.map(({ url }) => ({ url }))
    const nodeRedis = new Bottleneck.RedisConnection({ client: createCluster({ rootNodes }) })
    connections.push(nodeRedis)
    const id = 'partner {1}'
    const limiters = [
      limiterOver(cluster.client(), { id, maxConcurrent: 2 }),
      new Bottleneck({ id, connection: nodeRedis, maxConcurrent: 2 }),
    ]
    expect(await mostOf(limiters, 10, 10)).toBe(2)
    expect(await Promise.all(limiters.map(limiter => limiter.done()))).toEqual([20, 20])
    const slots = await Promise.all(keysOf(id).map(key => cluster.slotOf(key)))
    expect(new Set(slots).size).toBe(1)
  } finally {
    await Promise.all(connections.splice(0).map(connection => connection.disconnect(false)))
    await cluster.stop()
  }
})

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { Bottleneck } from '../../../src/replacing/bottleneck/index.js'
import { keysOf } from '../../../src/replacing/bottleneck/redis-store.js'
import { childProgram } from '../../support/child-program.js'
import { eventually } from '../../support/eventually.js'
import { older } from '../../support/older.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { testRedis } from '../../support/test-redis.js'

const server = testRedis()
const limiters: Bottleneck[] = []

/** A limiter with a connection of its own, as in a process of its own. */
function limiterOf(options: Bottleneck.ConstructorOptions = {}): Bottleneck {
  const clientOptions = { host: server.host, port: server.port }
  const limiter = new Bottleneck({ datastore: 'ioredis', id: 'shared', clientOptions, Redis, ...options })
  limiters.push(limiter)
  return limiter
}

/** The first one's settings hold for both. */
async function pairOf(options: Bottleneck.ConstructorOptions): Promise<[Bottleneck, Bottleneck]> {
  const first = limiterOf(options)
  await first.ready()
  const second = limiterOf({ timeout: options.timeout })
  await second.ready()
  return [first, second]
}

beforeEach(async () => {
  await server.client().flushall()
})
afterEach(async () => {
  await Promise.all(limiters.splice(0).map(limiter => limiter.disconnect(false)))
})

/** Runs so many jobs in each limiter, and gives the most that ran at once, and all launches. */
async function race(
  contenders: readonly Bottleneck[],
  jobs: number,
  ms: number,
): Promise<{ most: number; launches: number[] }> {
  let running = 0
  let most = 0
  const launches: number[] = []
  const job = async () => {
    most = Math.max(most, ++running)
    launches.push(performance.now())
    await sleep(ms)
    running--
  }
  await Promise.all(contenders.flatMap(limiter => Array.from({ length: jobs }, () => limiter.schedule(job))))
  return { most, launches }
}

describe('Bottleneck over Redis', () => {
  test('maxConcurrent holds over all processes, and all of it is used', async () => {
    const contenders = [...(await pairOf({ maxConcurrent: 3 })), limiterOf()]
    expect((await race(contenders, 10, 10)).most).toBe(3)
    expect(await contenders[0].done()).toBe(30)
    expect(await contenders[1].running()).toBe(0)
  })

  test('minTime holds from launch to launch over all processes', async () => {
    const contenders = await pairOf({ minTime: 40 })
    const startedAt = performance.now()
    const { launches } = await race(contenders, 3, 1)
    expect(launches.at(-1)! - startedAt).toBeGreaterThanOrEqual(5 * 40 - 1)
  })

  test('a reservoir is refreshed at its beginning and every interval after it, never early, and waiters are woken', async () => {
    const startedAt = Date.now()
    const first = limiterOf({ reservoir: 2, reservoirRefreshInterval: 200, reservoirRefreshAmount: 2 })
    await first.ready()
    const begun = Date.now()
    const second = limiterOf()
    const launches = (
      await Promise.all([first, second].flatMap(l => [1, 2, 3].map(() => l.schedule(async () => Date.now()))))
    ).sort((a, b) => a - b)
    for (const [index, at] of launches.entries()) {
      const due = Math.floor(index / 2) * 200
      expect(at - startedAt).toBeGreaterThanOrEqual(due)
      // No heartbeat of seconds.
      expect(at - begun).toBeLessThan(due + 1000)
    }
  })

  test('turns go round between processes with waiting jobs', async () => {
    const [first, second] = await pairOf({ maxConcurrent: 1 })
    const order: string[] = []
    const job = (name: string) => async () => {
      order.push(name)
      await sleep(5)
    }
    const blocker = first.schedule(() => sleep(100))
    await sleep(20)
    const jobs = [1, 2, 3, 4].flatMap(() => [first.schedule(job('a')), second.schedule(job('b'))])
    await Promise.all([blocker, ...jobs])
    expect(order).toHaveLength(8)
    expect(Math.abs(order.slice(0, 4).filter(name => name === 'a').length - 2)).toBeLessThanOrEqual(1)
  })

  test('#197, #194: a killed process gives its places back after its timeout, 3 s, although its jobs had no expiration', async () => {
    const child = spawn(
      process.execPath,
      [
        childProgram(
          `import { Redis } from 'ioredis'
           import { Bottleneck } from './src/replacing/bottleneck/index.js'
           const limiter = new Bottleneck({ datastore: 'ioredis', id: 'shared', Redis, maxConcurrent: 1, timeout: 3000, clientOptions: { port: ${server.port} } })
           limiter.schedule(() => new Promise(() => { console.log('runs') }))`,
        ),
      ],
      { cwd: process.cwd(), env: { ...process.env, NODE_OPTIONS: '' }, stdio: ['ignore', 'pipe', 'inherit'] },
    )
    await once(child.stdout, 'data')
    const survivor = limiterOf({ timeout: 3000 })
    const result = survivor.schedule(async () => performance.now())
    await sleep(200)
    expect(survivor.counts().QUEUED).toBe(1)
    const killedAt = performance.now()
    child.kill('SIGKILL')
    expect((await result) - killedAt).toBeLessThan(5000)
  })

  test('a job keeps its place for longer than the timeout while its process lives', async () => {
    const [holder, other] = await pairOf({ maxConcurrent: 1, timeout: 1500 })
    const held = holder.schedule(() => sleep(4500, 'held'))
    await sleep(100)
    const next = other.schedule(async () => 'next')
    expect(await Promise.race([held, next])).toBe('held')
    expect(await next).toBe('next')
  })

  test('after FLUSHALL every call begins a new state, and jobs that run still count', async () => {
    const limiter = limiterOf({ maxConcurrent: 2, reservoir: 10 })
    const running = limiter.schedule(() => sleep(150))
    await sleep(50)
    await server.client().flushall()
    expect(await limiter.running()).toBe(1)
    expect(await limiter.currentReservoir()).toBe(10)
    await running
    expect([await limiter.running(), await limiter.schedule(async () => 'goes on')]).toEqual([0, 'goes on'])
  })

  test('#205, #219: Redis 7 is understood, and errors have their words', async () => {
    const limiter = limiterOf({ maxConcurrent: 2 })
    await expect(limiter.schedule({ weight: 3 }, async () => {})).rejects.toThrow(
      'Impossible to add a job having a weight of 3 to a limiter having a maxConcurrent setting of 2',
    )
    await server.client().flushall()
    expect(await limiter.schedule(async () => 'no SETTINGS_KEY_NOT_FOUND')).toBe('no SETTINGS_KEY_NOT_FOUND')
  })

  test('#57: a limiter of a Group that was kept in a variable goes on after its state was deleted', async () => {
    const connection = limiterOf({ id: 'owner' }).connection as InstanceType<typeof Bottleneck.IORedisConnection>
    const [group, other] = [1, 2].map(() => new Bottleneck.Group({ id: 'g', connection, maxConcurrent: 1 }))
    const kept = group.key('a')
    expect(await kept.schedule(async () => 'before')).toBe('before')
    expect(await other.deleteKey('a')).toBe(true)
    expect((await race([kept, kept], 3, 5)).most).toBe(1)
    expect(await kept.done()).toBe(6)
  })

  test('#212: a client that the state does not know any more is taken in again', async () => {
    const limiter = limiterOf({ maxConcurrent: 1 })
    const running = limiter.schedule(() => sleep(100))
    await sleep(30)
    const [, ...others] = keysOf('shared')
    await server.client().del(...others)
    const next = limiter.schedule(async () => limiter.running())
    expect(await limiter.running()).toBe(1)
    await running
    expect(await next).toBe(1)
  })

  test('#151: thousands of jobs that ended together are no trouble', async () => {
    const limiter = limiterOf()
    const results = await Promise.all(
      Array.from({ length: 9000 }, () => limiter.schedule({ expiration: 30_000 }, async () => 1)),
    )
    expect(results).toHaveLength(9000)
    expect(await limiter.done()).toBe(9000)
  })

  test('a process that blocks drops the queues of all', async () => {
    const options = { maxConcurrent: 1, highWater: 1, strategy: Bottleneck.strategy.BLOCK, penalty: 200 }
    const [first, second] = await pairOf(options)
    const held = first.schedule(() => sleep(100))
    await sleep(30)
    const waiting = second.schedule(async () => {}).then(String, ({ message }) => message)
    await sleep(30)
    const refused = [1, 2].map(() => first.schedule(async () => {}).then(String, ({ message }) => message))
    const dropped = 'This job has been dropped by Bottleneck'
    expect(await Promise.all([waiting, ...refused])).toEqual([dropped, dropped, dropped])
    expect(await second.clusterQueued()).toBe(0)
    await held
  })

  test('settings are shared, and changes reach waiting jobs of other processes', async () => {
    const [first, second] = await pairOf({ reservoir: 0 })
    const waiting = second.schedule(async () => 'served')
    await sleep(50)
    expect([await second.check(), await first.clusterQueued()]).toEqual([false, 1])
    expect(await first.incrementReservoir(1)).toBe(1)
    expect(await waiting).toBe('served')
    await first.updateSettings({ reservoir: null })
    expect(await second.currentReservoir()).toBe(null)
  })

  test('a reservoir without an end stays one', async () => {
    const [first, second] = await pairOf({ reservoir: Number.POSITIVE_INFINITY })
    await first.schedule(async () => {})
    expect([await first.currentReservoir(), await second.currentReservoir()]).toEqual([Infinity, Infinity])
    expect(await second.incrementReservoir(5)).toBe(Number.POSITIVE_INFINITY)
  })

  test('the keys of a limiter that has nothing to do live as long as its timeout says', async () => {
    const limiter = limiterOf({ maxConcurrent: 1, timeout: 500 })
    await limiter.schedule(async () => {})
    await eventually('all keys are gone', async () => (await server.client().keys('*')).length === 0, 3000)
    // What comes later finds a new state.
    expect(await limiter.schedule(async () => 'served')).toBe('served')
  })

  test('jobs of a limiter that has never reached its Redis end when it is disconnected', async () => {
    const clientOptions = { host: '127.0.0.1', port: 1, retryStrategy: () => 20 }
    const limiter = new Bottleneck({ datastore: 'ioredis', id: 'nowhere', clientOptions, Redis, clearDatastore: true })
    const told: unknown[] = []
    limiter.on('error', error => told.push(error))
    const job = limiter.schedule(async () => 'served')
    await sleep(50)
    await limiter.disconnect(false)
    await expect(job).rejects.toBeInstanceOf(Bottleneck.BottleneckError)
    await sleep(50)
    // Only of the client's attempts.
    expect(new Set(told.map(error => (error as { code?: string }).code))).toEqual(new Set(['ECONNREFUSED']))
  })

  type Connect = () => InstanceType<typeof Bottleneck.IORedisConnection | typeof Bottleneck.RedisConnection>
  const nodeRedis = (version: string) =>
    older(`redis${version}`, (lib: { createClient: typeof createClient }): [string, Connect] => [
      `node-redis ${version}`,
      () => new Bottleneck.RedisConnection({ client: lib.createClient({ url: server.url }) }),
    ])
  test.each<[string, Connect]>([
    ...older('ioredis5', ({ Redis }: typeof import('ioredis')): [string, Connect] => [
      'ioredis 5',
      () => new Bottleneck.IORedisConnection({ client: server.track(new Redis(server.port)) }),
    ]),
    ['node-redis 6', () => new Bottleneck.RedisConnection({ client: createClient({ url: server.url }) })],
    ...nodeRedis('5'),
    ...nodeRedis('4'),
  ])('a connection of %s is shared by limiters and Groups', async (_, connect) => {
    const connection = connect()
    const limiter = limiterOf({ connection, id: 'ü {1}', maxConcurrent: 1 })
    const group = new Bottleneck.Group({ connection, id: 'g', maxConcurrent: 1 })
    expect(Object.keys(await connection.ready)).toEqual(['client', 'subscriber'])
    expect((await race([limiter, limiter], 3, 5)).most).toBe(1)
    const heard = new Promise(resolve => limiter.on('message', resolve))
    await limiter.publish('hello')
    expect(await heard).toBe('hello')
    await Promise.all(['a', 'b {2}', 'c-d*'].map(key => group.key(key).schedule(async () => key)))
    expect((await group.clusterKeys()).sort()).toEqual(['a', 'b {2}', 'c-d*'])
    expect([await group.deleteKey('a'), await group.deleteKey('a')]).toEqual([true, false])
    expect((await group.clusterKeys()).sort()).toEqual(['b {2}', 'c-d*'])
    await connection.disconnect()
  })

  test('an outage delays jobs and is told; none is lost', async () => {
    const limiter = limiterOf({ maxConcurrent: 1, clientOptions: { port: server.port, retryStrategy: () => 50 } })
    await limiter.ready()
    let told = 0
    limiter.on('error', () => told++)
    await server.kill()
    const result = limiter.schedule(async () => 'served')
    await sleep(200)
    await server.restart()
    expect(await result).toBe('served')
    expect(told).toBeGreaterThan(0)
  })
})

test('#180: on a cluster all keys of a limiter lie in one slot, and the keys of a Group are found on all nodes', async () => {
  const cluster = await RedisCluster.start()
  try {
    const connection = new Bottleneck.IORedisConnection({ client: cluster.client() })
    const group = new Bottleneck.Group({ connection, maxConcurrent: 1 })
    const keys = Array.from({ length: 12 }, (_, i) => `{${i}} key ${i}`)
    const results = await Promise.all(keys.map(key => group.key(key).schedule(async () => key)))
    expect(results).toEqual(keys)
    expect((await group.clusterKeys()).sort()).toEqual([...keys].sort())
    expect((await race([group.key('a'), group.key('a')], 4, 5)).most).toBe(1)
    await connection.disconnect()
  } finally {
    await cluster.stop()
  }
})

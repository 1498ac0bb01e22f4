import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, jest, test } from '@jest/globals'
import { createClient } from 'redis'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { childProgram } from '../../support/child-program.js'
import { eventually } from '../../support/eventually.js'
import { Lateness } from '../../support/lateness.js'
import { older } from '../../support/older.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { RedisServer } from '../../support/redis-server.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] })

/** Resolves when the only consumer of these servers sleeps. */
const asleep = (...servers: RedisServer[]) =>
  eventually('it sleeps', async () => {
    const blocked = await Promise.all(servers.map(server => server.blockedClients()))
    return blocked.some(count => count > 0)
  })

/** A consumer whose server goes away while it handles a message with a visibility of an hour. */
const UNSETTLED = `
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { DelayQueue } from './src/waiting/queue/delay-queue.ts'
const client = new Redis({ port: Number(process.env.PORT), host: '127.0.0.1', enableOfflineQueue: false, retryStrategy: () => 50 })
client.on('error', () => {})
await once(client, 'ready')
const queue = new DelayQueue(client, 'unsettled', { visibility: '1h', observer: {} })
const consumer = queue.consume(async () => {
  console.log('at work')
  await once(process.stdin.resume(), 'end')
})
await queue.push('x')
await once(process.stdin, 'end')
await sleep(500)
await consumer.close({ grace: 100 })
await queue.close()
client.disconnect()
`

describe('a consumer', () => {
  const counting = (queue: DelayQueue<unknown>) => {
    const got: unknown[] = []
    const consumer = queue.consume(async ({ payload }) => {
      got.push(payload)
    })
    return { got, consumer }
  }

  test('delivers due messages once after Redis was killed and started again with its append-only file', async () => {
    const queue = new DelayQueue(redis.client({ maxRetriesPerRequest: null }), 'restarted')
    const { got, consumer } = counting(queue)
    await queue.push('soon', { delay: 700 })
    await redis.restart()
    await eventually('it is delivered', async () => got.length > 0, 4000)
    // As long as a second delivery would take to come.
    await sleep(200)
    expect(got).toEqual(['soon'])
    await consumer.close()
    await queue.close()
  })

  test('goes on after every connection was killed while it slept', async () => {
    const queue = new DelayQueue(redis.client(), 'disconnected')
    const { got, consumer } = counting(queue)
    await asleep(redis)
    const admin = redis.client()
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    const killedAt = performance.now()
    await queue.push('after')
    await eventually('it is delivered', async () => got.length > 0, 4000)
    expect(performance.now() - killedAt).toBeLessThan(5000)
    // The connection to be woken on is there again, too.
    await asleep(redis)
    await new DelayQueue(admin, 'disconnected').push('again')
    await eventually('it is woken', async () => got.length === 2, 4000)
    await consumer.close()
    await queue.close()
  })

  test('that was closed tries no longer to settle a message', async () => {
    const server = await RedisServer.start()
    // Without a connection a command fails at once.
    const client = server.client({ enableOfflineQueue: false })
    await once(client, 'ready')
    const queue = new DelayQueue(client, 'unsettled', { visibility: '1h', observer: {} })
    let handled = false
    const consumer = queue.consume(async () => {
      await server.kill()
      handled = true
    })
    await queue.push('x')
    await eventually('it is handled', async () => handled)
    // It tries again and again to settle it.
    await sleep(500)
    await consumer.close({ grace: 100 })
    await queue.close()
    client.disconnect()
    const evalsha = jest.spyOn(client, 'evalsha')
    // Longer than the longest time between two tries.
    await sleep(1500)
    expect(evalsha).not.toHaveBeenCalled()
    await server.stop()
  })

  test('that was closed with a message that it cannot settle lets its process end', async () => {
    const server = await RedisServer.start()
    const child = spawn(process.execPath, [childProgram(UNSETTLED)], {
      env: { ...process.env, PORT: String(server.port) },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const ended = once(child, 'exit')
    await once(child.stdout, 'data')
    await server.kill()
    child.stdin.end('the server is gone')
    // Long before the visibility of an hour; what was under way has five seconds each.
    expect(await ended).toEqual([0, null])
    await server.stop()
  })

  test('is on time although the wake-up key is deleted all the time', async () => {
    const client = redis.client()
    const queue = new DelayQueue(client, 'deleted')
    const { got, consumer } = counting(queue)
    const late = await Lateness.of(redis)
    await queue.push('x', { delay: 1000 })
    const due = performance.now() + 1000
    while (performance.now() < due - 50) {
      await client.del('spillway:{deleted}:queue:wake')
      // Real time passes until the message is nearly due.
      await sleep(5)
    }
    await eventually('it is delivered', async () => got.length > 0, 4000)
    const deliveredAt = performance.now()
    expect(deliveredAt).toBeLessThan(due + 200 + (await late.stop()))
    await consumer.close()
    await queue.close()
  })
})

describe('a queue', () => {
  const roundTrip = async (queue: DelayQueue<string>, ...servers: RedisServer[]) => {
    const got: string[] = []
    const consumer = queue.consume(async ({ payload }) => {
      got.push(payload)
    })
    await asleep(...servers)
    // In one command: by the server's clock the first is due after the second, however long the machine takes.
    await queue.pushMany([{ payload: 'later', options: { delay: 60 } }, { payload: 'at once' }])
    await eventually('both are delivered', async () => got.length === 2, 4000)
    expect(got).toEqual(['at once', 'later'])
    await consumer.close()
    expect(await queue.stats()).toEqual({ ready: 0, delayed: 0, unacked: 0, dead: 0, nextDueAt: null })
    await queue.close()
  }

  test('works with a client of node-redis, old or new, and wakes its consumers', async () => {
    const old = older('redis4', (lib: { createClient: typeof createClient }) => lib.createClient)
    for (const create of [createClient, ...old]) {
      const client = create({ url: redis.url })
      client.on('error', () => {})
      await client.connect()
      await roundTrip(new DelayQueue(client, 'node-redis'), redis)
      await client.disconnect()
    }
  })

  test('lies in one slot of a cluster', async () => {
    const cluster = await RedisCluster.start()
    try {
      for (let i = 0; i < 3; i++) await roundTrip(new DelayQueue(cluster.client(), `clustered-${i}`), ...cluster.nodes)
    } finally {
      await cluster.stop()
    }
  }, 20_000)
})

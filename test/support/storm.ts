import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:http2'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { childProgram } from './child-program.js'
import { randomFrom } from './random.js'
import { eventually } from './redis-process.js'
import { RedisServer } from './redis-server.js'
import type { Account, Orders } from './storm/orders.js'
import { Http2Visitor, Visitor } from './storm/visitor.js'

export interface StormOptions {
  /** To each of the six services. */
  readonly connections: number
  readonly durationMs: number
  readonly seed: string
  /** True: waits until also handlers that never end have been charged, 30 s after their clients went away. */
  readonly settlesAll: boolean
}

const PERMITS = 5
const USERS = ['ann', 'bob', 'cid', 'dot', 'eve', 'fay', 'gus', 'hal']
/** The last one of the services. */
const HTTP2 = 5
const HEAP_SLACK = 6_000_000

/** A storm of clients that end their connections in every way, and what must hold when it is over. */
export function stormTests({ connections, durationMs, seed, settlesAll }: StormOptions): void {
  let redis: RedisServer
  let services: ChildProcess
  let ports: number[]
  const ask = async <Answer>(question: unknown): Promise<Answer> => {
    const answer = once(services, 'message')
    services.send(question as string)
    return (await answer)[0] as Answer
  }
  const quiet = () => eventually('all have left', async () => (await ask<number>('connections')) === 0)

  async function storm(count: number, forMs: number, named: string): Promise<void> {
    const random = randomFrom(named)
    const visits = ports.flatMap((port, i) =>
      Array.from({ length: count }, () => {
        const visitor = i === HTTP2 ? new Http2Visitor(random, USERS) : new Visitor(random, USERS)
        const at = random.integer(0, forMs)
        // Visitors come at random moments of the storm, in real time.
        return sleep(at).then(() => visitor.visit(port))
      }),
    )
    await Promise.all(visits)
    await quiet()
    // The last places are given up 300 ms after their clients have gone.
    await sleep(500)
  }

  beforeAll(async () => {
    redis = await RedisServer.start()
    services = fork(childProgram("import './test/support/storm/services.ts'"), {
      execArgv: ['--expose-gc'],
      env: { ...process.env, NODE_OPTIONS: '', NODE_ENV: 'test' },
    })
    const orders: Orders = { redisPort: redis.port, permits: PERMITS, users: USERS, settlesAll }
    ports = await ask<number[]>(orders)
  }, 30_000)
  afterAll(async () => {
    services.kill('SIGKILL')
    await redis.stop()
  })

  describe(`after ${connections} connections in ${durationMs / 1000} s to each of six services`, () => {
    let heapBefore: number
    let timersBefore: number

    test(
      'every handler is charged once, and nothing else is',
      async () => {
        await storm(Math.ceil(connections / 10), durationMs / 5, `${seed}, to warm up`)
        if (settlesAll) await sleep(31_000)
        timersBefore = await ask('timers')
        heapBefore = await ask('heap')
        await storm(connections, durationMs, seed)
        if (settlesAll) await sleep(31_000)
        for (const accounts of await ask<Account[][]>('accounts')) {
          const handled = accounts.reduce((sum, account) => sum + account.handled, 0)
          expect(handled).toBeGreaterThan(connections / 4)
          for (const { user, handled, charged, wrong, chargedWrong } of accounts) {
            expect({ user, charged, chargedWrong }).toEqual({ user, charged: handled, chargedWrong: wrong })
          }
        }
      },
      2 * durationMs + 110_000,
    )

    test('nothing is held or renewed in Redis', async () => {
      const client = redis.client()
      const held = await Promise.all(
        (await client.keys('*:semaphore*')).map(async key => [key, await client.type(key)]),
      )
      // The table of leases holds other members too, with scores below 0 or above every deadline: see semaphore_sweep
      // in lua/waiting/semaphore/lib/semaphore.lua.
      for (const [key, type] of held) {
        if (type === 'zset') expect([key, await client.zcount(key, 0, 1e14)]).toEqual([key, 0])
      }
      const scripts = async () => {
        const stats = await client.info('commandstats')
        return [...stats.matchAll(/cmdstat_(?:evalsha|eval|fcall):calls=(\d+)/g)].reduce(
          (sum, [, calls]) => sum + Number(calls),
          0,
        )
      }
      // Leases of 1.5 s are renewed every 0.5 s. Objects note their names once, ten seconds after they were made.
      const isQuiet = async () => {
        const before = await scripts()
        await sleep(1200)
        return (await scripts()) === before
      }
      await eventually('two renewals would have come, and no script did', isQuiet, 15_000)
    }, 20_000)

    test('every place is free', async () => {
      for (const port of ports) {
        const [user] = USERS
        const path = `/now/700/${user}`
        const all = Array.from({ length: PERMITS + 1 }, () =>
          (port === ports[HTTP2] ? http2Status : status)(port, path),
        )
        expect((await Promise.all(all)).sort()).toEqual([...Array(PERMITS).fill(200), 429])
      }
      await quiet()
    }, 30_000)

    test('no listener and no timer is left, and the heap is as before', async () => {
      expect(await ask<number>('listeners')).toBe(0)
      await ask('forget')
      await eventually('no timer more than before', async () => (await ask<number>('timers')) <= timersBefore)
      expect((await ask<number>('heap')) - heapBefore).toBeLessThan(HEAP_SLACK)
    }, 30_000)
  })
}

async function status(port: number, path: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })
  await response.text()
  return response.status
}

async function http2Status(port: number, path: string): Promise<number> {
  const session = connect(`http://127.0.0.1:${port}`)
  const [fields] = await once(session.request({ ':path': path }).resume(), 'response')
  session.destroy()
  return fields[':status'] as number
}

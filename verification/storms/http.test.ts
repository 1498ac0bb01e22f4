import { once } from 'node:events'
import { connect } from 'node:http2'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { ALL_CASES } from '../../test/support/cases.js'
import { Child } from '../../test/support/child.js'
import { eventually } from '../../test/support/eventually.js'
import { randomFrom } from '../../test/support/random.js'
import { RedisServer } from '../../test/support/redis-server.js'
import type { Account, Orders } from './services.js'
import { Http2Visitor, Visitor } from './visitor.js'

/**
 * Clients that end their connections in every way: so many to each of the six services, in so many ms. A long storm
 * also waits until handlers that never end have been charged, 30 s after their clients went away.
 */
const [CONNECTIONS, DURATION_MS] = ALL_CASES ? [2000, 30_000] : [200, 3000]
const SEED = ALL_CASES ? 'a long storm' : 'a short storm'
const PERMITS = 5
const USERS = ['ann', 'bob', 'cid', 'dot', 'eve', 'fay', 'gus', 'hal']
/** The last one of the services. */
const HTTP2 = 5
const HEAP_SLACK = 6_000_000

let redis: RedisServer
let services: Child
let ports: number[]
const ask = <Answer>(question: string) => services.ask<Answer>(question)
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
  const orders: Orders = { redisPort: redis.port, permits: PERMITS, users: USERS, settlesAll: ALL_CASES }
  services = await Child.start("import './verification/storms/services.ts'", [JSON.stringify(orders)], ['--expose-gc'])
  ports = await ask<number[]>('ports')
}, 30_000)
afterAll(async () => {
  services.kill()
  await redis.stop()
})

describe(`after ${CONNECTIONS} connections in ${DURATION_MS / 1000} s to each of six services`, () => {
  let heapBefore: number
  let timersBefore: number

  test(
    'every handler is charged once, and nothing else is',
    async () => {
      await storm(Math.ceil(CONNECTIONS / 10), DURATION_MS / 5, `${SEED}, to warm up`)
      if (ALL_CASES) await sleep(31_000)
      timersBefore = await ask('timers')
      heapBefore = await ask('heap')
      await storm(CONNECTIONS, DURATION_MS, SEED)
      if (ALL_CASES) await sleep(31_000)
      for (const accounts of await ask<Account[][]>('accounts')) {
        const handled = accounts.reduce((sum, account) => sum + account.handled, 0)
        expect(handled).toBeGreaterThan(CONNECTIONS / 4)
        for (const { user, handled, charged, wrong, chargedWrong } of accounts) {
          expect({ user, charged, chargedWrong }).toEqual({ user, charged: handled, chargedWrong: wrong })
        }
      }
    },
    2 * DURATION_MS + 110_000,
  )

  test('nothing is held or renewed in Redis', async () => {
    const client = redis.client()
    const held = await Promise.all((await client.keys('*:semaphore*')).map(async key => [key, await client.type(key)]))
    // The table of leases holds other members too, with scores below 0 or above every deadline: see `sweep`
    // in lua/waiting/semaphore/semaphores.lua.
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
      const all = Array.from({ length: PERMITS + 1 }, () => (port === ports[HTTP2] ? http2Status : status)(port, path))
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

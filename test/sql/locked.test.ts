import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Pool } from 'pg'
import postgres from 'postgres'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { eventually } from '../support/eventually.js'
import { PostgresServer } from '../support/postgres-server.js'
import { LOCKS } from './locks.js'

jest.setTimeout(60_000)

let server: PostgresServer
let admin: Pool
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { max_connections: 60 } })
  admin = server.pool({ max: 4 })
  await new PostgresStore(admin).createTable({ logged: true })
  await admin.query('CREATE TABLE orders (id int PRIMARY KEY, total int); INSERT INTO orders VALUES (1, 1)')
  await admin.query('CREATE ROLE limits LOGIN')
  await admin.query('GRANT SELECT, INSERT, UPDATE, DELETE ON spillway TO limits')
})
afterAll(() => server.stop())

const POOLED = 2
const STORES = 3
const CLIENTS: ReadonlyArray<readonly [string, (url: string) => { client: object; end: () => Promise<unknown> }]> = [
  [
    'pg',
    url => {
      const pool = server.pool({ connectionString: url, max: POOLED })
      return { client: pool, end: () => pool.end() }
    },
  ],
  [
    'postgres',
    url => {
      const sql = postgres(url, { max: POOLED, onnotice: () => {} })
      return { client: sql, end: () => sql.end({ timeout: 0 }) }
    },
  ],
]

let names = 0

describe.each(CLIENTS)('over %s', (_, open) => {
  test.each(Object.entries(LOCKS))(
    '%s: no more connections than the pools have, and a service that goes on',
    async (_, lock) => {
      const clients = Array.from({ length: STORES }, () => open(server.url('postgres', 'limits')))
      const name = `locked ${names++}`
      const limiters = clients.map(
        ({ client }) =>
          new RateLimiter({ policy: '100000/1h', name, store: new PostgresStore(client), denyCache: false }),
      )
      for (const limiter of limiters) await limiter.consume('a')
      const service = server.pool({ max: 1 })
      const unlock = await lock(admin, 'spillway')
      let isLocked = true
      const busy = limiters.map(async limiter => {
        while (isLocked) {
          await limiter.consume('a')
          await sleep(10)
        }
      })
      let [most, waiting, answered] = [0, 0, 0]
      for (const end = performance.now() + 2000; performance.now() < end; await sleep(50)) {
        const { rows } = await service.query(
          `SELECT count(*)::int AS count, count(*) FILTER (WHERE state = 'active')::int AS active FROM pg_stat_activity WHERE usename = 'limits'`,
        )
        most = Math.max(most, rows[0].count)
        waiting = Math.max(waiting, rows[0].active)
        await service.query('SELECT total FROM orders WHERE id = 1')
        answered++
      }
      isLocked = false
      await Promise.all(busy)
      await unlock()
      expect(most).toBeLessThanOrEqual(STORES * POOLED)
      expect(waiting).toBeLessThanOrEqual(STORES * 2)
      expect(answered).toBeGreaterThan(10)
      const settings = await Promise.all(
        limiters.map(limiter => eventually('decided again', async () => !(await limiter.consume('a')).degraded, 7000)),
      )
      expect(settings).toHaveLength(STORES)
      for (const { end } of clients) await end()
    },
  )
})

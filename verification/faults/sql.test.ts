import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Pool } from 'pg'
import postgres from 'postgres'
import type { Decision } from '../../src/limiter/core/decision.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { examinePostgres } from '../../src/operating/cli/doctor/postgres.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { eventually } from '../../test/support/eventually.js'
import { PostgresServer } from '../../test/support/postgres-server.js'

jest.setTimeout(60_000)

let server: PostgresServer
let admin: Pool
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { max_connections: 40 } })
  admin = server.pool()
  for (const [table, logged] of [
    ['spillway', false],
    ['durable', true],
  ] as const) {
    await new PostgresStore(admin, { table }).createTable({ logged })
  }
})
afterAll(() => server.stop())

/** What the failure policy may admit, and what a machine that is busy may be late. */
const QUOTA = 20
const DEADLINE_MS = 50
const LATE_MS = 150

let names = 0
const limiterOver = (client: object, table = 'spillway') =>
  new RateLimiter({
    policy: `${QUOTA}/1h`,
    name: `faults ${names++}`,
    store: new PostgresStore(client, { table }),
    denyCache: false,
    observer: { storeFailed: error => void errors.push(error.message) },
  })
let errors: string[] = []
beforeEach(() => {
  errors = []
})

/** Decides for so long, and gives the decisions with the time that each took. */
async function during(ms: number, limiter: RateLimiter): Promise<{ slowestMs: number; decisions: Decision[] }> {
  const decisions: Decision[] = []
  let slowestMs = 0
  for (const end = performance.now() + ms; performance.now() < end; ) {
    const askedAt = performance.now()
    decisions.push(...(await Promise.all([1, 2, 3, 4].map(() => limiter.consume('key')))))
    slowestMs = Math.max(slowestMs, performance.now() - askedAt)
    await sleep(1)
  }
  return { slowestMs, decisions }
}

const backAgain = (limiter: RateLimiter, withinMs: number) =>
  eventually('the database decides', async () => (await limiter.consume('other')).source === 'postgres', withinMs)
const allowed = (decisions: readonly Decision[]) => decisions.filter(decision => decision.allowed).length

/**
 * What a fault does to the decisions of one process: at most a quota by the database, and one by the failure policy;
 * each within the deadline.
 */
async function expectKept(limiter: RateLimiter, fault: () => Promise<void>, mend: () => Promise<void>): Promise<void> {
  expect((await limiter.consume('key', 5)).source).toBe('postgres')
  await fault()
  try {
    const { slowestMs, decisions } = await during(600, limiter)
    expect(decisions.at(-1)).toMatchObject({ degraded: true, source: 'fallback' })
    expect(allowed(decisions)).toBeLessThanOrEqual(2 * QUOTA - 5)
    expect(slowestMs).toBeLessThan(DEADLINE_MS + LATE_MS)
    // The breaker asks now and then only.
    expect(errors.length).toBeLessThan(decisions.length / 2)
  } finally {
    await mend()
  }
}

describe.each<[string, () => object]>([
  ['pg', () => server.pool({ max: 2 })],
  [
    'postgres',
    () => {
      const sql = postgres(server.url(), { max: 2, onnotice: () => {} })
      opened.push(sql)
      return sql
    },
  ],
])('over %s', (_, clientOf) => {
  test('a server that stands still: decided within the deadline, and by the server again within a second', async () => {
    const limiter = limiterOver(clientOf())
    await expectKept(
      limiter,
      async () => server.pause(),
      async () => server.unpause(),
    )
    await backAgain(limiter, 3000)
    // What was asked meanwhile is not carried out afterwards.
    const { remaining } = await limiter.peek('key')
    expect(remaining).toBeGreaterThanOrEqual(QUOTA - 5 - 2 * 4)
  })

  test('a server that is killed, and comes back with an empty table: every limit starts afresh', async () => {
    const limiter = limiterOver(clientOf())
    await expectKept(
      limiter,
      () => server.kill(),
      () => server.restart(),
    )
    await backAgain(limiter, 5000)
    expect(await limiter.consume('key')).toMatchObject({ source: 'postgres', remaining: QUOTA - 1 })
  })

  test('and with a table that survives a crash: it goes on where it was', async () => {
    const limiter = limiterOver(clientOf(), 'durable')
    await expectKept(
      limiter,
      () => server.kill(),
      () => server.restart(),
    )
    await backAgain(limiter, 5000)
    expect((await limiter.peek('key')).remaining).toBeLessThanOrEqual(QUOTA - 5)
  })

  test('connections that are cut: the next decisions go over new ones', async () => {
    const limiter = limiterOver(clientOf())
    for (let i = 0; i < 5; i++) {
      await limiter.consume('key')
      await admin.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = $1',
        ['client backend'],
      )
      await backAgain(limiter, 2000)
    }
    expect((await limiter.peek('key')).remaining).toBeLessThanOrEqual(QUOTA - 5)
  })

  test('a server that only reads: the error says so', async () => {
    const limiter = limiterOver(clientOf())
    const setting = async (value: string) => {
      await admin.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`)
      await admin.query('SELECT pg_reload_conf()')
      await eventually(
        'the setting',
        async () =>
          (await admin.query('SHOW default_transaction_read_only')).rows[0].default_transaction_read_only === value,
      )
    }
    await expectKept(
      limiter,
      () => setting('on'),
      () => admin.query('SET default_transaction_read_only = off').then(() => setting('off')),
    )
    expect(errors).toContainEqual(
      expect.stringMatching(
        /read-only transaction: the server only reads, it may be a standby: expected a pool of the primary$/,
      ),
    )
    await backAgain(limiter, 2000)
  })
})

const opened: postgres.Sql[] = []
afterEach(async () => void (await Promise.all(opened.splice(0).map(sql => sql.end({ timeout: 0 })))))

describe('what is wrong is said, with what to do', () => {
  const failing = async (limiter: RateLimiter, message: RegExp) => {
    expect(await limiter.consume('key')).toMatchObject({ allowed: true, source: 'fallback', degraded: true })
    expect(errors).toEqual([expect.stringMatching(message)])
    await expect(limiter.reset('key')).rejects.toThrow(message)
  }

  test('there is no table', () =>
    failing(
      limiterOver(admin, 'limits.none'),
      /create the table, by await store\.createTable\(\).* npx spillway sql postgres --table limits\.none/,
    ))

  test('a user without rights', async () => {
    await admin.query('CREATE ROLE guest LOGIN')
    const guest = server.pool({ connectionString: server.url('postgres', 'guest') })
    await failing(limiterOver(guest), /permission denied.*: GRANT SELECT, INSERT, UPDATE, DELETE ON spillway/)
    await admin.query('GRANT SELECT, INSERT, UPDATE, DELETE ON spillway TO guest')
    await backAgain(limiterOver(guest), 1000)
  })

  test('a table of other columns', async () => {
    await admin.query('CREATE TABLE older (key text PRIMARY KEY, points int, expire bigint)')
    await failing(limiterOver(admin, 'older'), /the table older was not made by this version of spillway/)
  })

  test('a full disk', async () => {
    await new PostgresStore(admin, { table: 'full' }).createTable()
    const failure = "RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'"
    await admin.query(`CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${failure}; END $$`)
    await admin.query('CREATE TRIGGER fill BEFORE INSERT ON "full" FOR EACH ROW EXECUTE FUNCTION fill()')
    expect(await limiterOver(admin, 'full').consume('key')).toMatchObject({ source: 'fallback', degraded: true })
    expect(errors).toEqual([expect.stringMatching(/No space left on device: make room on its disk$/)])
    await admin.query('DROP TRIGGER fill ON "full"')
    await backAgain(limiterOver(admin, 'full'), 1000)
  })

  test('a row of another format', async () => {
    const limiter = limiterOver(admin)
    await limiter.consume('key')
    await admin.query("UPDATE spillway SET state = '99 later', version = version + 1 WHERE key LIKE $1", [
      `%faults%${names - 1}%`,
    ])
    await failing(limiter, /holds a row of format "99", this version of spillway reads format \d+:/)
  })

  test('a standby, of a table that is unlogged and of one that is not', async () => {
    const standby = await PostgresServer.start({ settings: { max_connections: 40 }, standbyOf: server })
    try {
      for (const table of ['spillway', 'durable']) {
        errors = []
        expect(await limiterOver(standby.pool(), table).consume('key')).toMatchObject({ source: 'fallback' })
        const message = /: the server only reads, it may be a standby: expected a pool of the primary$/
        expect(errors).toEqual([expect.stringMatching(message)])
      }
    } finally {
      await standby.stop()
    }
  })

  test('a pool without a free connection', async () => {
    const pool = server.pool({ max: 1 })
    const limiter = limiterOver(pool)
    await limiter.consume('key')
    const held = await pool.connect()
    const { slowestMs, decisions } = await during(600, limiter)
    expect(decisions.at(-1)).toMatchObject({ degraded: true, source: 'fallback' })
    expect(slowestMs).toBeLessThan(DEADLINE_MS + LATE_MS)
    // Those that wait for a connection do not pile up.
    expect(pool.waitingCount).toBeLessThan(12)
    held.release()
    await backAgain(limiter, 1000)
  })

  test('a server without a free connection', async () => {
    const others = server.pool({ max: 60 })
    await Promise.allSettled(Array.from({ length: 60 }, () => others.query('SELECT pg_sleep(0.5)')))
    const limiter = limiterOver(server.pool({ max: 1, connectionString: server.url('postgres', 'guest') }))
    await limiter.consume('key')
    expect(errors).toEqual([expect.stringMatching(/raise max_connections, or give the store a small pool of its own/)])
    await others.end()
    await backAgain(limiter, 2000)
  })

  test('the doctor gives up on a server that stands still', async () => {
    server.pause()
    try {
      const limits = { answerMs: 300, interrupted: new AbortController().signal }
      const findings = await examinePostgres(server.url(), { table: 'spillway', prefix: 'spillway' }, limits)
      expect(findings).toEqual([expect.objectContaining({ subject: 'server', state: 'problem' })])
    } finally {
      server.unpause()
    }
  })
})

test('a transaction that stays open, and keeps what it saw, delays nothing and changes no decision', async () => {
  const limiter = limiterOver(server.pool({ max: 1 }))
  const reader = await admin.connect()
  await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM spillway')
  const { decisions } = await during(500, limiter)
  await reader.query('COMMIT')
  reader.release()
  expect(allowed(decisions)).toBe(QUOTA)
  expect(decisions.filter(({ source }) => source !== 'postgres')).toEqual([])
})

test('somebody else who holds a row delays its key up to the deadline; what waited is not carried out afterwards', async () => {
  const limiter = limiterOver(server.pool({ max: 1 }))
  await limiter.consume('key', 3)
  const holder = await admin.connect()
  await holder.query('BEGIN; SELECT FROM spillway FOR UPDATE')
  const { slowestMs, decisions } = await during(1000, limiter)
  expect(decisions.at(-1)).toMatchObject({ degraded: true })
  expect(slowestMs).toBeLessThan(DEADLINE_MS + LATE_MS)
  const { rows } = await admin.query("SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
  await holder.query('COMMIT')
  holder.release()
  expect(rows[0].count).toBeLessThan(12)
  await backAgain(limiter, 1000)
  expect((await limiter.peek('key')).remaining).toBeGreaterThanOrEqual(QUOTA - 3 - 4)
})

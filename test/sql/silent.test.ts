import { chmod, copyFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals'
import postgres from 'postgres'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { eventually } from '../support/eventually.js'
import { giveToServer, ownedFolder, PostgresServer } from '../support/postgres-server.js'
import { TcpProxy } from '../support/tcp-proxy.js'
import { type TestDatabase, testPostgres } from '../support/test-postgres.js'

jest.setTimeout(60_000)

const database = testPostgres()
const certificates = join(import.meta.dirname, '../support/tls')
/** The same over TLS, whose sockets are wrapped. */
let secure: PostgresServer
let certificate: string
beforeAll(async () => {
  await new PostgresStore(database.pool()).createTable()
  certificate = await ownedFolder('spillway-certificate-')
  for (const file of ['server.pem', 'server.key']) {
    await copyFile(join(certificates, file), join(certificate, file))
    await chmod(join(certificate, file), 0o600)
    await giveToServer(join(certificate, file))
  }
  const [ssl_cert_file, ssl_key_file] = ['server.pem', 'server.key'].map(file => join(certificate, file))
  secure = await PostgresServer.start({ settings: { ssl: 'on', ssl_cert_file, ssl_key_file } })
  await new PostgresStore(secure.pool()).createTable()
})
afterAll(async () => {
  await secure.stop()
  await rm(certificate, { recursive: true })
})

let proxy: TcpProxy | undefined
afterEach(async () => {
  await proxy?.stop()
  proxy = undefined
})
const tls = { rejectUnauthorized: false }

interface Opened {
  readonly proxy: TcpProxy
  readonly client: object
  readonly end: () => Promise<unknown>
}

const WAYS: ReadonlyArray<[string, () => Promise<Opened>]> = [
  ['pg', () => pgOf(database)],
  ['postgres', () => postgresOf(database)],
]
const TLS_WAYS: typeof WAYS = [
  ['pg over TLS', () => pgOf(secure, tls)],
  ['postgres over TLS', () => postgresOf(secure, tls)],
]

/** The way to a server, through a proxy. */
async function farFrom(server: TestDatabase | PostgresServer): Promise<{ url: string; proxy: TcpProxy }> {
  proxy = await TcpProxy.start(server.port)
  const url = server instanceof PostgresServer ? server.url() : server.url
  return { proxy, url: url.replace(`:${server.port}/`, `:${proxy.port}/`) }
}

async function pgOf(server: TestDatabase | PostgresServer, ssl?: object): Promise<Opened> {
  const { url, proxy } = await farFrom(server)
  const pool = database.pool({ connectionString: url, ssl, max: 1 })
  return { proxy, client: pool, end: () => pool.end() }
}

async function postgresOf(server: TestDatabase | PostgresServer, ssl: object | false = false): Promise<Opened> {
  const { url, proxy } = await farFrom(server)
  const sql = postgres(url, { max: 1, onnotice: () => {}, ssl })
  return { proxy, client: sql, end: () => sql.end({ timeout: 0 }) }
}

test.each([...WAYS, ...TLS_WAYS])(
  '%s: a connection that is dropped without a word is given up: decided by the database again within seconds',
  async (_, open) => {
    const { proxy, client, end } = await open()
    const limiter = new RateLimiter({ policy: '100/1h', name: 'silent', store: new PostgresStore(client) })
    // To connect over TLS takes longer than a deadline on a busy machine.
    await eventually('decided by the database', async () => !(await limiter.consume('k')).degraded)
    proxy.swallowNewest()
    const cutAt = performance.now()
    const isBack = async () => {
      await sleep(50)
      return !(await limiter.consume('k')).degraded
    }
    await eventually('decided by the database', isBack, 20_000)
    // 5 s, and up to 5 s more until the breaker asks again.
    expect(performance.now() - cutAt).toBeLessThan(11_000)
    void end().catch(() => {})
  },
)

test.each(WAYS)('%s: createTable settles, though the server accepts and is silent', async (_, open) => {
  const { proxy, client, end } = await open()
  proxy.swallow()
  const startedAt = performance.now()
  await expect(new PostgresStore(client, { table: 'silent' }).createTable()).rejects.toThrow('did not answer in time')
  expect(performance.now() - startedAt).toBeLessThan(11_000)
  void end().catch(() => {})
})

test('an answer that comes after its timeout changes nothing: settlements still give back', async () => {
  const pool = database.pool()
  let holdMs = 0
  const client = {
    async query(text: string, values: readonly unknown[], name?: string) {
      const ms = holdMs
      holdMs = 0
      const { rows } = await pool.query({ text, values: [...values], name })
      await sleep(ms)
      return rows
    },
  }
  const limiter = new RateLimiter({
    policy: '100/1h',
    name: 'late answers',
    store: new PostgresStore(client),
    deadline: 400,
    onStoreFailure: 'closed',
  })
  const lateOnce = async () => {
    holdMs = 1000
    expect((await limiter.consume('other')).degraded).toBe(true)
  }
  await limiter.consume('other')
  await lateOnce()
  const decision = await limiter.consume('k', 50)
  expect(decision.source).toBe('postgres')
  await sleep(1100)
  await lateOnce()
  await limiter.consume('other')
  await sleep(1100)
  await limiter.settle(decision, 10)
  expect((await limiter.peek('k', 0)).remaining).toBe(90)
})

test('a table that exists unlogged is refused where a logged one is asked for, and not the other way', async () => {
  const pool = database.pool()
  const store = new PostgresStore(pool, { table: 'durable' })
  await store.createTable()
  await expect(store.createTable({ logged: true })).rejects.toThrow('ALTER TABLE "durable" SET LOGGED')
  await pool.query('ALTER TABLE durable SET LOGGED')
  await store.createTable({ logged: true })
  await store.createTable()
})

test('half a change is not written: one that fails takes nothing with it', async () => {
  const [limit] = parsePolicy('10/1h')
  const broken = {
    ...limit,
    name: 'broken',
    get quota(): number {
      throw new Error('broken')
    },
  }
  const store = new PostgresStore(database.pool(), { prefix: 'half' })
  const answers = await Promise.allSettled([
    store.charge(
      [
        { key: 'k', limit },
        { key: 'k', limit: broken },
      ],
      3,
    ),
    store.consume([{ key: 'k', limit }], 1),
  ])
  expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
  expect((await store.peek([{ key: 'k', limit }], 0))[0].remaining).toBe(9)
})

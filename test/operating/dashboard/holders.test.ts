import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import type { Hold } from '../../../src/limiter/core/observer.js'
import { RecentActivity } from '../../../src/operating/dashboard/report/activity.js'
import type { WaitingView } from '../../../src/operating/dashboard/server/page-views.js'
import type { HolderView, SharedRow } from '../../../src/operating/dashboard/view.js'
import { childProgram } from '../../support/child-program.js'
import { RedisServer } from '../../support/redis-server.js'
import { OpenDashboard } from './open-dashboard.js'

let redis: RedisServer
let client: ReturnType<RedisServer['client']>
let page: OpenDashboard
const children: ChildProcess[] = []

beforeAll(async () => {
  redis = await RedisServer.start()
  client = redis.client()
  page = await OpenDashboard.start({ client, authorize: () => 'read' })
})
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  await client.flushall()
})
afterAll(async () => {
  await page.close()
  await redis.stop()
})

/**
 * A process of a service; it does what it is told by JavaScript, in which these names mean something, and answers with
 * the result.
 */
const PROCESS = `
  import { createServer } from 'node:http'
  import { once } from 'node:events'
  import { Redis } from 'ioredis'
  import { concurrencyLimit } from './src/http/adapters/node.ts'
  import { reporter } from './src/operating/dashboard/index.ts'
  import { Semaphore } from './src/index.ts'
  const client = new Redis(process.env.REDIS_URL)
  const { SERVICE } = process.env
  const given = SERVICE ? { observer: reporter({ client, service: SERVICE, version: '1', every: '50ms' }) } : {}
  const semaphore = new Semaphore(client, 'reports', { permits: 100, ...given })
  const servers = []
  /** A request that stays inside of a place. */
  async function inside(name, options) {
    const limit = concurrencyLimit({ name, permits: 5, ...options, ...given })
    const server = createServer(async (req, res) => (await limit(req, res)) && servers.push(res)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const before = servers.length
    fetch('http://127.0.0.1:' + server.address().port).catch(() => {})
    while (servers.length === before) await new Promise(resolve => setTimeout(resolve, 5))
  }
  async function take(count) {
    const ids = []
    for (let i = 0; i < count; i++) ids.push((await semaphore.acquire()).id)
    return ids
  }
  process.on('message', async work => {
    const names = { client, semaphore, inside, take }
    const result = await new Function(...Object.keys(names), 'return ' + work)(...Object.values(names))
    process.send({ result })
  })
  process.on('disconnect', () => process.exit())
  await client.ping()
  process.send({ result: process.pid })
`

async function processOf(service = '') {
  const child = fork(childProgram(PROCESS), { env: { ...process.env, REDIS_URL: redis.url, SERVICE: service } })
  children.push(child)
  await once(child, 'message')
  return {
    pid: child.pid,
    kill: () => child.kill('SIGKILL'),
    async run<T>(work: string): Promise<T> {
      const answer = once(child, 'message')
      child.send(work)
      const [{ result }] = (await answer) as [{ result: T }]
      return result
    },
  }
}

const rowOf = ({ shared }: WaitingView, name: string) => shared.find(row => row.name === name)
async function shown(
  name: string,
  isSo: (row: SharedRow, holders: readonly HolderView[]) => boolean,
): Promise<SharedRow> {
  const view = await page.shows('waiting', view => {
    const row = rowOf(view, name)
    return row !== undefined && isSo(row, row.holders ?? [])
  })
  return rowOf(view, name)!
}
const named = ({ by }: HolderView) => (typeof by === 'string' ? by : `${by.service} ${by.host}:${by.pid}`)
const isTold = ({ by }: HolderView) => by !== 'new'

test('a lease of any kind has the name of its process and the moment of its grant; one of a process without a reporter says so', async () => {
  const [shop, quiet] = [await processOf('shop'), await processOf()]
  const before = Date.now()
  const taken = await shop.run<string[]>('take(2)')
  const { wide, long, resumed } = await shop.run<Record<string, string>>(`(async () => {
    const wide = (await semaphore.acquire({ permits: 3 })).id
    const long = (await semaphore.acquire({ lease: '10m' })).id
    const given = await semaphore.acquire()
    return { wide, long, resumed: (await semaphore.resume(given.id)).id }
  })()`)
  const own = await quiet.run<string[]>('take(1)')
  const after = Date.now()
  const { holders = [], inUse } = await shown('reports', (_, holders) => holders.length === 6 && holders.every(isTold))
  expect(inUse).toBe(8)
  const name = `shop ${hostname()}:${shop.pid}`
  const names = Object.fromEntries(holders.map(holder => [holder.id, named(holder)]))
  expect(names).toEqual({
    ...Object.fromEntries([...taken, wide, long, resumed].map(id => [id, name])),
    [own[0]]: 'unknown',
  })
  for (const { since } of holders) {
    // Whole ms, rounded down.
    expect(since).toBeGreaterThanOrEqual(before - 1)
    expect(since).toBeLessThanOrEqual(after)
  }
})

test('places of a concurrency limit have the name of their process and since when they are held, in a process and over Redis', async () => {
  const [one, two] = [await processOf('shop'), await processOf('admin')]
  const before = Date.now()
  await one.run(`inside('uploads')`)
  await one.run(`inside('exports', { client })`)
  await two.run(`inside('exports', { client })`)
  const after = Date.now()
  const { holders: exports = [] } = await shown('exports', (_, holders) => holders.length === 2)
  const uploads = await shown('uploads', (_, holders) => holders.length === 1)
  expect(exports.map(named)).toEqual([`shop ${hostname()}:${one.pid}`, `admin ${hostname()}:${two.pid}`])
  expect(uploads).toMatchObject({ kind: 'concurrency', inUse: 1, moreHolders: 0 })
  expect(uploads.holders?.map(named)).toEqual([`shop ${hostname()}:${one.pid}`])
  for (const { since, permits } of [...exports, ...(uploads.holders ?? [])]) {
    expect(permits).toBe(1)
    expect(since).toBeGreaterThanOrEqual(before - 1)
    expect(since).toBeLessThanOrEqual(after)
  }
})

test('a process names the twenty that it has held longest, and the page says so of the others', async () => {
  const shop = await processOf('shop')
  const taken = await shop.run<string[]>('take(23)')
  const { holders = [] } = await shown('reports', (_, holders) => holders.length === 23 && holders.every(isTold))
  const name = `shop ${hostname()}:${shop.pid}`
  const names = new Map(holders.map(holder => [holder.id, named(holder)]))
  expect(taken.map(id => names.get(id))).toEqual([...Array(20).fill(name), ...Array(3).fill('untold')])
})

test('the lease of a dead process keeps the name of its holder, which is said to be silent', async () => {
  const shop = await processOf('shop')
  const [id] = await shop.run<string[]>('take(1)')
  await shown('reports', (_, holders) => holders.length === 1 && holders.every(isTold))
  shop.kill()
  const [process] = (await page.view({ page: 'processes' })).processes
  const records = 'spillway:{!dashboard}:records'
  const [, number, , record] = /^(\d+) (\d+) (.*)$/s.exec(String(await client.hget(records, process.id))) ?? []
  await client.hset(records, process.id, `${number} ${Date.now() - 120_000} ${record}`)
  const { holders } = await shown(
    'reports',
    (_, [holder]) => typeof holder?.by === 'object' && holder.by.silent === true,
  )
  expect(holders).toMatchObject([{ id, by: { service: 'shop', pid: shop.pid, silent: true } }])
})

test('a report is bounded, whatever a process holds: the longest held come first', () => {
  const activity = new RecentActivity(20)
  for (let i = 0; i < 100; i++) {
    const name = `semaphore ${i}`
    const holds = Array.from(
      { length: 1000 },
      (_, n): Hold => ({ permits: 1, lease: `${i}-${n}`, since: 1e6 - 1000 * i + n }),
    )
    activity.holding('semaphore', name, new Set(holds))
    activity.level({ object: 'semaphore', name, inUse: 1000 })
  }
  const { levels } = activity.details()
  const told = levels.flatMap(({ holds = [] }) => holds)
  expect(told).toHaveLength(200)
  expect(Math.max(...levels.map(({ holds = [] }) => holds.length))).toBe(20)
  expect(levels.find(({ name }) => name === 'semaphore 99')).toMatchObject({ holds: { length: 20 }, moreHolds: 980 })
  expect(levels.find(({ name }) => name === 'semaphore 0')).toEqual({
    object: 'semaphore',
    name: 'semaphore 0',
    inUse: 1000,
    moreHolds: 1000,
  })
})

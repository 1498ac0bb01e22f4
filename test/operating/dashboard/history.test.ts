import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { DelayQueue, parsePolicy, RateLimiter, RedisStore } from '../../../src/index.js'
import { reporter } from '../../../src/operating/dashboard/index.js'
import { MINUTE_MS, RecordKeys, STEP_MS, TEN_MINUTES_MS } from '../../../src/operating/dashboard/records.js'
import type { Range, Series } from '../../../src/operating/dashboard/view.js'
import { limitFacts, limitId } from '../../../src/operating/object-index.js'
import { eventually } from '../../support/eventually.js'
import { RedisServer } from '../../support/redis-server.js'
import { OpenDashboard } from './open-dashboard.js'
import { sendReport } from './send-report.js'

let redis: RedisServer
let client: ReturnType<RedisServer['client']>
beforeAll(async () => {
  redis = await RedisServer.start()
})
beforeEach(() => {
  client = redis.client()
})
afterAll(() => redis.stop())

const closing: Array<() => Promise<unknown>> = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  await client.flushall()
  client.disconnect()
})

const keys = new RecordKeys('spillway')
const [limit] = parsePolicy('5/1m')
const id = limitId('login', limit)
const notes = [[id, limitFacts('login', limit, { store: 'redis' })]] as const
const counts = (allowed: number, refused: number) => `${allowed},${refused},0,0,${allowed + refused},0,0,0`

async function start(): Promise<OpenDashboard> {
  const page = await OpenDashboard.start({ client, authorize: () => 'read' })
  closing.push(() => page.close())
  return page
}

async function chartOf(page: OpenDashboard, range: Range): Promise<Series> {
  return (await page.view({ page: 'limits', range })).rows[0].series
}

/** What a process has decided in a minute some time ago. */
const decidedAgo = async (ms: number, allowed: number, refused = 0) => {
  const stepAt = Date.now()
  await sendReport(client, { stepAt, minuteAt: stepAt - ms, minuteRows: [[id, counts(allowed, refused)]], notes })
}

/** The requests behind a chart: its rates times its seconds. */
function sumOf({ allowed, refused, stepMs }: Series): [allowed: number, refused: number] {
  const sum = (values: ReadonlyArray<number | null>) =>
    Math.round(values.reduce<number>((sum, value) => sum + (value ?? 0), 0) * (stepMs / 1000))
  return [sum(allowed), sum(refused)]
}

test('a range shows what was decided in it, in steps of 10 s, a minute or ten minutes, from the first data on', async () => {
  await decidedAgo(20 * 3_600_000, 600, 60)
  await decidedAgo(5 * 3_600_000, 1200)
  await decidedAgo(40 * 60_000, 120, 60)
  const page = await start()
  const day = await chartOf(page, '24h')
  expect([day.stepMs, sumOf(day)]).toEqual([TEN_MINUTES_MS, [1920, 120]])
  const age = Date.now() - day.from
  expect(age).toBeGreaterThanOrEqual(20 * 3_600_000)
  expect(age).toBeLessThan(20 * 3_600_000 + TEN_MINUTES_MS + 5000)
  expect(day.allowed[0]).toBe(1)
  const sixHours = await chartOf(page, '6h')
  expect([sixHours.stepMs, sumOf(sixHours)]).toEqual([TEN_MINUTES_MS, [1320, 60]])
  const hour = await chartOf(page, '1h')
  expect([hour.stepMs, sumOf(hour), hour.allowed[0]]).toEqual([MINUTE_MS, [120, 60], 2])
  const quarter = await chartOf(page, '15m')
  expect([quarter.stepMs, sumOf(quarter)]).toEqual([STEP_MS, [0, 0]])
})

test('the last 15 minutes of every range come from the steps of 10 s, at once', async () => {
  const now = Date.now()
  await decidedAgo(50 * 60_000, 60)
  await sendReport(client, { stepAt: now - 2 * MINUTE_MS, rows: [[id, counts(600, 0)]], notes })
  const page = await start()
  const hour = await chartOf(page, '1h')
  expect([hour.stepMs, sumOf(hour)]).toEqual([MINUTE_MS, [660, 0]])
  await sendReport(client, { rows: [[id, counts(600, 0)]], notes })
  // The current minute is shown as a rate of the time that has passed in it.
  await eventually('the current minute is shown', async () => ((await chartOf(page, '1h')).allowed.at(-1) ?? 0) > 0)
})

test("a young service's chart begins where its data begins, in the finest steps, whatever the range", async () => {
  const at = Date.now() - 50_000
  await sendReport(client, { stepAt: at, rows: [[id, counts(20, 0)]], notes })
  const page = await start()
  for (const range of ['15m', '1h', '6h', '24h'] as const) {
    const { from, stepMs, allowed } = await chartOf(page, range)
    expect([range, from, stepMs, allowed[0]]).toEqual([range, Math.floor(at / STEP_MS) * STEP_MS, STEP_MS, 2])
    expect(allowed.length).toBeLessThan(10)
  }
})

test('a step that is over is read once', async () => {
  await decidedAgo(20 * 3_600_000, 600)
  const page = await start()
  await page.view({ page: 'limits' })
  const reads = async () => Number(/cmdstat_hgetall:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? 0)
  const before = await reads()
  await chartOf(page, '24h')
  const first = (await reads()) - before
  expect(first).toBeGreaterThan(140)
  await chartOf(page, '24h')
  expect((await reads()) - before - first).toBeLessThan(20)
})

test('a reporter adds what it has counted to the minute and the ten minutes when it rests or ends, in calls that it makes anyway', async () => {
  const observer = reporter({ client, every: '20ms', service: 'shop' })
  const limiter = new RateLimiter({
    policy: '5/1h',
    name: 'api',
    store: new RedisStore(client),
    observer,
  })
  for (let i = 0; i < 7; i++) await limiter.consume('x')
  const own = limitId('api', parsePolicy('5/1h')[0])
  // Over all steps: a step may end while the test runs.
  const sums = async (part: string) => {
    const sum = [0, 0]
    for (const key of await client.keys(`spillway:{!dashboard}:${part}:*`)) {
      for (const text of await client.hvals(key)) {
        for (const [, allowed, refused] of text.matchAll(new RegExp(`${own}:(\\d+),(\\d+)`, 'g'))) {
          sum[0] += Number(allowed)
          sum[1] += Number(refused)
        }
      }
    }
    return sum
  }
  await eventually('seven are told', async () => {
    const [allowed, refused] = await sums('tens')
    return allowed + refused === 7
  })
  for (const part of ['sums', 'minutes', 'tens']) expect([part, await sums(part)]).toEqual([part, [5, 2]])
  await limiter.consume('y')
  await observer.close()
  for (const part of ['sums', 'minutes', 'tens']) expect([part, await sums(part)]).toEqual([part, [6, 2]])
})

test('all limits of a process with many come into the minute, a bounded number at a time', async () => {
  const observer = reporter({ client, every: '20ms', service: 'shop', topKeys: 0 })
  const store = new RedisStore(client)
  const calls: number[] = []
  const send = client.evalsha.bind(client) as (...args: unknown[]) => Promise<unknown>
  client.evalsha = ((...args: unknown[]) => {
    if (args[1] === 9) calls.push(args.length)
    return send(...args)
  }) as typeof client.evalsha
  const policy = Array.from({ length: 8 }, (_, i) => ({ quota: 100, window: `${i + 1}h` as const }))
  await Promise.all(
    Array.from({ length: 40 }, (_, i) => new RateLimiter({ policy, name: `l${i}`, store, observer }).consume('x')),
  )
  await observer.close()
  let rows = 0
  for (const key of await client.keys('spillway:{!dashboard}:minutes:*')) {
    for (const text of await client.hvals(key)) rows += text.split(';').length - 1
  }
  // 320 limits, and the sum of all.
  expect(rows).toBeGreaterThanOrEqual(321)
  expect(Math.max(...calls)).toBeLessThan(2 * 250 + 2 * 50 + 30)
})

test('a minute is kept for 65 minutes, ten minutes for 24 hours and 20 minutes', async () => {
  const now = Date.now()
  await sendReport(client, { stepAt: now, rows: [[id, counts(1, 0)]], minuteRows: [[id, counts(1, 0)]], notes })
  const [minute, ten] = [Math.floor(now / MINUTE_MS), Math.floor(now / TEN_MINUTES_MS)]
  const expiry = (key: string) => client.call('PEXPIRETIME', key)
  expect(await expiry(keys.sums(minute, MINUTE_MS))).toBe(minute * MINUTE_MS + 65 * 60_000)
  expect(await expiry(keys.sums(ten, TEN_MINUTES_MS))).toBe(ten * TEN_MINUTES_MS + 24 * 3_600_000 + 20 * 60_000)
  // A process whose clock is wrong leaves nothing in the future.
  await sendReport(client, { stepAt: now, minuteAt: now + 3_600_000, minuteRows: [[id, counts(1, 0)]], notes })
  expect(await client.exists(keys.sums(minute + 60, MINUTE_MS))).toBe(0)
})

test('a service shows only the limits, keys, queues and processes that it uses; alerts are of all', async () => {
  const services = ['shop', 'admin'].map(service => reporter({ client, every: '20ms', service }))
  for (const [i, observer] of services.entries()) {
    closing.push(() => observer.close())
    const own = new RateLimiter({ policy: '2/1h', name: `own-${i}`, store: new RedisStore(client), observer })
    const both = new RateLimiter({ policy: '1000/1h', name: 'both', store: new RedisStore(client), observer })
    for (let n = 0; n < 30; n++) await Promise.all([own.consume(`key-${i}`), both.consume(n < 3 ? 'key-1' : `${n}`)])
  }
  const queue = new DelayQueue<number>(client, 'mail', { observer: services[1] })
  closing.push(() => queue.close())
  await queue.push(1)
  await queue.stats()
  services[1].level?.({ object: 'queue', name: 'mail', depth: 1 })
  const page = await start()
  const names = async (service?: string) => {
    const { rows, total, alerts, status, services } = await page.view({ page: 'limits', ...(service && { service }) })
    const limiters = rows.map(({ limiter }) => limiter).sort()
    return { limiters, total, alerts: alerts.length, services, processes: status.processes }
  }
  const all = { alerts: 2, services: ['admin', 'shop'], processes: 2 }
  await eventually('both services are shown', async () => {
    const { total, alerts, processes } = await names()
    return total === 3 && alerts === 2 && processes === 2
  })
  expect(await names('shop')).toEqual({ ...all, limiters: ['both', 'own-0'], total: 2 })
  expect(await names('admin')).toEqual({ ...all, limiters: ['both', 'own-1'], total: 2 })
  expect(await names('nobody')).toEqual({ ...all, limiters: [], total: 0 })
  const refused = async (service: string) =>
    (await page.view({ page: 'keys', service })).mostRefused.map(({ limiter }) => limiter)
  // Keys come with the next details of a process, which are read more rarely than its sums.
  for (const [service, limiter] of [
    ['shop', 'own-0'],
    ['admin', 'own-1'],
  ] as const) {
    await eventually('its keys are told', async () => (await refused(service)).length > 0)
    expect(await refused(service)).toEqual([limiter])
  }
  const found = await page.view({ page: 'keys', service: 'shop', key: 'key-1' })
  expect(found.found?.limiters.map(({ limiter }) => limiter)).toEqual(['both'])
  const queues = async (service: string) =>
    (await page.view({ page: 'queues', service })).queues.map(({ name }) => name)
  await eventually('its queue is told', async () => (await queues('admin')).length === 1)
  expect(await queues('shop')).toEqual([])
  const { processes } = await page.view({ page: 'processes', service: 'admin' })
  expect(processes.map(({ service }) => service)).toEqual(['admin'])
})

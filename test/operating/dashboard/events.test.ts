import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { MemoryStore, RateLimiter, RedisStore } from '../../../src/index.js'
import { type ReporterOptions, reporter } from '../../../src/operating/dashboard/index.js'
import { RecordKeys, type ToldEvent } from '../../../src/operating/dashboard/records.js'
import type { EventView } from '../../../src/operating/dashboard/view.js'
import type { RedisServer } from '../../support/redis-server.js'
import { testRedis } from '../../support/test-redis.js'
import { OpenDashboard } from './open-dashboard.js'
import { sendReport } from './send-report.js'

const redis = testRedis()
let client: ReturnType<RedisServer['client']>
let page: OpenDashboard
const closing: Array<() => unknown> = []
beforeEach(async () => {
  client = redis.client()
  await client.flushall()
  page = await OpenDashboard.start({ client, authorize: () => ({ access: 'write', user: 'ann' }) })
  closing.push(() => page.close())
})
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

function report(options: Partial<ReporterOptions> = {}): ReturnType<typeof reporter> {
  const observer = reporter({ client, every: '20ms', service: 'shop', version: '1.2.0', ...options })
  closing.push(() => observer.close())
  return observer
}
const limiterOf = (observer: ReturnType<typeof reporter>, name = 'api', policy = '100/1h') =>
  new RateLimiter({ policy, name, store: new RedisStore(client), deadline: '5s', observer })
const alert = (subject: string) => JSON.stringify({ kind: 'alert', rule: 'refusals', when: 'denied-share', subject })
const told = (id: string, from: number, to: number, more: Partial<ToldEvent> = {}): ToldEvent => {
  return { chain: id, id, from, to, gapMs: 30_000, count: 0, value: 0, reason: '', ...more }
}
const titles = (events: readonly EventView[]) => events.map(({ title }) => title)

test('the first process of a version is an event; others of it, and the same after a while, are none', async () => {
  const starts = async (version: string) => limiterOf(report({ version })).consume('x')
  for (const version of ['1.2.0', '1.2.0', '1.3.0', '1.3.0']) {
    await starts(version)
    await page.shows('events', ({ events }) => events.some(({ title }) => title.includes(version)))
  }
  const { events } = await page.view({ page: 'events' })
  expect(titles(events).sort()).toEqual(['shop 1.2.0 started', 'shop 1.3.0 started'])
})

test('an outage is told with its span, its reason and the decisions that were made without Redis', async () => {
  const observer = report({ version: '' })
  const limiter = new RateLimiter({ policy: '100/1h', name: 'api', store: new MemoryStore(), observer })
  await limiter.consume('before')
  observer.breakerOpened?.(new Error('connect ECONNREFUSED'))
  const decision = await limiter.peek('x')
  for (let i = 0; i < 7; i++) observer.decided?.({ ...decision, degraded: true }, 'api')
  const [during] = (await page.shows('events', ({ events }) => events.length > 0)).events
  expect(during).toMatchObject({ kind: 'outage', lasts: true, title: 'Redis did not answer shop' })
  observer.breakerClosed?.()
  await limiter.consume('after')
  await observer.close()
  const { events } = await page.shows('events', ({ events }) => events[0]?.text?.startsWith('7') === true)
  expect(events).toMatchObject([{ text: '7 decisions without it. connect ECONNREFUSED' }])
})

test('an alert is told by several processes as one event, with the largest value, and again when it comes again', async () => {
  const now = Date.now()
  const send = (process: string, ...events: ToldEvent[]) => sendReport(client, { process, events })
  await send('a', told(alert('api'), now - 400_000, now - 300_000, { value: 0.3 }))
  await send('b', told(alert('api'), now - 390_000, now - 280_000, { value: 0.4 }))
  await send('a', told(alert('api'), now - 60_000, now, { value: 0.2 }))
  const { events } = await page.view({ page: 'events' })
  expect(events).toMatchObject([
    { title: 'api refuses up to 20\u202f% of its requests', at: now - 60_000, lasts: true },
    { title: 'api refuses up to 40\u202f% of its requests', at: now - 400_000, until: now - 280_000 },
  ])
})

test('an alert that fires in a process is an event, and so is a change; both are marks in charts', async () => {
  const login = limiterOf(report(), 'login', '2/1h')
  for (let i = 0; i < 40; i++) await login.consume('203.0.113.9')
  await page.shows('limits', ({ rows }) => rows.length === 1)
  await page.act({ act: 'block', limiter: 'login', key: '203.0.113.9', for: '1h' })
  const { events } = await page.shows('events', ({ events }) => events.some(({ kind }) => kind === 'alert'))
  expect(events.map(({ kind }) => kind).sort()).toEqual(['alert', 'change', 'deploy'])
  expect(events.find(({ kind }) => kind === 'change')).toMatchObject({ user: 'ann' })
  const { marks } = await page.shows('limits', ({ marks }) => marks.length > 1)
  expect(marks).toContainEqual(
    expect.objectContaining({ kind: 'alert', title: expect.stringMatching(/^login refuses/) }),
  )
})

test('events have keys of their own beside the index of objects', () => {
  const { events, index, processes, changes, secret } = new RecordKeys('spillway')
  const all = [...events, ...index, ...processes, changes, secret]
  expect(new Set(all).size).toBe(all.length)
})

test('events are kept for a day, a thousand at most; a page shows a hundred, and how many more there are', async () => {
  const now = Date.now()
  const old = told(alert('old'), now - 90_000_000, now - 86_500_000)
  const many = Array.from({ length: 1100 }, (_, i) => told(alert(`api-${i}`), now - 5000 - i, now - i))
  for (const events of [[old], many.slice(0, 500), many.slice(500), []]) await sendReport(client, { events })
  for (let i = 0; i < 3; i++) await sendReport(client, { events: [told(alert('last'), now, now)] })
  const [events, facts] = new RecordKeys('spillway').events
  expect([await client.zcard(events), await client.hlen(facts)]).toEqual([1000, 1000])
  const view = await page.view({ page: 'events' })
  expect([view.events.length, view.more]).toEqual([100, 900])
  expect(titles(view.events).filter(title => title.startsWith('old'))).toEqual([])
})

test('what is no event in Redis is left out', async () => {
  const now = Date.now()
  await sendReport(client, { events: [told(alert('api'), now - 5000, now)] })
  const [events, facts] = new RecordKeys('spillway').events
  await client.zadd(events, now, 'nonsense', now, `${now} {"kind":"alert"}`, now, `${now} ${alert('other')}`)
  await client.hset(facts, `${now} ${alert('other')}`, 'nonsense')
  const view = await page.view({ page: 'events' })
  expect(
    titles(view.events)
      .map(title => title.split(' ')[0])
      .sort(),
  ).toEqual(['api', 'other'])
})

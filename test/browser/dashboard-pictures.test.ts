import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals'
import type { Browser } from 'playwright-core'
import { DelayQueue, type LimitOptions, parsePolicy, Semaphore, SharedRateLimiter } from '../../src/index.js'
import { STEP_MS, STEPS, useNotes } from '../../src/operating/dashboard/records.js'
import { LivePolicies } from '../../src/operating/live/index.js'
import { livePolicy } from '../../src/operating/live/live-limit.js'
import { limitFacts, limitId } from '../../src/operating/object-index.js'
import { OpenDashboard } from '../operating/dashboard/open-dashboard.js'
import { sendReport } from '../operating/dashboard/send-report.js'
import { eventually } from '../support/eventually.js'
import { RedisServer } from '../support/redis-server.js'
import { openPage, startBrowser } from './browser.js'

jest.setTimeout(120_000)

/** Pictures are written where this says: docs/dashboard, when they are taken anew. */
const PICTURES = process.env.SPILLWAY_PICTURES
const WIDE = { width: 1600, height: 1350 }
const NARROW = { width: 360, height: 900 }

let redis: RedisServer
let browser: Browser
let dashboard: OpenDashboard
const closing: Array<{ close(): Promise<unknown> }> = []

/**
 * Limiter, policy, what it counts by, and allowed and refused requests in a step: `x` goes from 0 to 1 in 15 minutes.
 */
type Traffic = readonly [string, string | LimitOptions, string, (x: number) => number, (x: number) => number]
const wave = (x: number, often: number) => Math.sin(x * often) + 0.4 * Math.sin(x * often * 3.7 + 1)
const TRAFFIC: readonly Traffic[] = [
  ['login', '5/15m', 'per address', x => 190 + 25 * wave(x, 9), x => (x > 0.6 ? 130 + 25 * wave(x, 31) : 0)],
  ['api', '1000/1m', 'per user', x => 28_000 + 900 * wave(x, 12), x => 600 + 90 * wave(x, 40)],
  ['api', { quota: 50_000, window: '1h', name: 'hourly' }, 'per tenant', x => 28_700 + 900 * wave(x, 12), () => 0],
  ['export', '2/1m', 'per user', x => 30 + 8 * wave(x, 20), x => Math.max(0, 3 + 3 * wave(x, 26))],
  ['search', '20/1s token-bucket burst=40', 'per key', x => 2400 + 160 * wave(x, 15), () => 0],
]

beforeAll(async () => {
  redis = await RedisServer.start()
  const client = redis.client()
  browser = await startBrowser()
  const live = new LivePolicies(client, { defaults: { login: '5/15m' } })
  const limits = TRAFFIC.map(([name, policy, per, ...counts]) => {
    // As the live limits are named.
    const [limit] = name === 'login' ? livePolicy(name, '5/15m').policy : parsePolicy(policy)
    return { id: limitId(name, limit), facts: limitFacts(name, limit, { per, store: 'redis' }), counts }
  })
  const own = limits.map(({ id, facts }) => [id, facts] as const)
  const notes = [...own, ...useNotes('shop', own), ...useNotes('admin', own.slice(0, 1))]
  const now = Date.now()
  for (let ago = STEPS - 1; ago >= 0; ago--) {
    const rows = limits.map(({ id, counts: [allowed, refused] }) => {
      const x = 1 - ago / STEPS
      // The current step has not ended.
      const share = ago === 0 ? (now % STEP_MS) / STEP_MS : 1
      const [a, r] = [Math.round(share * allowed(x)), Math.round(share * refused(x))]
      return [id, `${a},${r},0,0,${a},0,${r},0`] as const
    })
    const all = rows.reduce(
      ([a, r], [, text]) => [a + Number(text.split(',')[0]), r + Number(text.split(',')[1])],
      [0, 0],
    )
    rows.push(['*', `${all[0]},${all[1]},0,0,${all[0]},0,${all[1]},0`])
    await sendReport(client, { stepAt: now - ago * STEP_MS, rows, notes: ago === 0 ? notes : [] })
  }
  const details = {
    keys: [
      [
        'login',
        [
          ['203.0.113.9', 11.9, 11.9],
          ['198.51.100.41', 0.6, 0.6],
          ['2001:db8:0:ff00::/56', 0.3, 0.3],
        ],
      ],
      [
        'api',
        [
          ['user:1742', 40, 38],
          ['user:88', 33, 2],
        ],
      ],
    ],
    queues: [],
    levels: [],
  }
  for (let i = 0; i < 14; i++) {
    const record = {
      service: i < 11 ? 'shop' : 'admin',
      version: '2.4.0',
      host: `web-${i}`,
      pid: 4000 + i,
      startedAt: now - 7_200_000,
      everyMs: 2000,
      perSecond: 430,
      answerMs: 0.4,
    }
    await sendReport(client, { process: i === 0 ? 'p' : `p${i}`, record, ...(i === 0 && { details }) })
  }
  const webhooks = new DelayQueue<number>(client, 'webhooks', { maxAttempts: 1 })
  const emails = new DelayQueue<number>(client, 'emails')
  for (let i = 0; i < 3; i++) await webhooks.push(i)
  const failing = webhooks.consume(async () => {
    throw new Error('connect ECONNREFUSED 203.0.113.80:443')
  })
  await eventually('three letters are dead', async () => (await webhooks.stats()).dead === 3)
  await failing.close()
  for (let i = 0; i < 12; i++) await webhooks.push(i, { delay: '1h' })
  const reports = new Semaphore(client, 'reports', { permits: 8 })
  for (let i = 0; i < 6; i++) await reports.acquire()
  const partner = new SharedRateLimiter(client, 'partner-api')
  await partner.setRate({ rate: 100, interval: '1m' })
  await partner.acquire(92)
  const objects = [
    ['queue', 'webhooks'],
    ['queue', 'emails'],
    ['semaphore', 'reports'],
    ['rate', 'partner-api'],
  ].map(([kind, name]) => [`${kind}-${name}`, { kind, name }] as const)
  await sendReport(client, { process: 'p1', record: {}, notes: objects })
  dashboard = await OpenDashboard.start({ client, live, authorize: () => ({ access: 'write', user: 'ann' }) })
  closing.push(dashboard, webhooks, emails, reports, partner, live)
})

afterAll(async () => {
  await browser.close()
  for (const each of closing) await each.close()
  await redis.stop()
})

test.each([
  ['wide-light', WIDE, 'light'],
  ['wide-dark', WIDE, 'dark'],
  ['narrow-light', NARROW, 'light'],
  ['narrow-dark', NARROW, 'dark'],
] as const)('%s can be taken, and no text is cut off', async (name, viewport, colorScheme) => {
  const { page, errors } = await openPage(browser, dashboard.url, { viewport, colorScheme })
  await page.locator('.detail-body .callers li').first().waitFor()
  const cut =
    await page.evaluate(`[...document.querySelectorAll('td, th, .button, .band, .head nav a, .ranges a, .panel')]
    .filter(element => element.scrollWidth > element.clientWidth + 1)
    .map(element => element.textContent)`)
  expect(cut).toEqual([])
  expect(errors).toEqual([])
  if (PICTURES !== undefined) {
    mkdirSync(PICTURES, { recursive: true })
    await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true })
  }
  await page.context().close()
})

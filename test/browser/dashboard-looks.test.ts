import { afterAll, beforeAll, expect, jest, test } from '@jest/globals'
import type { Browser, Page } from 'playwright-core'
import { DelayQueue, parsePolicy, RateLimiter, RedisStore, Semaphore } from '../../src/index.js'
import { reporter } from '../../src/operating/dashboard/index.js'
import { LivePolicies } from '../../src/operating/live/index.js'
import { limitFacts, limitId } from '../../src/operating/object-index.js'
import { OpenDashboard } from '../operating/dashboard/open-dashboard.js'
import { sendReport } from '../operating/dashboard/send-report.js'
import { eventually } from '../support/eventually.js'
import { RedisServer } from '../support/redis-server.js'
import { openPage, startBrowser, violationsOf } from './browser.js'

jest.setTimeout(120_000)

const NARROW = { width: 375, height: 800 }
const LAPTOP = { width: 1280, height: 800 }
const LONG = 'x'.repeat(120)
const ARABIC = 'تسجيل الدخول'
/** Turns what follows around: "95" would be read as "59". */
const TURNED = 'login\u202e95'
const PAGES = [
  'limits',
  'keys',
  'keys/=long',
  'keys/=203.0.113.9',
  'waiting',
  'queues',
  'events',
  'changes',
  'processes',
]

let redis: RedisServer
let client: ReturnType<RedisServer['client']>
let browser: Browser
let dashboard: OpenDashboard
let traffic: ReturnType<typeof setInterval>
const closing: Array<{ close(): Promise<unknown> }> = []

beforeAll(async () => {
  redis = await RedisServer.start()
  client = redis.client()
  browser = await startBrowser()
  const live = new LivePolicies(client, { defaults: { search: [{ quota: 2, window: '1h', name: 'hourly' }] } })
  const [shop, admin] = ['shop', `admin-${LONG}`].map(service => reporter({ client, every: '500ms', service }))
  const store = new RedisStore(client)
  const refusing = [LONG, ARABIC, TURNED].map(name => new RateLimiter({ name, policy: '2/1h', store, observer: shop }))
  const search = new RateLimiter({ name: 'search', policy: live.policy('search'), store, observer: admin })
  const decide = async () => {
    const keys = ['203.0.113.9', `k${LONG}`, ARABIC]
    await Promise.all([...refusing, search].flatMap(limiter => keys.map(key => limiter.consume(key))))
  }
  for (let i = 0; i < 12; i++) await decide()
  traffic = setInterval(() => void decide(), 200)
  await search.block(`k${LONG}`, 3_600_000)
  await live.set('search', '3/1h', { by: LONG, key: 'other' })
  const queue = new DelayQueue<number>(client, LONG, { maxAttempts: 1, observer: shop })
  const semaphore = new Semaphore(client, LONG, { permits: 2, observer: shop })
  await semaphore.acquire()
  await queue.push(1)
  const failing = queue.consume(async () => {
    throw new Error(LONG)
  })
  await eventually('a letter is dead', async () => (await queue.stats()).dead === 1)
  await failing.close()
  // Five hours ago there was traffic, too.
  const [limit] = parsePolicy('2/1h')
  const id = limitId(ARABIC, limit)
  const notes = [[id, limitFacts(ARABIC, limit, { store: 'redis' })]] as const
  await sendReport(client, { minuteAt: Date.now() - 5 * 3_600_000, minuteRows: [[id, '6000,0,0,0,6000,0,0,0']], notes })
  dashboard = await OpenDashboard.start({
    client,
    live,
    keys: 'plain',
    authorize: () => ({ access: 'write', user: LONG }),
  })
  await dashboard.act({ act: 'block', limiter: 'search', key: `k${LONG}`, for: '1h' })
  closing.push(dashboard, shop, admin, queue, semaphore, live)
})

afterAll(async () => {
  clearInterval(traffic)
  await browser.close()
  for (const each of closing) await each.close()
  await redis.stop()
})

const open = async (hash = '', options = {}) => {
  const opened = await openPage(browser, `${dashboard.url}${hash}`, { viewport: LAPTOP, ...options })
  await ready(opened.page)
  return opened
}
const ready = (page: Page) => page.locator('main section.panel').first().waitFor()
const goTo = async (page: Page, hash: string) => {
  await page.goto(`${dashboard.url}#/${hash}`)
  await page.waitForResponse(response => response.url().endsWith('view'))
  await ready(page)
}
const hashOf = (page: Page) => new URL(page.url()).hash

test('several alerts fold into one line that names the worst; it opens, stays open, and the limits are in sight', async () => {
  const { page } = await open()
  await page.getByText(/^and [4-9] more alerts$/).waitFor()
  const bands = page.locator('.band:visible')
  expect(await bands.count()).toBe(1)
  expect(await bands.innerText()).toMatch(/refuses \d+\s%|breaker/)
  const table = await page.locator('table.limits tbody tr').first().boundingBox()
  expect(table?.y).toBeLessThan(400)
  await bands.click()
  const all = await bands.count()
  expect(all).toBeGreaterThan(5)
  for (let i = 0; i < 2; i++) await page.waitForResponse(response => response.url().endsWith('view'))
  expect(await bands.count()).toBeGreaterThanOrEqual(all)
  await page.context().close()
})

test.each(['light', 'dark'] as const)(
  '375 px, %s: names of any length and script widen no page, and axe finds nothing',
  async colorScheme => {
    const { page, errors } = await open('', { viewport: NARROW, colorScheme, bypassCSP: true })
    for (const name of PAGES) {
      await goTo(page, name)
      for (const fold of await page.locator('details').all()) await fold.evaluate('element => { element.open = true }')
      const wider = `[...document.querySelectorAll('main *, header *')]
      .filter(element => element.getBoundingClientRect().right > innerWidth + 1 && !element.closest('svg'))
      .map(element => element.outerHTML.slice(0, 100))`
      expect([name, await page.evaluate(wider)]).toEqual([name, []])
      expect([name, await page.evaluate('document.documentElement.scrollWidth - innerWidth')]).toEqual([name, 0])
      expect([name, await violationsOf(page)]).toEqual([name, []])
    }
    expect(errors).toEqual([])
    await page.context().close()
  },
)

test('1280 px: a long name leaves room for the other columns of names', async () => {
  const { page } = await open('#/keys')
  const widths = await page.evaluate<number[]>(
    "[...document.querySelectorAll('th.names')].map(head => head.getBoundingClientRect().width)",
  )
  expect(widths.length).toBeGreaterThanOrEqual(4)
  expect(Math.min(...widths)).toBeGreaterThanOrEqual(160)
  await page.context().close()
})

test('characters that turn the direction of writing are written out, on every page and in its title', async () => {
  const { page } = await open()
  await page.locator('.band:visible').click()
  await page.locator('.alerts strong', { hasText: 'login\\u{202e}95' }).first().waitFor()
  for (const name of PAGES) {
    await goTo(page, name)
    expect([name, await page.evaluate('/[\\u202a-\\u202e]/.test(document.documentElement.outerHTML)')]).toEqual([
      name,
      false,
    ])
  }
  await goTo(page, 'limits')
  const isolated = await page.evaluate<boolean>(
    `[...document.querySelectorAll('.band strong')].every(title => title.querySelector('bdi') !== null)`,
  )
  expect(isolated).toBe(true)
  await page.context().close()
})

test('375 px: each page is in the bar and in sight, also in a wider font', async () => {
  const { page } = await open('', { viewport: NARROW, bypassCSP: true })
  await page.addStyleTag({ content: '.head nav a { letter-spacing: 2px }' })
  for (const link of await page.locator('.head nav a').all()) {
    const box = await link.boundingBox()
    expect((box?.x ?? 1000) + (box?.width ?? 1000)).toBeLessThanOrEqual(NARROW.width)
  }
  await page.context().close()
})

test('a range is chosen on the page, is in the address, and holds for the charts of rows and of an opened row', async () => {
  const { page } = await open()
  const row = page.locator('tr.row', { hasText: ARABIC })
  expect(await row.getByRole('img').getAttribute('aria-label')).not.toContain('h')
  await page.getByRole('link', { name: '6 h', exact: true }).click()
  await page.locator('.ranges [aria-current]', { hasText: '6 h' }).waitFor()
  expect(hashOf(page)).toBe('#/limits?range=6h')
  await row.getByRole('button').click()
  const slider = page.locator('tr.detail', { has: page.getByRole('slider', { name: ARABIC }) }).getByRole('slider')
  await slider.focus()
  await page.keyboard.press('Home')
  // Ten minutes with 6 000 requests are 10 per second.
  expect(await slider.getAttribute('aria-valuetext')).toMatch(
    /^\d\d:\d0 to \d\d:\d0: 10 allowed and 0 refused per second$/,
  )
  await page.reload()
  await ready(page)
  expect(await page.locator('.ranges [aria-current]').innerText()).toBe('6 h')
  await page.locator('.head nav').getByText('Keys').click()
  await page.locator('.head nav').getByText('Limits').click()
  expect(hashOf(page)).toBe('#/limits?range=6h')
  await page.context().close()
})

test("a young service's chart fills its width, and every chart tells its values under the pointer", async () => {
  const { page } = await open()
  const chart = page.locator('tr.row', { hasText: LONG }).locator('.chart.small')
  const line = await chart.locator('.allowed-area').getAttribute('d')
  expect(line).toMatch(/^M0 /)
  await chart.hover()
  await chart.locator('.reading').getByText('allowed').waitFor()
  await page.mouse.move(0, 0)
  await chart.locator('.reading').waitFor({ state: 'detached' })
  await page.context().close()
})

test('a service is chosen on the page, is in the address, and holds on every page that has it', async () => {
  const { page } = await open()
  const rows = page.locator('tr.row')
  expect(await rows.count()).toBe(4)
  await page.getByLabel('Service').selectOption('shop')
  await eventually('three rows', async () => (await page.locator('tr.row').count()) === 3)
  expect(hashOf(page)).toBe('#/limits?service=shop')
  await page.locator('.head nav').getByText('Processes').click()
  await eventually('one panel', async () => (await page.locator('main .panel').count()) === 1)
  expect(hashOf(page)).toBe('#/processes?service=shop')
  await page.locator('.head nav').getByText('Keys').click()
  await page.getByRole('heading', { name: 'Refused most' }).waitFor()
  const limiters = await page.locator('main table').first().innerText()
  expect(limiters).not.toContain('search')
  // A link to a view is the view.
  await goTo(page, `limits?service=admin-${LONG}`)
  await eventually('one row', async () => (await page.locator('tr.row').count()) === 1)
  expect(await rows.first().innerText()).toContain('search')
  await goTo(page, `waiting?service=admin-${LONG}`)
  await page.getByRole('link', { name: 'Show all services' }).click()
  await page.getByRole('heading', { name: LONG }).waitFor()
  await page.context().close()
})

test("a limit's own name stands beside its words: in its row, opened at 375 px, in its alert and for a key", async () => {
  const { page } = await open('', { viewport: NARROW })
  const search = page.getByRole('button', { name: 'search', exact: true })
  if ((await search.getAttribute('aria-expanded')) === 'false') await search.click()
  await page.locator('.detail-body .only-narrow .tag', { hasText: 'hourly' }).waitFor()
  await page.locator('.alerts summary').click()
  expect(await page.locator('.alerts > .band:not(summary)', { hasText: 'search' }).locator('.tag').count()).toBe(1)
  await goTo(page, 'keys/=203.0.113.9')
  expect(await page.locator('section[aria-label="search"] .tag').innerText()).toBe('hourly')
  await page.context().close()
})

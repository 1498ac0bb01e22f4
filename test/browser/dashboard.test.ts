import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Browser, Page } from 'playwright-core'
import { DelayQueue, Semaphore, SharedRateLimiter } from '../../src/index.js'
import { dashboard, reporter } from '../../src/operating/dashboard/index.js'
import { LivePolicies } from '../../src/operating/live/index.js'
import { encoded, OpenDashboard } from '../operating/dashboard/open-dashboard.js'
import { childProgram } from '../support/child-program.js'
import { RedisServer } from '../support/redis-server.js'
import { openPage, startBrowser, violationsOf } from './browser.js'

jest.setTimeout(120_000)

const WIDE = { width: 1600, height: 1350 }
const NARROW = { width: 360, height: 900 }

let redis: RedisServer
let client: ReturnType<RedisServer['client']>
let browser: Browser
let writer: OpenDashboard
let reader: OpenDashboard
let live: LivePolicies
let queue: DelayQueue<object>
let semaphore: Semaphore
let mail: SharedRateLimiter
let observer: ReturnType<typeof reporter>
const children: ChildProcess[] = []

beforeAll(async () => {
  redis = await RedisServer.start()
  client = redis.client()
  browser = await startBrowser()
  live = new LivePolicies(client, { defaults: { api: '1000000/1h', login: '5/1h' } })
  observer = reporter({ client, service: 'worker', version: '1.0.0', every: '500ms' })
  writer = await OpenDashboard.start({ client, live, authorize: () => ({ access: 'write', user: 'ann' }) })
  reader = await OpenDashboard.start({ client, live, authorize: () => 'read' })
  for (let i = 0; i < 2; i++) children.push(await shopProcess())
  queue = new DelayQueue(client, 'webhooks', { maxAttempts: 1, observer })
  await queue.push({ to: 'customer.example', html: '<script>alert(1)</script>' })
  const failing = queue.consume(async () => {
    throw new Error('connect ECONNREFUSED 203.0.113.80:443')
  })
  semaphore = new Semaphore(client, 'reports', { permits: 2, observer })
  await semaphore.acquire()
  // As its first viewer: from then on objects record themselves.
  await writer.view({ page: 'limits' })
  mail = new SharedRateLimiter(client, 'mail')
  await mail.setRate({ rate: 50, interval: '1s' })
  while ((await queue.stats()).dead === 0) await new Promise(resolve => setTimeout(resolve, 20))
  // Until the processes have reported: a page that is opened before has its first numbers at its second look.
  const hasReported = async () => {
    const { rows = [] } = (await writer.view({ page: 'limits' })) as { rows?: readonly { limiter: string }[] }
    return rows.some(({ limiter }) => limiter === 'login')
  }
  while (!(await hasReported())) await new Promise(resolve => setTimeout(resolve, 50))
  await failing.close()
})

afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await browser.close()
  await mail.close()
  await Promise.all([writer.close(), reader.close(), observer.close(), queue.close(), semaphore.close(), live.close()])
  await redis.stop()
})

async function shopProcess(): Promise<ChildProcess> {
  const child = fork(join(__dirname, 'shop-process.ts'), {
    execArgv: ['--import', 'tsx'],
    env: { ...process.env, REDIS_URL: redis.url },
  })
  await once(child, 'message')
  return child
}

async function allows(child: ChildProcess, key: string): Promise<boolean> {
  const answer = once(child, 'message')
  child.send(key)
  return (await answer)[0] as boolean
}

const row = (page: Page, limiter: string) =>
  page.locator('.limits tr.row', { has: page.getByRole('button', { name: limiter, exact: true }) })
const open = (url: string, hash = '', options = {}) =>
  openPage(browser, `${url}${hash}`, { viewport: WIDE, ...options })
const ready = (page: Page) => page.locator('main section.panel').first().waitFor()

describe('reading', () => {
  test('first numbers within a second, no other host is asked, and page with data weighs less than 150 kB', async () => {
    const context = await browser.newContext({ viewport: WIDE })
    const page = await context.newPage()
    let bytes = 0
    const hosts = new Set<string>()
    page.on('response', async response => {
      hosts.add(new URL(response.url()).host)
      bytes += (await response.body().catch(() => Buffer.alloc(0))).length
    })
    const askedAt = Date.now()
    await page.goto(writer.url)
    await row(page, 'login').waitFor()
    const tookMs = Date.now() - askedAt
    await page.waitForLoadState('networkidle').catch(() => {})
    console.log(`first numbers after ${tookMs} ms; page and data ${Math.round(bytes / 1000)} kB, not compressed`)
    expect(tookMs).toBeLessThan(1000)
    expect(bytes).toBeLessThan(150_000)
    expect([...hosts]).toEqual([new URL(writer.url).host])
    await context.close()
  })

  test('numbers move under the traffic of two processes, and nothing is asked while the page is hidden', async () => {
    const { page, errors } = await open(writer.url)
    await ready(page)
    const decisions = page.locator('.status b').nth(3)
    await page.getByText(/[23] processes/).waitFor()
    const seen = new Set<string>()
    for (let i = 0; i < 12 && seen.size < 3; i++) {
      seen.add(await decisions.innerText())
      await page.waitForResponse(response => response.url().endsWith('view'))
    }
    expect(seen.size).toBeGreaterThanOrEqual(3)
    expect(errors).toEqual([])
    await page.evaluate(`
      Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))
    `)
    let asked = 0
    page.on('request', () => asked++)
    await page.waitForTimeout(4500)
    expect(asked).toBe(0)
    await page.context().close()
  })

  test('a key that is markup is shown as a text and runs nothing', async () => {
    const { page, errors } = await open(writer.url, '#/keys/=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E')
    await page.getByRole('heading', { name: 'Key <img src=x onerror=alert(1)>' }).waitFor()
    expect(await page.locator('img').count()).toBe(0)
    await page.goto(`${writer.url}#/queues`)
    await page.locator('.letters summary').first().click()
    await page.getByText("shown only with the option keys: 'plain'").waitFor()
    const plain = await OpenDashboard.start({ client, live, keys: 'plain', authorize: () => 'read' })
    await page.goto(`${plain.url}#/queues`)
    await page.locator('.letters summary').first().click()
    await page.getByText('<script>alert(1)</script>').waitFor()
    expect(errors).toEqual([])
    await page.context().close()
    await plain.close()
  })

  test('the Waiting page names the process that holds a lease and since when, and says so of a process without a reporter', async () => {
    const quiet = new Semaphore(client, 'reports')
    const lease = await quiet.acquire()
    const { page, errors } = await open(writer.url, '#/waiting')
    const holders = page.getByRole('region', { name: 'reports' }).getByRole('row')
    const named = holders.filter({ hasText: `worker ${hostname()}:${process.pid}` })
    await named.getByText(/^(now|[\d.]+\s\S+ ago)$/).waitFor()
    const unnamed = holders.filter({ hasText: lease.id.slice(0, 8) })
    await unnamed.getByText('a process without a reporter').waitFor()
    await unnamed.getByText(/^(now|[\d.]+\s\S+ ago)$/).waitFor()
    expect(await page.locator('main').getByText('–', { exact: true }).count()).toBe(0)
    await page.setViewportSize(NARROW)
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
    expect(errors).toEqual([])
    await page.context().close()
    await lease.release()
    await quiet.close()
  })

  test('360 px: nothing is wider than the screen, on any page', async () => {
    const { page } = await open(writer.url, '', { viewport: NARROW })
    for (const name of ['limits', 'keys', 'keys/=203.0.113.9', 'waiting', 'queues', 'events', 'changes', 'processes']) {
      await page.goto(`${writer.url}#/${name}`)
      await page.waitForResponse(response => response.url().endsWith('view'))
      await ready(page)
      expect([name, await page.evaluate('document.documentElement.scrollWidth - innerWidth')]).toEqual([name, 0])
    }
    await page.context().close()
  })

  test.each([
    ['light', WIDE],
    ['dark', WIDE],
    ['light', { width: 375, height: 800 }],
    ['dark', { width: 375, height: 800 }],
  ] as const)('axe-core finds nothing wrong with any page, %s, %o', async (colorScheme, viewport) => {
    const { page } = await open(writer.url, '', { colorScheme, viewport, bypassCSP: true })
    for (const name of [
      'limits',
      'keys',
      'keys/=203.0.113.9',
      'keys/=nobody',
      'waiting',
      'queues',
      'events',
      'changes',
      'processes',
    ]) {
      await page.goto(`${writer.url}#/${name}`)
      await page.waitForResponse(response => response.url().endsWith('view'))
      await ready(page)
      expect([name, await violationsOf(page)]).toEqual([name, []])
    }
    await page.goto(`${writer.url}#/queues`)
    await page.getByRole('button', { name: 'Pause…' }).click()
    await page.getByRole('dialog').waitFor()
    expect(await violationsOf(page)).toEqual([])
    await page.context().close()
  })
})

describe('changing', () => {
  test('a changed limit is in force in other processes within a second, and can be undone', async () => {
    const { page, errors } = await open(writer.url)
    await row(page, 'api').click()
    await page.getByRole('button', { name: 'Change this limit…' }).last().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Limits').fill('0/1h')
    await dialog.getByText('nothing at all').waitFor()
    expect(await allows(children[0], 'user:new')).toBe(true)
    await dialog.getByRole('button', { name: 'Change the limits' }).click()
    await dialog.waitFor({ state: 'hidden' })
    const doneAt = Date.now()
    while ((await allows(children[0], 'user:new')) || (await allows(children[1], 'user:new')))
      expect(Date.now() - doneAt).toBeLessThan(1000)
    await page.getByText('live', { exact: true }).first().waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByText(/^Undone/).waitFor()
    await page.waitForTimeout(1000)
    expect(await allows(children[0], 'user:new')).toBe(true)
    await page.goto(`${writer.url}#/changes`)
    await page.getByText('Live limit set').first().waitFor()
    expect(await page.locator('table.changes').innerText()).toContain('ann')
    expect(errors).toEqual([])
    await page.context().close()
  })

  test('one who may write sees a masked key whole, and limits are found by name', async () => {
    const { page, errors } = await open(writer.url)
    await row(page, 'login').waitFor()
    await page.getByRole('searchbox', { name: 'Only limits whose names hold' }).fill('log')
    await row(page, 'api').waitFor({ state: 'detached' })
    expect(page.url()).toContain('text=log')
    await page.reload()
    await row(page, 'login').waitFor()
    expect(await row(page, 'api').count()).toBe(0)
    await page.locator('.callers a.key').first().click()
    await page.getByRole('button', { name: 'Show key…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Show key' }).click()
    await page.getByText(/^The key is ./).waitFor()
    expect(errors).toEqual([])
    await page.context().close()
  })

  test('a message is found by its id, and cancelled', async () => {
    await queue.push({ to: 'later.example' }, { id: 'order-17', delay: '1h' })
    const { page, errors } = await open(writer.url, '#/queues', { bypassCSP: true })
    await page.getByRole('searchbox', { name: 'Find a message of webhooks by its id' }).fill('order-17')
    await page.keyboard.press('Enter')
    await page.getByText(/^order-17 is later \(in /).waitFor()
    expect(await violationsOf(page)).toEqual([])
    await page.getByRole('button', { name: 'Cancel it…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the message' }).click()
    await page.getByText('The message order-17 of webhooks is cancelled.').waitFor()
    await page.getByText('No message of this queue has the id order-17').waitFor()
    expect(errors).toEqual([])
    await page.context().close()
  })

  test('a dead letter is redriven, with the keyboard alone', async () => {
    const { page } = await open(writer.url, '#/queues')
    await page.getByRole('button', { name: 'Redrive all…' }).waitFor()
    const focused = () => page.evaluate<string>("document.activeElement?.textContent ?? ''")
    for (let i = 0; i < 60 && (await focused()) !== 'Redrive all…'; i++) await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    // The browser tells of the end of a dialog a moment after it has gone.
    await page.waitForFunction("document.activeElement?.textContent === 'Redrive all…'")
    expect((await queue.stats()).dead).toBe(1)
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    expect(await focused()).toBe('Redrive')
    await page.keyboard.press('Enter')
    await page.getByText('1 dead letter of webhooks is delivered again.').waitFor()
    expect(await queue.stats()).toMatchObject({ dead: 0, ready: 1 })
    const failing = queue.consume(delivery => delivery.reject('no such customer'))
    await page.getByText('no such customer').waitFor()
    await failing.close()
    await page.getByRole('button', { name: 'Discard…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click()
    await page.getByText('1 dead letter of webhooks is gone for good.').waitFor()
    expect(await queue.stats()).toMatchObject({ dead: 0, ready: 0 })
    await page.context().close()
  })

  test('"/" searches from anywhere, rows open with Enter, and a chart is read by the arrow keys', async () => {
    const { page } = await open(writer.url)
    await ready(page)
    await page.keyboard.press('/')
    await page.keyboard.type('203.0.113.9')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'login' }).waitFor()
    expect(await page.locator('main').innerText()).toContain('0 of 5')
    await page.goto(`${writer.url}#/limits`)
    const button = page.getByRole('button', { name: 'api', exact: true })
    await button.focus()
    await page.keyboard.press('Enter')
    expect(await button.getAttribute('aria-expanded')).toBe('true')
    const chart = page.getByRole('slider', { name: 'api: allowed and refused per second' })
    await chart.focus()
    await page.keyboard.press('ArrowLeft')
    expect(await chart.getAttribute('aria-valuetext')).toMatch(
      /^\d\d:\d\d:\d\d: [\d.\u202f]+ allowed and [\d.\u202f]+ refused per second(?:\. .+)?$/,
    )
    await page.context().close()
  })

  test('a chart says that a value is not known, instead of 0', async () => {
    const { page } = await open('about:blank')
    await page.route('**/view', async route => {
      const response = await route.fetch()
      const view = (await response.json()) as { rows?: Array<{ series: Record<string, unknown> }> }
      for (const { series } of view.rows ?? []) {
        // All but the last: while the service is young, each reading is one moment longer.
        for (const values of [series.allowed, series.refused] as Array<Array<number | null>>) values.fill(null, 0, -1)
      }
      await route.fulfill({ response, json: view })
    })
    await page.goto(writer.url)
    await ready(page)
    const chart = page.getByRole('slider').first()
    await chart.focus()
    await page.keyboard.press('ArrowLeft')
    // Drawn after the key, not with it.
    await page.getByRole('slider').first().and(page.locator('[aria-valuetext$=": not known"]')).waitFor()
    expect(await chart.getAttribute('aria-valuetext')).toMatch(/^\d\d:\d\d:\d\d: not known$/)
    expect(await page.locator('.reading').innerText()).not.toContain('allowed')
    // A view that is being changed needs its page.
    await page.unrouteAll({ behavior: 'wait' })
    await page.context().close()
  })

  test("access 'read' shows no buttons for changes, and a text says why", async () => {
    const { page } = await open(reader.url)
    await ready(page)
    for (const name of ['limits', 'keys/=203.0.113.9', 'waiting', 'queues', 'events', 'changes']) {
      await page.goto(`${reader.url}#/${name}`)
      await page.waitForResponse(response => response.url().endsWith('view'))
      await ready(page)
      expect([name, await page.locator('main button', { hasText: '…' }).count()]).toEqual([name, 0])
    }
    await page.getByText('you may look, not change').waitFor()
    await page.context().close()
  })
})

describe('another origin', () => {
  test('can neither read nor change, even where the service lets every origin in', async () => {
    const handler = dashboard({ client, live, authorize: () => 'write' })
    const open = await OpenDashboard.serve((req, res) => {
      res.setHeader('access-control-allow-origin', req.headers.origin ?? '*')
      res.setHeader('access-control-allow-credentials', 'true')
      res.setHeader('access-control-allow-headers', 'x-spillway-request')
      if (req.method === 'OPTIONS') res.end()
      else handler(req, res)
    })
    const other = await OpenDashboard.serve((_req, res) => void res.end('<!doctype html><title>other</title>'))
    const { page } = await openPage(browser, other.url)
    const ask = async (base: string, path: string, method: string, value: object) => {
      const headers = { 'x-spillway-request': encoded(value) }
      return page.evaluate(
        ([url, method, headers]) =>
          fetch(url, { method, headers, credentials: 'include' }).then(
            r => r.status,
            () => 'failed',
          ),
        [`${base}${path}`, method, headers] as const,
      )
    }
    const forged = { act: 'pause', name: 'forged' }
    expect(await ask(open.url, 'view', 'GET', { page: 'limits' })).toBe(403)
    expect(await ask(open.url, 'act', 'POST', forged)).toBe(403)
    // Without such a service the browser does not even send it.
    expect(await ask(writer.url, 'view', 'GET', { page: 'limits' })).toBe('failed')
    expect(await ask(writer.url, 'act', 'POST', forged)).toBe('failed')
    const form = `<form method="post" action="${writer.url}act"><button>x</button></form>`
    await page.setContent(form)
    await page.getByRole('button').click()
    await page.getByText('x-spillway-request').or(page.getByText('must come from')).waitFor()
    expect(await client.keys('*forged*')).toEqual([])
    await page.context().close()
    await Promise.all([open.close(), other.close()])
  })

  test('that forbids storage is let in by the one-time address as long as the page lives', async () => {
    const child = spawn(process.execPath, [
      childProgram("import './src/operating/cli/main.ts'"),
      'dashboard',
      '--redis',
      redis.url,
    ])
    children.push(child)
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
    const context = await browser.newContext({ viewport: WIDE })
    const page = await context.newPage()
    await page.addInitScript(
      "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('denied', 'SecurityError') } })",
    )
    await page.goto(line)
    await row(page, 'login').waitFor()
    await context.close()
    child.kill('SIGINT')
  })

  test('of the same machine sees nothing of the command, whose session serves several tabs', async () => {
    const seen: string[] = []
    const neighbour = await OpenDashboard.serve((req, res) => {
      seen.push(`${req.url} ${JSON.stringify(req.headers)}`)
      res.end('<!doctype html><title>neighbour</title>')
    })
    const child = spawn(process.execPath, [
      childProgram("import './src/operating/cli/main.ts'"),
      'dashboard',
      '--redis',
      redis.url,
    ])
    children.push(child)
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
    const { page, errors } = await openPage(browser, line)
    await row(page, 'login').waitFor()
    expect(page.url()).not.toContain(new URL(line).hash)
    await page.reload()
    await row(page, 'login').waitFor()
    const context = page.context()
    const tab = await context.newPage()
    await tab.goto(new URL(line).origin)
    await row(tab, 'login').waitFor()
    expect(errors).toEqual([])
    await tab.goto(neighbour.url)
    expect(await tab.evaluate('[document.cookie, localStorage.length]')).toEqual(['', 0])
    expect(seen.join()).not.toMatch(/cookie|session/i)
    const stranger = await openPage(browser, line)
    await stranger.page.getByText('It works once').waitFor()
    await Promise.all([context.close(), stranger.page.context().close(), neighbour.close()])
    child.kill('SIGINT')
  })
})

describe('a dead Redis', () => {
  test('a band says since when, the last numbers stay, and it recovers by itself', async () => {
    const { page } = await open(writer.url)
    await row(page, 'login').waitFor()
    redis.pause()
    await page.getByRole('alert').getByText('Redis does not answer').waitFor()
    expect(await row(page, 'login').count()).toBe(1)
    await page.getByText(/^old: \d+ s ago$/).waitFor()
    redis.unpause()
    await page.getByRole('alert').waitFor({ state: 'detached' })
    await page.getByText(/^live · \d s ago$/).waitFor()
    await page.context().close()
  })
})

// Last, because the limits that it replaces stay on the page.
test('a change of one limit begins with all of them, and names those that would vanish', async () => {
  await live.set('api', '5/1h; 7/1d')
  const { page } = await open(writer.url)
  const dialog = page.getByRole('dialog')
  await page.getByText('7 per day').first().waitFor()
  // The dashboard reads live limits every 1.5 s, and a reporter tells of its limits at once.
  await row(page, 'api').first().getByText('live', { exact: true }).waitFor()
  await row(page, 'api').first().click()
  await page.getByRole('button', { name: 'Change this limit…' }).last().click()
  const field = dialog.getByLabel('Limits')
  expect(await field.inputValue()).toBe('5/1h; 7/1d')
  expect(await dialog.getByText('No longer limited').count()).toBe(0)
  await field.fill('9/1h')
  await dialog.getByText('No longer limited: 7 in any day.').waitFor()
  // Somebody else is faster.
  await live.set('api', '6/1h')
  await dialog.getByRole('button', { name: 'Change the limits' }).click()
  await dialog.getByText('Meanwhile the limits of api are 6/1h').waitFor()
  expect(live.for('api')[0].quota).toBe(6)
  await page.context().close()
})

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Browser } from 'playwright-core'
import type { Report } from '../../src/operating/cli/replay/report.js'
import { reportAsHtml } from '../../src/operating/cli/replay/report-files.js'
import { logLine, TEN_O_CLOCK } from '../operating/cli/log-line.js'
import { replayed } from '../operating/cli/replayed.js'
import { randomFrom } from '../support/random.js'
import { openPage, startBrowser, violationsOf } from './browser.js'

const HOSTILE = '/<img/src=x/onerror=alert(1)>\u202e\x1b[2J'
const WIDE = { width: 1280, height: 900 }
const NARROW = { width: 360, height: 780 }

let browser: Browser
let folder: string
let url: string
let report: Report
beforeAll(async () => {
  browser = await startBrowser()
  folder = mkdtempSync(join(tmpdir(), 'spillway-page-'))
  report = replayed(lines(), { policies: ['10/1m', '20/1m token-bucket burst=10', '300/1h'], details: 50 })
  url = write('report.html', reportAsHtml(report, 'access.log'))
}, 60_000)
afterAll(async () => {
  await browser.close()
  rmSync(folder, { recursive: true, force: true })
})

/**
 * Two days of sixty clients: quiet nights, one client that comes in bursts, and one path that nobody would want to see
 * drawn.
 */
function lines(): string[] {
  const random = randomFrom('a page')
  const all: string[] = []
  for (let minute = 0; minute < 2880; minute++) {
    const hour = (minute / 60) % 24
    const busy = 1 + Math.round(4 * Math.max(0, Math.sin((hour / 24) * 2 * Math.PI)))
    for (let i = 0; i < busy; i++) {
      const client = `198.51.100.${random.integer(1, 60)}`
      all.push(
        logLine({
          client,
          at: TEN_O_CLOCK + 60 * minute + random.integer(0, 59),
          request: `GET /page/${random.integer(1, 30)} HTTP/1.1`,
        }),
      )
    }
    if (minute % 400 < 25) {
      for (let i = 0; i < 30; i++)
        all.push(
          logLine({ client: '203.0.113.9', at: TEN_O_CLOCK + 60 * minute + 2 * i, request: 'GET /login HTTP/1.1' }),
        )
    }
  }
  for (let i = 0; i < 40; i++)
    all.push(logLine({ client: '203.0.113.66', at: TEN_O_CLOCK + 90_000, request: `GET ${HOSTILE} HTTP/1.1` }))
  return all
}

function write(name: string, page: string): string {
  const file = join(folder, name)
  writeFileSync(file, page)
  return pathToFileURL(file).href
}

const plain = (text: string) => text.replace(/\u202f/g, '')

test('it opens from disk, makes no requests, and its numbers are those of the report', async () => {
  const { page, requests, errors } = await openPage(browser, url, { viewport: WIDE })
  expect(await page.locator('h1').innerText()).toBe('access.log')
  const policies = await page.locator('.policies tbody tr').allInnerTexts()
  expect(policies).toHaveLength(3)
  for (const [i, { denied, deniedKeys }] of report.trials.entries()) {
    const cells = await page.locator('.policies tbody tr').nth(i).locator('td.number').allInnerTexts()
    expect(cells.map(plain).slice(0, 2)).toEqual([String(report.requests - denied), String(denied)])
    expect(plain(cells[3])).toBe(String(deniedKeys))
  }
  expect(policies[0]).toContain('10 in any minute, per address')
  const rows = page.locator('.subjects').first().locator('tbody tr')
  const first = (await rows.first().locator('.number').allInnerTexts()).map(plain)
  const [{ key, requests: asked, denied }] = report.top
  expect(await rows.first().locator('.key').innerText()).toBe(key)
  expect(first.slice(0, 4)).toEqual([asked, ...denied].map(String))
  expect(requests).toEqual([url])
  expect(errors).toEqual([])
  await page.context().close()
})

test('contents of the log are only shown as text', async () => {
  const { page, errors } = await openPage(browser, url, { viewport: WIDE })
  expect(await page.locator('.key', { hasText: 'onerror' }).innerText()).toBe(
    '/<img/src=x/onerror=alert(1)>\\u{202e}\\x1b[2J',
  )
  expect(await page.locator('img').count()).toBe(0)
  expect(errors).toEqual([])
  await page.context().close()
})

test('tables are sorted by their headers, by the keyboard too, and show more on request', async () => {
  const { page } = await openPage(browser, url, { viewport: WIDE })
  const table = page.locator('.subjects').first()
  const requests = async () =>
    (await table.locator('tbody tr td:nth-child(3)').allInnerTexts()).map(text => Number(plain(text)))
  const header = table.getByRole('button', { name: 'Requests' })
  await header.focus()
  await page.keyboard.press('Enter')
  expect(await table.locator('th[aria-sort]').getAttribute('aria-sort')).toBe('descending')
  const all = report.details?.keys.top.map(({ requests }) => requests) ?? []
  expect(await requests()).toEqual(all.toSorted((a, b) => b - a).slice(0, 10))
  await header.click()
  expect(await table.locator('th[aria-sort]').getAttribute('aria-sort')).toBe('ascending')
  expect((await requests())[0]).toBe(Math.min(...all))
  await page.getByRole('button', { name: 'Show 50' }).click()
  expect(await table.locator('tbody tr').count()).toBe(50)
  await page.context().close()
})

test('the policy of charts and waits is chosen for both tables', async () => {
  const { page } = await openPage(browser, url, { viewport: WIDE })
  const waits = async (table: number) =>
    page.locator('.subjects').nth(table).locator('tbody tr').first().locator('td').last().innerText()
  const before = await waits(0)
  await page.getByRole('radio', { name: 'B' }).first().check({ force: true })
  expect(await waits(0)).not.toBe(before)
  expect(await page.locator('.subjects').nth(1).locator('th.wide').innerText()).toBe('Allowed and refused by B')
  await page.context().close()
})

test('the chart tells the values of one moment, under the pointer and by the arrow keys', async () => {
  const { page } = await openPage(browser, url, { viewport: WIDE })
  const chart = page.getByRole('slider')
  await chart.focus()
  await page.keyboard.press('Home')
  expect(await chart.getAttribute('aria-valuetext')).toMatch(
    /^17 May 10:\d\d: \d+ refused by A, \d+ refused by B, \d+ refused by C, of \d+$/,
  )
  const at = await chart.getAttribute('aria-valuenow')
  await page.keyboard.press('ArrowRight')
  expect(Number(await chart.getAttribute('aria-valuenow'))).toBe(Number(at) + 1)
  await page.locator('.plot').hover()
  expect(await page.locator('.reading').innerText()).toMatch(/refused by A/)
  await page.context().close()
})

describe.each([
  ['light', 'wide', WIDE],
  ['dark', 'wide', WIDE],
  ['light', 'narrow', NARROW],
  ['dark', 'narrow', NARROW],
] as const)('%s and %s', (colorScheme, name, viewport) => {
  test('axe-core finds nothing wrong, and nothing is wider than the screen', async () => {
    const { page } = await openPage(browser, url, { viewport, colorScheme, bypassCSP: true })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(viewport.width)
    const cut = await page.evaluate(
      `[...document.querySelectorAll('th, td, h1, h2, .facts li')].filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)`,
    )
    expect(cut).toEqual([])
    if (process.env.SPILLWAY_SCREENSHOTS) {
      await page.screenshot({ path: `docs/replay-${name}-${colorScheme}.png`, fullPage: true })
    }
    await page.locator('summary').click()
    expect(await violationsOf(page)).toEqual([])
    await page.context().close()
  })
})

test('it is printed on paper as wide as paper, without buttons', async () => {
  const { page } = await openPage(browser, url, { viewport: { width: 794, height: 1123 } })
  await page.emulateMedia({ media: 'print' })
  expect(await page.locator('.more').first().isVisible()).toBe(false)
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(794)
  expect((await page.pdf({ format: 'A4' })).subarray(0, 4).toString()).toBe('%PDF')
  await page.context().close()
})

test('a single policy, and a log without requests, have pages of their own', async () => {
  const single = await openPage(
    browser,
    write('single.html', reportAsHtml(replayed(lines(), { policies: ['1000/1m'], details: 50 }), 'a')),
  )
  expect(await single.page.locator('h2').allInnerTexts()).toEqual([
    'Policy',
    'Refused over time',
    'Busiest addresses',
    'Busiest paths',
  ])
  expect(await single.page.locator('main').innerText()).toContain('No request would have been refused.')
  const empty = await openPage(browser, write('empty.html', reportAsHtml(replayed(['nothing'], { details: 50 }), 'a')))
  expect(await empty.page.locator('main').innerText()).toMatch(/0 requests[\s\S]*Skipped: 1 line that hold no request/)
  expect([...single.errors, ...empty.errors]).toEqual([])
})

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, posix } from 'node:path'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Browser } from 'playwright-core'
import { eventually } from '../support/eventually.js'
import { filesOf, root } from '../support/files.js'
import { openPage, startBrowser, violationsOf } from './browser.js'

jest.setTimeout(60_000)

const SITE = join(root, 'site/dist')
const PHONE = { width: 375, height: 800 }
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.json': 'application/json',
}

let server: Server
let browser: Browser
let host: string

beforeAll(async () => {
  // `npm run verify -- browser` builds it.
  expect(existsSync(join(SITE, 'index.html'))).toBe(true)
  server = createServer((req, res) => {
    const path = posix.normalize(decodeURIComponent(new URL(req.url ?? '/', 'http://site').pathname))
    const file = join(SITE, path.endsWith('/') ? `${path}index.html` : extname(path) === '' ? `${path}.html` : path)
    if (!existsSync(file)) return void res.writeHead(404).end()
    res.setHeader('content-type', TYPES[extname(file)] ?? 'application/octet-stream')
    res.end(readFileSync(file))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  host = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  browser = await startBrowser()
})
afterAll(async () => {
  await browser?.close()
  server?.close()
})

const open = (path: string, options = {}) => openPage(browser, `${host}${path}`, { bypassCSP: true, ...options })

describe('the pages of the site', () => {
  const built = () => readdirSync(SITE, { recursive: true, encoding: 'utf8' }).filter(file => file.endsWith('.html'))

  test('are those of docs/, and the page on which a policy can be tried', () => {
    const wanted = filesOf('docs', '.md').map(file =>
      file.slice('docs/'.length).replace('README.md', 'index.md').replace('.md', '.html'),
    )
    expect([...wanted, 'index.html', 'try.html'].filter(file => !built().includes(file))).toEqual([])
  })

  test('link to pages, anchors and files that exist', () => {
    const pages = new Map(built().map(file => [`/${file}`, readFileSync(join(SITE, file), 'utf8')]))
    const dead: string[] = []
    let links = 0
    for (const [page, html] of pages) {
      for (const [, link] of html.matchAll(/(?:href|src)="([^"]+)"/g)) {
        const { origin, pathname, hash } = new URL(link.replaceAll('&amp;', '&'), `http://site${page}`)
        if (origin !== 'http://site') continue
        links++
        const path = decodeURIComponent(pathname)
        const file = path.endsWith('/') ? `${path}index.html` : path
        const target = pages.get(file) ?? pages.get(`${file}.html`)
        const id = decodeURIComponent(hash.slice(1))
        if (target === undefined ? !existsSync(join(SITE, file)) : id !== '' && !target.includes(`id="${id}"`)) {
          dead.push(`${page}: ${link}`)
        }
      }
    }
    expect(links).toBeGreaterThan(2000)
    expect([...new Set(dead)]).toEqual([])
  })

  test.each(['/', '/getting-started.html', '/reference.html', '/algorithms.html', '/try.html'])(
    '%s fits a phone, asks no other host and shows every picture',
    async path => {
      const { page, requests, errors } = await open(path, { viewport: PHONE })
      await page.waitForLoadState('networkidle')
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(PHONE.width)
      // Pictures further down load when they are near.
      const broken = await page.evaluate(`Promise.all([...document.images].map(async image => {
        image.loading = 'eager'
        await image.decode().catch(() => {})
        return image.naturalWidth > 0 ? '' : image.src
      })).then(found => found.filter(Boolean))`)
      expect(broken).toEqual([])
      expect(requests.filter(url => !url.startsWith(host) && !url.startsWith('data:'))).toEqual([])
      expect(errors).toEqual([])
      await page.context().close()
    },
  )

  test.each(['light', 'dark'] as const)('have no findings of axe in %s colours', async colorScheme => {
    const found: string[] = []
    for (const path of ['/', '/express.html', '/try.html']) {
      const { page } = await open(path, { colorScheme })
      await page.waitForLoadState('networkidle')
      expect(await page.evaluate("document.documentElement.classList.contains('dark')")).toBe(colorScheme === 'dark')
      found.push(...(await violationsOf(page)).map(violation => `${path} ${violation}`))
      await page.context().close()
    }
    expect(found).toEqual([])
  })

  test('are found by the search, which runs in the browser', async () => {
    const { page, requests } = await open('/')
    // The page hears keys only when its script has run.
    await eventually('the search is open', async () => {
      await page.keyboard.press('Control+k')
      return page.getByRole('searchbox').isVisible()
    })
    await page.getByRole('searchbox').fill('onStoreFailure')
    const first = page.locator('.results a').first()
    await first.waitFor()
    await first.click()
    await page.waitForURL(/#/)
    expect(await page.locator('main').innerText()).toContain('onStoreFailure')
    expect(requests.filter(url => !url.startsWith(host))).toEqual([])
    await page.context().close()
  })
})

describe('the page on which a policy can be tried', () => {
  const textOf = async (path: string, act?: (page: Awaited<ReturnType<typeof open>>['page']) => Promise<unknown>) => {
    const { page, errors } = await open(path, { viewport: PHONE })
    await page.locator('.rows li').first().waitFor()
    await act?.(page)
    const text = (await page.locator('.try').innerText()).replace(/\s+/g, ' ')
    expect(errors).toEqual([])
    await page.context().close()
    return text
  }

  test('shows the five algorithms side by side: a fixed window lets nine of five through', async () => {
    const text = await textOf('/try.html')
    expect(text).toContain('sliding-window 6 of 11 pass at most 5 in any window')
    expect(text).toContain('fixed-window 10 of 11 pass at most 9 in any window')
  })

  test('says when who is refused may come back', async () => {
    const text = await textOf('/try.html')
    // The first request left at 0 s the only place that comes back at 10 s.
    expect(text).toMatch(/6 9\.5 s refused 0 at 10 s/)
  })

  test('takes another policy, and traffic', async () => {
    const text = await textOf('/try.html', async page => {
      await page.getByLabel('Policy', { exact: true }).fill('2/1s; 3/1m')
      await page.getByLabel('One client asks').selectOption('burst')
      await page.locator('.rows li').filter({ hasText: '2/1s; 3/1m' }).waitFor()
    })
    expect(text).toContain('2/1s; 3/1m 4 of 9 pass at most 3 in any window')
  })

  test.each([
    ['10000/month calendar', 'Each request stands for 34 units'],
    ['1000000/1s', 'Each request stands for 3334 units'],
  ])('shows %s, of which not all pass at three times its rate', async (policy, scale) => {
    const text = await textOf(`/try.html?policy=${encodeURIComponent(policy)}&traffic=fast`, page =>
      page.getByText(scale).waitFor(),
    )
    const [, passed, asked] = /(\d+) of (\d+) pass/.exec(text) ?? []
    expect(Number(asked)).toBeGreaterThan(1500)
    expect(Number(passed) / Number(asked)).toBeLessThan(0.7)
  })

  test('keeps policy and traffic in its address', async () => {
    const { page } = await open('/try.html')
    await page.getByLabel('Policy', { exact: true }).fill('7/1m')
    await page.waitForURL(/policy=7%2F1m&traffic=edge/)
    await page.context().close()
  })

  test('explains a wrong policy as the package does', async () => {
    const text = await textOf('/try.html', async page => {
      await page.getByLabel('Policy', { exact: true }).fill('100/min')
      await page.getByText('did you mean').waitFor()
    })
    expect(text).toContain('did you mean "100/1m"?')
  })
})

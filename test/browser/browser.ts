import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, join } from 'node:path'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome']

/** The browser that scripts/ensure.mjs has found or installed. */
export function startBrowser(): Promise<Browser> {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const executablePath = PROGRAMS.flatMap(name => folders.map(folder => join(folder, name))).find(existsSync)
  if (executablePath === undefined) throw new Error(`no ${PROGRAMS.join(', ')} on PATH: run npm run verify -- browser`)
  // Tests run as root in containers, where Chromium has no sandbox.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

/** An open page with its requests, errors and console lines. */
export interface OpenPage {
  readonly page: Page
  readonly requests: string[]
  readonly errors: string[]
}

export async function openPage(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const requests: string[] = []
  const errors: string[] = []
  page.on('request', request => requests.push(request.url()))
  page.on('pageerror', error => errors.push(String(error)))
  page.on('console', message => errors.push(`${message.type()}: ${message.text()}`))
  await page.goto(url)
  return { page, requests, errors }
}

const AXE = readFileSync(createRequire(join(process.cwd(), 'package.json')).resolve('axe-core/axe.min.js'), 'utf8')

interface AxeResult {
  readonly violations: ReadonlyArray<{ readonly id: string; readonly nodes: ReadonlyArray<{ readonly html: string }> }>
}

/** The findings of axe-core for a page, one line each. The page is opened with `bypassCSP`. */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.addScriptTag({ content: AXE })
  const { violations } = (await page.evaluate('axe.run()')) as AxeResult
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { afterEach, expect, test } from '@jest/globals'
import { transformSync } from '@swc/core'
import { root } from '../support/files.js'
import { testRedis } from '../support/test-redis.js'
import { textOf } from './pages.js'

const redis = testRedis()

const withoutTypes = (code: string) =>
  transformSync(code, { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' } }).code

/** The programs of the section on mounting, by what the page calls them. */
const [, section = ''] = /^## Mount it$(.*?)^## /ms.exec(textOf('docs/dashboard.md')) ?? []
const programs = [...section.matchAll(/^```(?:js|ts|typescript)\n(.*?)^```$/gms)].map(([, code]) => withoutTypes(code))
const named = programs.map(
  code => [/from ['"]((?!ioredis|spillway|reflect)[^'"]+)['"]/.exec(code)?.[1] ?? 'Bun', code] as const,
)

// Any port, and for the program of Bun and Deno the server of Bun, which this Node does not have.
const PRELOAD = `
  import { Server } from 'node:net'
  const { listen } = Server.prototype
  Server.prototype.listen = function () {
    return listen.call(this, 0, '127.0.0.1', () => console.log(this.address().port))
  }
  const { SERVER } = process.env
  if (SERVER) globalThis.Bun = { serve: async options => (await import(SERVER)).serve(options) }`
const WITH_ANY_PORT = `data:text/javascript,${encodeURIComponent(PRELOAD)}`

let child: ChildProcess | undefined
afterEach(async () => {
  // Some frameworks wait for open connections when they are asked to end.
  child?.kill('SIGKILL')
  if (child?.exitCode === null && child.signalCode === null) await once(child, 'close')
  child = undefined
})

async function portOf(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) if (/^\d+$/.test(line)) return line
  throw new Error('the program ended without listening')
}

test('every framework has a program', () => {
  expect(named.map(([name]) => name)).toEqual([
    'express',
    '@nestjs/common',
    'node:http',
    'koa',
    'fastify',
    '@hono/node-server',
    'h3',
    'Bun',
  ])
})

test.each(named)(
  'the program with %s serves the page, its data and changes to whom may see them',
  async (name, code) => {
    const server = name === 'Bun' && { SERVER: pathToFileURL(require.resolve('@hono/node-server')).href }
    const env = { ...process.env, REDIS_URL: redis.url, ADMIN: 'secret', ...server }
    child = spawn(process.execPath, ['--import', WITH_ANY_PORT, '--input-type=module', '--eval', code], {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const url = `http://127.0.0.1:${await portOf(child)}/limits`
    const admin = { 'x-admin': 'secret' }
    const page = await fetch(url, { headers: admin })
    expect([page.status, page.url, await page.text()]).toEqual([
      200,
      `${url}/`,
      expect.stringContaining('<div id="app">'),
    ])
    expect((await fetch(`${url}/page.js`, { headers: admin })).headers.get('content-type')).toContain('javascript')
    expect((await fetch(`${url}/`)).status).toBe(403)
    const asked = (value: object) => ({
      ...admin,
      'x-spillway-request': Buffer.from(JSON.stringify(value)).toString('base64url'),
    })
    const view = await fetch(`${url}/view`, { headers: asked({ page: 'limits' }) })
    expect(await view.json()).toMatchObject({ page: 'limits', access: 'write', installed: false })
    const change = await fetch(`${url}/act`, { method: 'POST', headers: asked({ act: 'unknown' }) })
    expect([change.status, await change.json()]).toEqual([400, { error: expect.any(String) }])
    const elsewhere = await fetch(url.replace('/limits', '/else/view'), { headers: asked({ page: 'limits' }) })
    expect(await elsewhere.text()).not.toContain('"page"')
  },
)

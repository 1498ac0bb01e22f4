import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals'
import { RateLimiter, RedisStore } from '../../src/index.js'
import { LivePolicies } from '../../src/live/index.js'
import { childProgram } from '../support/child-program.js'
import { RedisServer } from '../support/redis-server.js'
import { encoded } from './open-dashboard.js'

// The command is a process of its own, on a machine that may be busy.
jest.setTimeout(60_000)

const COMMAND = childProgram("import './src/cli/main.ts'")

let redis: RedisServer
const children: ChildProcess[] = []
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await redis.stop()
})

/** The address that the command prints, and how to end it. */
async function start(...args: string[]): Promise<{ url: URL; child: ChildProcess }> {
  const child = spawn(process.execPath, [COMMAND, 'dashboard', '--redis', redis.url, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string]
  return { url: new URL(line), child }
}

const cookieOf = (response: Response) =>
  response.headers
    .getSetCookie()
    .map(cookie => cookie.split(';')[0])
    .join('; ')

test('its address works once and is then a cookie; --write changes a live limit that only Redis knows of; Ctrl-C ends it', async () => {
  const client = redis.client()
  const live = new LivePolicies(client, { defaults: { api: '100/1m' } })
  await live.set('api', '50/1m')
  const limiter = new RateLimiter({ name: 'api', policy: live.policy('api'), store: new RedisStore(client) })
  await limiter.consume('user:1')
  const { url, child } = await start('--write')
  expect(url.hostname).toBe('127.0.0.1')
  expect((await fetch(url.origin)).status).toBe(401)
  expect((await fetch(`${url.origin}/?token=${'A'.repeat(32)}`)).status).toBe(401)
  const entered = await fetch(url)
  expect(entered.headers.getSetCookie()).toEqual([
    expect.stringMatching(/^spillway_session=[\w-]{32}; Path=\/; HttpOnly; SameSite=Strict$/),
  ])
  expect((await fetch(url)).status).toBe(401)
  const session = cookieOf(entered)
  const page = await fetch(url.origin, { headers: { cookie: session } })
  expect(await page.text()).toContain('page.js')
  const cookie = `${session}; ${cookieOf(page)}`
  const view = await fetch(`${url.origin}/view`, {
    headers: { cookie, 'x-spillway-request': encoded({ page: 'limits' }) },
  })
  const { token, access, user } = (await view.json()) as { token: string; access: string; user: string }
  expect([access, typeof user]).toEqual(['write', 'string'])
  const act = encoded({ act: 'set-limit', limiter: 'api', policy: '7/1m' })
  const changed = await fetch(`${url.origin}/act`, {
    method: 'POST',
    headers: { cookie, 'x-spillway-token': token, 'x-spillway-request': act },
  })
  expect(await changed.json()).toMatchObject({ text: 'api now allows 7 in any minute.' })
  while (live.for('api')[0].quota !== 7) await new Promise(resolve => setTimeout(resolve, 10))
  await live.close()
  child.kill('SIGINT')
  expect(await once(child, 'close')).toEqual([0, null])
})

test('without --write nothing can be changed, and another host is refused', async () => {
  const { url } = await start()
  const session = cookieOf(await fetch(url))
  const page = await fetch(url.origin, { headers: { cookie: session } })
  const cookie = `${session}; ${cookieOf(page)}`
  const token = /spillway_dashboard=([\w-]+)/.exec(cookie)?.[1] ?? ''
  const act = encoded({ act: 'pause', name: 'mail' })
  const refused = await fetch(`${url.origin}/act`, {
    method: 'POST',
    headers: { cookie, 'x-spillway-token': token, 'x-spillway-request': act },
  })
  expect(refused.status).toBe(403)
  // fetch names the host that it asks.
  const asked = request(url.origin, { headers: { cookie, host: `evil.example:${url.port}` } }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  expect(answer.resume().statusCode).toBe(421)
})

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals'
import { RateLimiter, RedisStore } from '../../../src/index.js'
import { LivePolicies } from '../../../src/operating/live/index.js'
import { childProgram } from '../../support/child-program.js'
import { RedisServer } from '../../support/redis-server.js'
import { encoded } from './open-dashboard.js'

// The command is a process of its own, on a machine that may be busy.
jest.setTimeout(60_000)

const COMMAND = childProgram("import './src/operating/cli/main.ts'")

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

/** As the page does it with what stands behind the # of the printed address. */
const logIn = (url: URL, token = url.hash.slice('#login='.length)) =>
  fetch(`${url.origin}/login`, { method: 'POST', headers: { 'x-spillway-login': token } })

test('its address works once and is then a session; --write changes a live limit that only Redis knows of; Ctrl-C ends it', async () => {
  const client = redis.client()
  const live = new LivePolicies(client, { defaults: { api: '100/1m' } })
  await live.set('api', '50/1m')
  const limiter = new RateLimiter({ name: 'api', policy: live.policy('api'), store: new RedisStore(client) })
  await limiter.consume('user:1')
  const { url, child } = await start('--write')
  expect(url.hostname).toBe('127.0.0.1')
  const page = await fetch(url)
  expect(await page.text()).toContain('page.js')
  const asked = { 'x-spillway-request': encoded({ page: 'limits' }) }
  const view = (headers: Record<string, string>) => fetch(`${url.origin}/view`, { headers: { ...asked, ...headers } })
  expect((await view({})).status).toBe(401)
  expect((await logIn(url, 'A'.repeat(32))).status).toBe(401)
  const entered = await logIn(url)
  const session = { 'x-spillway-session': await entered.text() }
  expect((await logIn(url)).status).toBe(401)
  expect((await view({ 'x-spillway-session': 'A'.repeat(32) })).status).toBe(401)
  // Browsers send cookies to every port of a machine: there are none.
  for (const { headers } of [page, entered, await view(session)]) expect(headers.getSetCookie()).toEqual([])
  const { access, user } = (await (await view(session)).json()) as { access: string; user: string }
  expect([access, typeof user]).toEqual(['write', 'string'])
  const act = encoded({ act: 'set-limit', limiter: 'api', policy: '7/1m' })
  const headers = { ...session, 'x-spillway-request': act }
  expect((await fetch(`${url.origin}/act`, { method: 'POST', headers: { 'x-spillway-request': act } })).status).toBe(
    401,
  )
  const changed = await fetch(`${url.origin}/act`, { method: 'POST', headers })
  expect(await changed.json()).toMatchObject({ text: 'api now allows 7 in any minute.' })
  while (live.for('api')[0].quota !== 7) await new Promise(resolve => setTimeout(resolve, 10))
  await live.close()
  child.kill('SIGINT')
  expect(await once(child, 'close')).toEqual([130, null])
})

test('without --write nothing can be changed, and another host is refused', async () => {
  const { url } = await start()
  const session = { 'x-spillway-session': await (await logIn(url)).text() }
  const headers = { ...session, 'x-spillway-request': encoded({ act: 'pause', name: 'mail' }) }
  const refused = await fetch(`${url.origin}/act`, { method: 'POST', headers })
  expect(refused.status).toBe(403)
  // fetch names the host that it asks.
  const asked = request(url.origin, { headers: { ...session, host: `evil.example:${url.port}` } }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  expect(answer.resume().statusCode).toBe(421)
})

test.each(['//', '//x', '/\\', '/%', '/?token', '//?token=x'])('GET %s without login does not end it', async path => {
  const { url, child } = await start()
  const statusOf = async (sent: string) => {
    const asked = request({ host: url.hostname, port: url.port, path: sent }).end()
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    return answer.resume().statusCode
  }
  expect([200, 302, 404]).toContain(await statusOf(path))
  expect(await statusOf('/')).toBe(200)
  child.kill('SIGINT')
  expect(await once(child, 'close')).toEqual([130, null])
})

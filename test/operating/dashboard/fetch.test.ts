import { gunzipSync } from 'node:zlib'
import { expect, test } from '@jest/globals'
import { dashboard } from '../../../src/operating/dashboard/index.js'
import { testRedis } from '../../support/test-redis.js'
import { encoded } from './open-dashboard.js'

const redis = testRedis()

const asked = (value: object, more: Record<string, string> = {}) => ({
  'x-spillway-request': encoded(value),
  ...more,
})

test('a handler of fetch answers a Request as node:http is answered, and `authorize` gets that Request', async () => {
  const seen: Request[] = []
  const limits = dashboard({
    client: redis.client(),
    basePath: '/limits',
    authorize: (request: Request) => {
      seen.push(request)
      return request.headers.get('x-admin') === 'yes' ? { access: 'write', user: 'ann' } : 'read'
    },
  })
  const ask = (path: string, init: RequestInit = {}, host = 'localhost') =>
    limits(new Request(`http://${host}/limits${path}`, init))
  const page = await ask('/', { headers: { 'accept-encoding': 'gzip' } })
  expect([page.status, page.headers.get('content-encoding')]).toEqual([200, 'gzip'])
  expect(gunzipSync(Buffer.from(await page.arrayBuffer())).toString()).toContain('<div id="app">')
  expect(page.headers.get('content-security-policy')).toContain("default-src 'self'")
  const etag = String(page.headers.get('etag'))
  expect((await ask('/', { headers: { 'if-none-match': etag } })).status).toBe(304)
  expect(await (await ask('/page.js', { method: 'HEAD' })).text()).toBe('')
  expect([(await ask('')).status, (await ask('')).headers.get('location')]).toEqual([302, './limits/'])
  const view = await ask('/view', { headers: asked({ page: 'limits' }) })
  expect(await view.json()).toMatchObject({ page: 'limits', access: 'read' })
  const pause = { act: 'pause', name: 'mail' }
  const act = async (headers: Record<string, string>) => (await ask('/act', { method: 'POST', headers })).status
  expect(await act(asked(pause))).toBe(403)
  expect(await act(asked(pause, { 'x-admin': 'yes', 'sec-fetch-site': 'cross-site' }))).toBe(403)
  expect(await act(asked(pause, { 'x-admin': 'yes', origin: 'http://evil.example' }))).toBe(403)
  expect(await act(asked(pause, { 'x-admin': 'yes', origin: 'http://localhost' }))).toBe(200)
  expect((await ask('/', {}, 'ops.example.com')).status).toBe(421)
  expect((await limits(new Request('http://localhost/other'))).status).toBe(404)
  expect(seen[0]).toBeInstanceOf(Request)
})

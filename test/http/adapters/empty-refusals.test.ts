import { expect, test } from '@jest/globals'
import { H3, type Middleware } from 'h3'
import { Hono } from 'hono'
import * as fetchAdapter from '../../../src/http/adapters/fetch.js'
import * as h3Adapter from '../../../src/http/adapters/h3.js'
import * as honoAdapter from '../../../src/http/adapters/hono.js'

const STATUSES = [204, 205, 304]
const limitsOf = (statusCode: number) => ({ policy: '0/1m', statusCode, key: () => 'k' })
const request = () => new Request('https://service.example/')

test.each(STATUSES)('a refusal with status %i, which has no body, is empty: fetch', async statusCode => {
  const limit = fetchAdapter.rateLimit(limitsOf(statusCode))
  const { refusal } = await limit(request(), { address: '192.0.2.1' })
  expect([refusal?.status, refusal?.body, refusal?.headers.has('ratelimit')]).toEqual([statusCode, null, true])
})

test.each(STATUSES)('a refusal of a handler that gives a body is empty under %i: fetch', async statusCode => {
  const limit = fetchAdapter.rateLimit({ ...limitsOf(statusCode), handler: () => new Response('busy') })
  const { refusal } = await limit(request(), { address: '192.0.2.1' })
  expect([refusal?.status, refusal?.body]).toEqual([statusCode, null])
})

test.each(STATUSES)('a refusal with status %i, which has no body, is empty: Hono', async statusCode => {
  const app = new Hono().use(honoAdapter.rateLimit(limitsOf(statusCode))).get('/', c => c.text('ok'))
  const { status, body, headers } = await app.request('/')
  expect([status, body, headers.has('ratelimit')]).toEqual([statusCode, null, true])
})

test.each(STATUSES)('a refusal with status %i, which has no body, is empty: h3', async statusCode => {
  const app = new H3({ silent: true }).use(h3Adapter.rateLimit(limitsOf(statusCode)) as Middleware)
  app.get('/', () => 'ok')
  const { status, body, headers } = await app.request('/')
  expect([status, body, headers.has('ratelimit')]).toEqual([statusCode, null, true])
})

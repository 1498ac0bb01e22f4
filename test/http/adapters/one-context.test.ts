import { expect, test } from '@jest/globals'
import { H3 } from 'h3'
import { Hono } from 'hono'
import Koa from 'koa'
import request from 'supertest'
import * as ofH3 from '../../../src/http/adapters/h3.js'
import * as ofHono from '../../../src/http/adapters/hono.js'
import * as ofKoa from '../../../src/http/adapters/koa.js'
import { parseHttpOptions } from '../../../src/http/rate-limit/settings.js'

/** Options whose functions note how many values they are given, and of which kind the last one is. */
function noting(noted: Record<string, unknown>, context: (given: unknown) => boolean) {
  const note =
    <Value>(name: string, value: Value) =>
    (...given: unknown[]) => {
      noted[name] = [context(given[0]), given.length, given.length > 1 ? Object.keys(given[1] as object).length > 1 : 0]
      return value
    }
  return {
    skip: note('skip', false),
    key: note('key', 'k'),
    policy: note('policy', [{ quota: 1, window: '1m', key: note('key of a limit', 'own') }]),
    cost: note('cost', 1),
    settle: note('settle', 1),
    message: note('message', 'no'),
  }
}

const ALONE = [true, 1, 0]
const WITH_MORE = [true, 2, true]
const EXPECTED = {
  skip: ALONE,
  key: ALONE,
  policy: ALONE,
  'key of a limit': ALONE,
  cost: ALONE,
  settle: WITH_MORE,
  message: WITH_MORE,
}

test('functions of the options of Koa receive the context, and then the decision or the end', async () => {
  const noted: Record<string, unknown> = {}
  const app = new Koa()
  const options = noting(noted, ctx => (ctx as Koa.Context).state !== undefined)
  app.use(ofKoa.rateLimit(options as ofKoa.RateLimitOptions)).use(ctx => {
    ctx.body = 'hello'
  })
  for (const status of [200, 429]) expect((await request(app.callback()).get('/')).status).toBe(status)
  expect(noted).toEqual(EXPECTED)
})

test('those of Hono, too', async () => {
  const noted: Record<string, unknown> = {}
  const app = new Hono()
  const options = noting(noted, c => typeof (c as { get?: unknown }).get === 'function')
  app.use(ofHono.rateLimit(options as ofHono.RateLimitOptions)).get('/', c => c.text('hello'))
  for (const status of [200, 429]) {
    const answer = await app.request('/')
    await answer.text()
    expect(answer.status).toBe(status)
  }
  expect(noted).toEqual(EXPECTED)
})

test('those of h3, too', async () => {
  const noted: Record<string, unknown> = {}
  const options = noting(noted, event => (event as { req?: unknown }).req instanceof Request)
  const app = new H3().use(ofH3.rateLimit(options as ofH3.RateLimitOptions)).get('/', () => 'hello')
  for (const status of [200, 429]) expect((await app.request('/')).status).toBe(status)
  expect(noted).toEqual(EXPECTED)
})

test('a spelling of elsewhere is known at the entry alone', () => {
  const settings = parseHttpOptions({ max: 3, windowMs: '2s', keyGenerator: () => 'k' })
  expect(Object.keys(settings)).not.toEqual(expect.arrayContaining(['max']))
  expect(settings.policy).toEqual({ quota: 3, window: '2s', algorithm: undefined })
  expect(settings.key?.()).toBe('k')
})

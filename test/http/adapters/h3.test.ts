import { Readable } from 'node:stream'
import { describe, expect, test } from '@jest/globals'
import { defineHandler, fromNodeHandler, H3, type H3Event, HTTPError, iterable, type Middleware } from 'h3'
import request from 'supertest'
import { concurrencyLimit, rateLimit, shed } from '../../../src/http/adapters/h3.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
import { adapterContract } from '../../support/adapter-contract.js'
import { describeConcurrencyLimit } from '../../support/concurrency-contract.js'
import { forContext } from '../../support/one-context.js'
import { warnings } from '../../support/warnings.js'
import { h3Adapter, listenerOf } from './h3-service.js'

const warned = warnings()
const kNotFound = Symbol.for('h3.notFound')

adapterContract('h3 2', h3Adapter)

describeConcurrencyLimit('h3 2', {
  concurrencyLimit: options => concurrencyLimit(forContext(options) as never),
  header: (event, name) => (event as H3Event).req.headers.get(name) ?? undefined,
  told: event => [(event as H3Event).res.status ?? 200, (event as H3Event).res.headers.get('retry-after') ?? undefined],
  answer: (_, text) => text,
  serve(limits, handle) {
    const app = new H3({ silent: true })
    for (const limit of limits) app.use(limit as unknown as Middleware)
    app.get('/**', async event => {
      const answer = await handle(event.url.pathname)
      return answer instanceof Readable ? Readable.toWeb(answer) : answer
    })
    return listenerOf(app)
  },
})

describe('h3 2', () => {
  const store = () => new MemoryStore({ clock: new ManualClock(0) })
  const limits = (policy = '9/1m') => ({ policy, key: () => 'k', store: store() })

  test('every kind of answer has the header fields, those of errors too', async () => {
    const app = new H3({ silent: true }).use(rateLimit(limits()))
    app.get('/object', () => ({ ok: true }))
    app.get('/new', () => new Response('new'))
    app.get('/fetched', () => fetch('data:text/plain,fetched'))
    app.get('/failed', () => new Response('failed', { status: 502 }))
    app.get('/thrown', () => {
      throw new HTTPError({ status: 418 })
    })
    app.get('/error', () => new HTTPError({ status: 409 }))
    const answers = []
    for (const path of ['/object', '/new', '/fetched', '/failed', '/thrown', '/error', '/nowhere']) {
      const { status, headers } = await app.request(path)
      answers.push([status, headers.get('ratelimit')])
    }
    expect(answers).toEqual(
      [200, 200, 200, 502, 418, 409, 404].map((status, i) => [status, `"9-per-1m";r=${8 - i};t=60`]),
    )
  })

  test('what Node itself writes, and what onError returns in place of an error, have them on Node', async () => {
    const app = new H3({ silent: true, onError: () => new Response('sorry', { status: 500 }) }).use(rateLimit(limits()))
    app.get(
      '/node',
      fromNodeHandler((_, res) => void res.end('node')),
    )
    app.get('/thrown', () => {
      throw new Error('inside')
    })
    const listener = listenerOf(app)
    const { text, headers } = await request(listener).get('/node')
    expect([text, headers.ratelimit]).toEqual(['node', '"9-per-1m";r=8;t=60'])
    const failed = await request(listener).get('/thrown')
    expect([failed.text, failed.headers.ratelimit]).toEqual(['sorry', '"9-per-1m";r=7;t=60'])
  })

  test('limits a route alone as its middleware, in both ways of writing it', async () => {
    const app = new H3()
    const limit = rateLimit(limits('1/1m'))
    app.get('/option', () => 'passed', { middleware: [limit] })
    app.get('/defined', defineHandler({ middleware: [limit], handler: () => 'passed' }))
    app.get('/free', () => 'free')
    const statuses = []
    for (const path of ['/option', '/option', '/defined', '/free']) statuses.push((await app.request(path)).status)
    expect(statuses).toEqual([200, 429, 429, 200])
  })

  test('settle is asked when the body has been read, cancelled or sent at once, and finds the status', async () => {
    const ends: unknown[] = []
    const settle = (event: H3Event, end: object) => ends.push([event.url.pathname, event.res.status, end])
    const app = new H3({ silent: true }).use(rateLimit({ ...limits('99/1m'), settle }))
    const endless = () => new ReadableStream({ pull: stream => stream.enqueue(new Uint8Array(9)) })
    app.get('/text', event => {
      event.res.status = 201
      return 'done'
    })
    app.get('/response', () => new Response('done', { status: 202 }))
    app.get('/stream', endless)
    app.get('/iterable', () => iterable(['a', 'b']))
    app.get('/thrown', () => {
      throw new HTTPError({ status: 418 })
    })
    app.get('/error', () => new HTTPError({ status: 409 }))
    const response = await app.request('/response')
    const stream = await app.request('/stream')
    const pieces = await app.request('/iterable')
    expect(ends).toEqual([])
    await response.text()
    await stream.body?.cancel()
    expect(await pieces.text()).toBe('ab')
    for (const path of ['/text', '/thrown', '/error', '/nowhere']) await app.request(path)
    await app.request('/response', { method: 'HEAD' })
    const done = { completed: true, ended: true }
    expect(ends).toEqual([
      ['/response', 202, done],
      ['/stream', 200, { completed: false, ended: true }],
      ['/iterable', 200, done],
      ['/text', 201, done],
      ['/thrown', 418, done],
      ['/error', 409, done],
      ['/nowhere', 404, done],
      ['/response', 202, done],
    ])
  })

  test('a place is held until the body has been read, and comes back from what reads none', async () => {
    const app = new H3({ silent: true }).use(concurrencyLimit({ permits: 1 }))
    app.get('/stream', () => new Response('done'))
    app.get('/thrown', () => {
      throw 418
    })
    const first = await app.request('/stream')
    expect((await app.request('/stream')).status).toBe(503)
    await first.text()
    expect((await app.request('/thrown')).status).toBe(418)
    expect((await app.request('/stream')).status).toBe(200)
  })

  test('what a handler for refusals returns is answered, whatever it is; nothing is an error', async () => {
    const answers = []
    const refusals = ['busy', { busy: true }, new Response('own', { status: 503 }), null, undefined, kNotFound]
    for (const refusal of refusals) {
      const app = new H3({ silent: true, onError: error => error.message })
      app.use(rateLimit({ ...limits('0/1m'), handler: () => refusal })).get('/', () => 'passed')
      const { status, text } = await request(listenerOf(app)).get('/')
      answers.push([status, text])
    }
    const expected = 'expected a response, like "busy"'
    expect(answers).toEqual([
      [429, 'busy'],
      [429, '{"busy":true}'],
      [503, 'own'],
      [429, ''],
      [200, `rateLimit: handler returned undefined: ${expected}`],
      [200, `rateLimit: handler returned Symbol(h3.notFound): ${expected}`],
    ])
  })

  test('the address is the one that the server gives, behind proxies that it trusts, or else by proxies', async () => {
    const byServer = new H3().use(rateLimit({ policy: '9/1m' })).get('/', event => event.context.rateLimit?.key)
    const byOption = new H3()
      .use(rateLimit({ policy: '9/1m', proxies: 1 }))
      .get('/', ({ context }) => context.rateLimit?.key)
    const ask = async (app: H3, trustProxy?: 'loopback') =>
      (await request(listenerOf(app, trustProxy)).get('/').set('x-forwarded-for', '192.0.2.1, 203.0.113.7')).text
    expect([await ask(byServer, 'loopback'), await ask(byOption)]).toEqual(['203.0.113.7', '203.0.113.7'])
    expect(warned.codes).toEqual([])
    expect(await ask(byServer)).toMatch(/127\.0\.0\.1$/)
    expect(warned.codes).toEqual(['SPILLWAY_PROXY'])
  })

  test.each<[string, object | undefined, string]>([
    ['Bun', { bun: { server: { requestIP: () => ({ address: '203.0.113.7' }), port: 1 } } }, '203.0.113.7'],
    ['Deno', { deno: { info: { remoteAddr: { hostname: '203.0.113.7' } } } }, '203.0.113.7'],
    ['any', undefined, 'unknown'],
  ])('the address is the one that the runtime tells: %s', async (_, runtime, address) => {
    const app = new H3().use(rateLimit({ policy: '9/1m' })).get('/', event => event.context.rateLimit?.key)
    const asked = Object.defineProperty(new Request('http://localhost/'), 'runtime', { value: runtime })
    expect(await (await app.fetch(asked)).text()).toBe(address)
  })

  test('shed refuses the least important requests first', async () => {
    const load = { level: 1.5, reason: 'custom' } as const
    const app = new H3().use(shed({ load, priority: event => Number(event.req.headers.get('priority')) }))
    app.get('/', () => 'done')
    const answers = []
    for (const priority of ['0', '2', '3']) answers.push((await app.request('/', { headers: { priority } })).status)
    expect(answers).toEqual([200, 200, 503])
  })

  test('a limiter that is no middleware says how to mount it', async () => {
    const app = new H3({ silent: true, onError: error => error.message }).get('/', rateLimit(limits()) as never)
    expect(await (await app.request('/')).text()).toBe(
      'rateLimit: called without a function next, as by h3 1 or as a handler: expected to be middleware of h3 2, ' +
        'like app.use(rateLimit({ … }))',
    )
  })
})

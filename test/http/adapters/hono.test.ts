import { Readable } from 'node:stream'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { describe, expect, test } from '@jest/globals'
import { type Context, Hono } from 'hono'
import { type ConcurrencyLimit, concurrencyLimit, rateLimit, shed } from '../../../src/http/adapters/hono.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
import { adapterContract } from '../../support/adapter-contract.js'
import { describeConcurrencyLimit } from '../../support/concurrency-contract.js'
import { forContext } from '../../support/one-context.js'
import { warnings } from '../../support/warnings.js'
import { honoAdapter } from './hono-service.js'

const warned = warnings()

adapterContract('Hono 4', honoAdapter)

describeConcurrencyLimit('Hono 4', {
  concurrencyLimit: options => concurrencyLimit(forContext(options) as never),
  header: (c, name) => (c as Context).req.header(name),
  told: c => [(c as Context).newResponse(null).status, (c as Context).res.headers.get('retry-after') ?? undefined],
  answer: (c, text) => (c as Context).text(text),
  serve(limits, handle) {
    const app = new Hono<{ Bindings: HttpBindings }>()
    app.onError((_, c) => c.text('failed', 500))
    for (const limit of limits) app.use(limit as ConcurrencyLimit)
    app.get('*', async c => {
      const answer = await handle(c.req.path)
      return c.body(answer instanceof Readable ? (Readable.toWeb(answer) as ReadableStream) : answer)
    })
    return getRequestListener(app.fetch)
  },
})

describe('Hono 4', () => {
  const store = () => new MemoryStore({ clock: new ManualClock(0) })

  test('a response that the context has not made gets the header fields too', async () => {
    const app = new Hono()
    app.use(rateLimit({ policy: '9/1m', key: () => 'k', store: store() }))
    app.get('/new', () => new Response('new'))
    app.get('/fetched', () => fetch('data:text/plain,fetched'))
    const answers = await Promise.all(['/new', '/fetched'].map(path => app.request(path)))
    expect(answers.map(({ headers }) => headers.get('ratelimit'))).toEqual([
      '"9-per-1m";r=8;t=60',
      '"9-per-1m";r=7;t=60',
    ])
    expect(await Promise.all(answers.map(answer => answer.text()))).toEqual(['new', 'fetched'])
  })

  test('settle is asked when the body has been read to its end, or cancelled, or when there is none', async () => {
    const ends: unknown[] = []
    const app = new Hono()
    app.use(
      rateLimit({ policy: '99/1m', key: () => 'k', settle: (c, end) => ends.push([c.req.path, c.res.status, end]) }),
    )
    app.get('/read', c => c.text('done', 201))
    app.get('/cancelled', c => c.body(new ReadableStream({ pull: stream => stream.enqueue(new Uint8Array(9)) })))
    app.get('/none', c => c.body(null, 204))
    const read = await app.request('/read')
    const cancelled = await app.request('/cancelled')
    expect(ends).toEqual([])
    await read.text()
    await cancelled.body?.cancel()
    await app.request('/none')
    await app.request('/read', { method: 'HEAD' })
    expect(ends).toEqual([
      ['/read', 201, { completed: true, ended: true }],
      ['/cancelled', 200, { completed: false, ended: true }],
      ['/none', 204, { completed: true, ended: true }],
      ['/read', 201, { completed: true, ended: true }],
    ])
  })

  test.each<[string, object]>([
    ['Node', { incoming: { socket: { remoteAddress: '203.0.113.7' }, headers: {} } }],
    ['Node behind another name', { server: { incoming: { socket: { remoteAddress: '203.0.113.7' }, headers: {} } } }],
    ['Bun', { requestIP: () => ({ address: '203.0.113.7' }) }],
    ['Bun behind another name', { server: { requestIP: () => ({ address: '203.0.113.7' }) } }],
    ['Deno', { remoteAddr: { hostname: '203.0.113.7' } }],
  ])('the address is the one that the runtime tells: %s', async (_, env) => {
    const app = new Hono()
    app.use(rateLimit({ policy: '9/1m' }))
    app.get('/', c => c.text(`${c.get('rateLimit')?.key}`))
    expect(await (await app.request('/', {}, env)).text()).toBe('203.0.113.7')
  })

  test.each<[string, object | undefined]>([
    ['Bun', { requestIP: () => null }],
    ['Deno', { remoteAddr: {} }],
    ['any', undefined],
  ])(
    'of a runtime that reports no address (%s), a request is over if it has been aborted, and counted else',
    async (_, env) => {
      let handled = 0
      const app = new Hono()
      app.use(rateLimit({ policy: '9/1m', deny: ['0.0.0.0/0'] }))
      app.use(concurrencyLimit({ permits: 9, key: 'address' }))
      app.get('/', c => c.text(`${++handled} ${c.get('rateLimit')?.key}`))
      await app.request('/', { signal: AbortSignal.abort() }, env)
      expect([handled, warned.texts]).toEqual([0, []])
      expect(await (await app.request('/', {}, env)).text()).toBe('1 unknown')
    },
  )

  test('a handler that returns no response is an error for the service', async () => {
    const app = new Hono()
    app.onError((error, c) => c.text(error.message, 500))
    app.use(rateLimit({ policy: '0/1m', key: () => 'k', handler: (() => 'busy') as never }))
    const answer = await app.request('/')
    expect([answer.status, await answer.text()]).toEqual([
      500,
      'rateLimit: handler returned "busy": expected a Response, like c.text("busy")',
    ])
  })

  test('a place is held until the body has been read', async () => {
    const app = new Hono()
    app.use(concurrencyLimit({ permits: 1 }))
    app.get('/', c => c.text('done'))
    const first = await app.request('/')
    expect((await app.request('/')).status).toBe(503)
    await first.text()
    expect((await app.request('/')).status).toBe(200)
  })

  test('shed refuses the least important requests first', async () => {
    const app = new Hono()
    const load = { level: 1.5, reason: 'custom' } as const
    app.use(shed({ load, priority: c => Number(c.req.header('priority')) }))
    app.get('/', c => c.text('done'))
    const answers = []
    for (const priority of ['0', '2', '3']) answers.push((await app.request('/', { headers: { priority } })).status)
    expect(answers).toEqual([200, 200, 503])
  })
})

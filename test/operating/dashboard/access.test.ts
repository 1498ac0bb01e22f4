import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import express from 'express'
import Koa from 'koa'
import { type DashboardOptions, dashboard } from '../../../src/operating/dashboard/index.js'
import type { RedisServer } from '../../support/redis-server.js'
import { testRedis } from '../../support/test-redis.js'
import { warnings } from '../../support/warnings.js'
import { encoded, OpenDashboard } from './open-dashboard.js'

const warned = warnings()

const redis = testRedis()
let client: ReturnType<RedisServer['client']>
beforeAll(() => {
  client = redis.client()
})

let open: OpenDashboard | undefined
afterEach(async () => {
  await open?.close()
  open = undefined
})
const start = async (options: Partial<DashboardOptions> = {}) => {
  open = await OpenDashboard.start({ client, authorize: () => 'write', ...options })
  return open
}
const PAUSE = { act: 'pause', name: 'mail' } as const

describe('access is refused', () => {
  test.each<[string, DashboardOptions['authorize']]>([
    ['false', () => false],
    [
      'a throw',
      () => {
        throw new Error('no')
      },
    ],
    [
      'a rejection',
      async () => {
        throw new Error('no')
      },
    ],
    ['something else', () => 'admin' as never],
    ['nothing', () => undefined as never],
  ])('authorize that gives %s: 403 for page, files, views and changes, and nothing is done', async (_, authorize) => {
    const { send } = await start({ authorize })
    const ask = (method: string, path: string) =>
      (open as OpenDashboard).send(method, path, { 'x-spillway-request': encoded(PAUSE) })
    for (const path of ['', 'page.js', 'page.css', 'view']) expect((await ask('GET', path)).status).toBe(403)
    expect((await ask('POST', 'act')).status).toBe(403)
    expect(await client.keys('*mail*')).toEqual([])
    expect(send).toBeDefined()
  })

  test.each<[string, DashboardOptions['authorize'], string]>([
    [
      'throws',
      () => {
        throw new Error('db is not defined')
      },
      'authorize threw: db is not defined',
    ],
    ['gives something unknown', () => true as never, 'authorize gave true: expected'],
  ])('authorize that %s is a mistake, of which the service is warned once a minute', async (_, authorize, words) => {
    const page = await start({ authorize })
    for (let i = 0; i < 3; i++) expect((await page.get('')).status).toBe(403)
    expect(warned.texts).toEqual([expect.stringContaining(words)])
  })

  test('who simply may not see it causes no warning, and neither does a request that is null', async () => {
    const closed = await start({ authorize: () => false })
    expect((await closed.get('')).status).toBe(403)
    await closed.close()
    const page = await start({ authorize: () => 'write' })
    for (const request of [null, 5, [], { page: null }, { act: null }]) {
      const field = { 'x-spillway-request': Buffer.from(JSON.stringify(request)).toString('base64url') }
      expect((await page.send('GET', 'view', field)).status).toBe(400)
      expect((await page.send('POST', 'act', field)).status).toBe(400)
    }
    expect(warned.texts).toEqual([])
  })

  test("access 'read' cannot change anything, even by a request with all that the page would send", async () => {
    const page = await start({ authorize: () => ({ access: 'read', user: 'bob' }) })
    const view = await page.view({ page: 'limits' })
    expect([view.access, view.user]).toEqual(['read', 'bob'])
    const acts = [
      PAUSE,
      { act: 'redrive', name: 'mail' },
      { act: 'block', limiter: 'login', key: 'x', for: '1h' },
      { act: 'set-limit', limiter: 'login', policy: '1/1m' },
    ] as const
    for (const act of acts)
      expect(await page.act(act)).toMatchObject({ status: 403, error: 'You may look, but not change anything.' })
    expect(await client.keys('*mail*')).toEqual([])
    expect((await page.view({ page: 'changes' })).changes).toEqual([])
  })
})

describe('a change is accepted only from its own page', () => {
  test.each<[string, Record<string, string>]>([
    ['as the browser says', { 'sec-fetch-site': 'same-origin' }],
    [
      'as the browser says, behind a proxy that names another host',
      { 'sec-fetch-site': 'same-origin', origin: 'https://ops.example' },
    ],
    ['of a browser that says nothing', {}],
  ])('%s', async (_, headers) => {
    const page = await start()
    expect((await page.act(PAUSE, headers)).status).toBe(200)
  })

  test.each<[string, Record<string, string>]>([
    ['from another origin', { origin: 'http://evil.example' }],
    ['from a sandboxed page', { origin: 'null' }],
    ['from another site, as the browser says', { 'sec-fetch-site': 'cross-site' }],
    ['from a neighbour of the same site', { 'sec-fetch-site': 'same-site' }],
  ])('%s it is refused, and so is a view', async (_, headers) => {
    const page = await start()
    const view = await page.get('view', { 'x-spillway-request': encoded({ page: 'limits' }), ...headers })
    expect(view.status).toBe(403)
    expect((await page.act({ act: 'pause', name: 'forged' }, headers)).status).toBe(403)
    expect(await client.keys('*forged*')).toEqual([])
  })

  test('a view needs a field that another site cannot send without asking', async () => {
    const page = await start()
    expect((await page.get('view')).status).toBe(400)
    expect((await page.send('OPTIONS', 'view')).status).toBe(404)
    expect((await page.send('GET', 'act')).status).toBe(302)
  })
})

describe('the Host of a request', () => {
  test.each(['evil.example', 'evil.example:80', '127.0.0.1.evil.example', 'localhost.evil.example', 'a b'])(
    'the Host %j is refused, because its owner may have pointed it here',
    async host => {
      const page = await start()
      expect((await page.get('', { host })).status).toBe(421)
    },
  )

  test.each(['localhost', '127.0.0.1:80', '[::1]:4400', 'dash.localhost:80'])(
    'the Host %s means this machine',
    async host => {
      const page = await start()
      expect((await page.get('', { host })).status).toBe(200)
    },
  )

  test('a name is refused on every interface, also of a container', async () => {
    const asked = (host: string) => {
      const handler = dashboard({ client, authorize: () => 'write' })
      return new Promise<number>(resolve => {
        const req = {
          url: '/',
          method: 'GET',
          headers: { host },
          socket: { localAddress: '172.17.0.2', remoteAddress: '172.17.0.1' },
        }
        const res = { setHeader() {}, end: () => resolve(res.statusCode), statusCode: 0 }
        handler(req as never, res as never)
      })
    }
    expect([await asked('evil.example'), await asked('172.17.0.2:3000')]).toEqual([421, 200])
  })

  test('`hosts` names others', async () => {
    const page = await start({ hosts: ['Ops.example.com'] })
    expect((await page.get('', { host: 'ops.example.com:8443' })).status).toBe(200)
    expect((await page.get('', { host: 'evil.example' })).status).toBe(421)
  })
})

describe('a service goes on', () => {
  test('when a middleware with a time-out has answered before the dashboard', async () => {
    const statuses: number[] = []
    const slow = async () => {
      await new Promise(resolve => setTimeout(resolve, 30))
      return 'write' as const
    }
    const handler = dashboard({ client, authorize: slow })
    open = await OpenDashboard.serve((req, res) => {
      handler(req, res)
      res.statusCode = 503
      res.end('timeout')
    })
    const asked = { 'x-spillway-request': encoded({ page: 'limits' }), 'accept-encoding': 'gzip' }
    for (const path of ['', 'page.js', 'view']) statuses.push((await open.get(path, asked)).status)
    statuses.push((await open.send('POST', 'act', asked)).status)
    // An unhandled rejection would fail this test.
    await new Promise(resolve => setTimeout(resolve, 60))
    expect(statuses).toEqual([503, 503, 503, 503])
    expect(warned.texts).toEqual([])
  })

  test.each(['null', '5', '"x"', '[]', 'x'])(
    'the request %s is answered with what is expected, without a warning',
    async text => {
      const page = await start()
      const reply = await page.get('view', { 'x-spillway-request': Buffer.from(text).toString('base64url') })
      expect(reply.status).toBe(400)
      expect(warned.texts).toEqual([])
    },
  )
})

describe('the response', () => {
  test('the page and its files run no foreign code and cannot be framed', async () => {
    const page = await start()
    for (const path of ['', 'page.js', 'page.css', 'icon.svg']) {
      const { status, headers } = await page.get(path)
      expect(status).toBe(200)
      expect(headers['content-security-policy']).toMatch(/^default-src 'self';/)
      expect(headers['content-security-policy']).not.toContain('unsafe')
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
      })
    }
    expect((await page.get('')).text).not.toMatch(/<style|style=|<script>| on\w+=|https?:\/\//)
  })

  test('page and files together are less than 100 kB without compression, and are compressed for clients that accept it', async () => {
    const page = await start()
    const sizes = await Promise.all(
      ['', 'page.js', 'page.css', 'icon.svg'].map(async path => (await page.get(path)).text.length),
    )
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(100_000)
    const { headers } = await page.get('page.js', { 'accept-encoding': 'gzip' })
    expect(headers['content-encoding']).toBe('gzip')
    expect(Number(headers['content-length'])).toBeLessThan(40_000)
    expect((await page.get('page.js', { 'if-none-match': String(headers.etag) })).status).toBe(304)
  })
})

describe('any base path', () => {
  const options = (): DashboardOptions => ({ client, authorize: () => 'write' })
  const works = async (page: OpenDashboard) => {
    expect((await page.get('')).text).toContain('page.js')
    expect((await page.get('page.js')).status).toBe(200)
    expect((await page.act({ act: 'resume', name: 'mail' })).status).toBe(200)
  }

  test('mounted in Express, beside other routes and behind a body parser', async () => {
    const app = express()
    app.use(express.json())
    app.use('/admin/limits', dashboard(options()))
    app.get('/admin/limits/elsewhere.txt', (_req, res) => void res.send('passed on'))
    app.get('/', (_req, res) => void res.send('home'))
    open = await OpenDashboard.serve(app, '/admin/limits/')
    await works(open)
    expect((await open.get('elsewhere.txt')).text).toBe('passed on')
    expect((await open.get('../../')).text).toBe('home')
    const bare = await open.get('../limits?a=1')
    expect([bare.status, bare.headers.location]).toEqual([302, './limits/?a=1'])
  })

  test('as a middleware without a mount path it leaves the paths of the service alone that end as its own', async () => {
    const app = express()
    app.use(dashboard(options()))
    app.get('/orders/view', (_req, res) => void res.send('an order'))
    app.post('/orders/act', (_req, res) => void res.send('done'))
    app.get('/shop/', (_req, res) => void res.send('shop'))
    app.get('/shop/page.js', (_req, res) => void res.send('own'))
    open = await OpenDashboard.serve(app, '/')
    await works(open)
    expect((await open.get('orders/view')).text).toBe('an order')
    expect((await open.send('POST', 'orders/act')).text).toBe('done')
    expect((await open.get('shop/')).text).toBe('shop')
    expect((await open.get('shop/page.js')).text).toBe('own')
  })

  test('in Koa by ctx.req and ctx.res', async () => {
    const app = new Koa()
    const handler = dashboard({ ...options(), basePath: '/limits' })
    app.use(async (ctx, next) => {
      if (!ctx.path.startsWith('/limits')) return next()
      ctx.respond = false
      handler(ctx.req, ctx.res)
    })
    app.use(ctx => {
      ctx.body = 'home'
    })
    open = await OpenDashboard.serve(app.callback(), '/limits/')
    await works(open)
    expect((await open.get('../')).text).toBe('home')
    expect((await open.get('../limits')).headers.location).toBe('./limits/')
  })

  test('on node:http below any path, and with basePath only below that', async () => {
    const handler = dashboard(options())
    open = await OpenDashboard.serve((req, res) => handler(req, res), '/a/b/c/')
    await works(open)
    await open.close()
    const based = dashboard({ ...options(), basePath: '/limits/' })
    open = await OpenDashboard.serve((req, res) => based(req, res), '/limits/')
    await works(open)
    expect((await open.get('../elsewhere/')).status).toBe(404)
  })
})

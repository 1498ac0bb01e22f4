import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { createServer, request as httpRequest, type RequestListener, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import type { Options, World } from './world.js'

const TYPES = 'https://iana.org/assignments/http-problem-types#'

/** Blocks, lists of addresses, and limits with their own keys. */
export function whoContract(world: World): void {
  const { whole, adapter, limited, serve, get, statuses, user } = world

  whole.describe('a key that continues after denials', () => {
    const block = { after: 2, for: '1h' }

    test('is blocked after the given number of denials, with reason and duration, and is allowed at its end', async () => {
      const app = serve(limited({ policy: '1/1m', block }))
      const json = { accept: 'application/json' }
      expect(await statuses(app, 2)).toEqual([200, 429])
      const blocked = await get(app, json)
      expect([blocked.status, blocked.headers['retry-after'], blocked.headers.ratelimit]).toEqual([
        429,
        '3600',
        '"1-per-1m";r=0;t=3600',
      ])
      expect(blocked.body).toMatchObject({
        type: `${TYPES}abnormal-usage-detected`,
        status: 429,
        retryAfterMs: 3_600_000,
        'violated-policies': ['1-per-1m'],
      })
      world.clock.advance(3_599_001)
      expect((await get(app, json)).headers['retry-after']).toBe('1')
      world.clock.advance(998)
      expect((await get(app, json)).body).toMatchObject({ retryAfterMs: 1, type: `${TYPES}abnormal-usage-detected` })
      world.clock.advance(1)
      expect((await get(app)).status).toBe(200)
    })

    test('that is denied now and then is not blocked', async () => {
      const app = serve(limited({ policy: '1/1m', block }))
      for (let i = 0; i < 4; i++) {
        expect((await get(app)).status).toBe(200)
        const denied = await get(app, { accept: 'application/json' })
        expect(denied.body.type).toBe(`${TYPES}quota-exceeded`)
        world.clock.advance(60_000)
      }
    })

    test('can be unblocked', async () => {
      const limiter = limited({ policy: '1/1m', block })
      const app = serve(limiter)
      await statuses(app, 4)
      await limiter.limiter.unblock('127.0.0.1')
      world.clock.advance(60_000)
      expect((await get(app)).status).toBe(200)
    })
  })

  describe('an address', () => {
    const from = (address: string) => ({ 'x-forwarded-for': address })

    test('on the deny list is refused, whatever the request, and counts nothing', async () => {
      const app = serve(limited({ policy: '9/1m', deny: ['203.0.113.0/24', '2001:db8::/32'] }), { trustProxy: true })
      for (const address of ['203.0.113.9', '::ffff:203.0.113.9', '2001:DB8::1']) {
        const answer = await get(app, from(address))
        const { status, headers } = answer
        expect([address, status, world.said(answer)]).toEqual([
          address,
          403,
          'Requests from this address are not accepted.',
        ])
        expect(headers['cache-control']).toBe('no-store')
        expect(headers).not.toHaveProperty('ratelimit')
      }
      const { status, body } = await get(app, { ...from('203.0.113.9'), accept: 'application/json' })
      expect([status, body]).toEqual([
        403,
        {
          type: 'about:blank',
          title: 'Forbidden',
          status: 403,
          detail: 'Requests from this address are not accepted.',
        },
      ])
      expect([world.handled, world.store.size]).toEqual([0, 0])
      expect((await get(app, from('203.0.114.9'))).status).toBe(200)
    })

    whole.test('on the allow list is not limited and counts nothing', async () => {
      const app = serve(limited({ policy: '0/1m', allow: ['10.0.0.0/8', '192.0.2.7'] }), { trustProxy: true })
      for (const address of ['10.1.2.3', '192.0.2.7']) {
        const { status, headers, body } = await get(app, from(address))
        expect([status, body]).toEqual([200, null])
        expect(headers).not.toHaveProperty('ratelimit')
      }
      expect((await get(app, from('192.0.2.8'))).status).toBe(429)
    })

    whole.test('on both is judged by the narrower range', async () => {
      const lists = { allow: ['10.1.0.0/16'], deny: ['10.0.0.0/8', '10.1.1.1'] }
      const app = serve(limited({ policy: '9/1m', ...lists }), { trustProxy: true })
      const answers = []
      for (const address of ['10.1.2.3', '10.2.2.3', '10.1.1.1']) answers.push((await get(app, from(address))).status)
      expect(answers).toEqual([200, 403, 403])
    })

    whole.test('that only an untrusted proxy reports is on no list', async () => {
      const app = serve(limited({ policy: '9/1m', deny: ['203.0.113.0/24'] }))
      expect((await get(app, from('203.0.113.9'))).status).toBe(200)
    })
  })

  describe('addressKey', () => {
    const from = (address: string) => ({ 'x-forwarded-for': `198.51.100.66, ${address}` })

    test('gives the key that the limiter uses by default, for a key of the service', async () => {
      const byAddress = adapter.addressKey({ proxies: 1, ipv6Subnet: 64 })
      const own = limited({
        policy: '9/1m',
        key: async (req, res) => user(req) ?? byAddress(req as never, res as never),
      })
      const app = serve(own)
      const keys = []
      for (const address of ['203.0.113.9', '::ffff:203.0.113.9', '2001:db8:0:ff7a::1', '2001:DB8:0:FF7A::2']) {
        keys.push((await get(app, from(address))).body.key)
      }
      keys.push((await get(app, { ...from('203.0.113.9'), 'x-user': 'ada' })).body.key)
      expect(keys).toEqual(['203.0.113.9', '203.0.113.9', '2001:db8:0:ff7a::/64', '2001:db8:0:ff7a::/64', 'ada'])
      expect(world.warned.texts).toEqual([])
    })

    whole.test(
      'takes the address of the connection if no proxy is named, and says once that a header is not believed',
      async () => {
        const byAddress = adapter.addressKey()
        const app = serve(limited({ policy: '9/1m', key: (req, res) => byAddress(req as never, res as never) }))
        for (let i = 0; i < 2; i++) expect((await get(app, from('203.0.113.9'))).body.key).toBe('127.0.0.1')
        expect(world.warned.codes).toEqual(['SPILLWAY_PROXY'])
        expect(world.warned.texts).toEqual([expect.stringContaining('addressKey({ proxies: 1 })')])
      },
    )
  })

  describe('over a Unix socket, where nobody has an address', () => {
    let server: Server
    afterEach(() => new Promise<unknown>(resolve => server.close(resolve)))
    const ask = async (app: RequestListener, count: number) => {
      const path = join(mkdtempSync(join(tmpdir(), 'spillway-')), 'socket')
      server = createServer(app).listen(path)
      await once(server, 'listening')
      const statuses: Array<number | undefined> = []
      for (let i = 0; i < count; i++) {
        const [answer] = await once(httpRequest({ socketPath: path, agent: false }).end(), 'response')
        answer.resume()
        statuses.push(answer.statusCode)
      }
      return statuses
    }

    test('all requests share one count, and one warning says so', async () => {
      expect(await ask(serve(limited({ policy: '2/1m' })), 3)).toEqual([200, 200, 429])
      expect(world.warned.codes).toEqual(['SPILLWAY_NO_ADDRESS'])
      expect(world.warned.texts).toEqual([expect.stringContaining('rateLimit({ proxies: 1 })')])
    })

    whole.test('no list applies, and one warning says so', async () => {
      const lists = { deny: ['0.0.0.0/0', '::/0'], key: () => 'all' }
      expect(await ask(serve(limited({ policy: '2/1m', ...lists })), 3)).toEqual([200, 200, 429])
      expect(world.warned.codes).toEqual(['SPILLWAY_NO_ADDRESS'])
      expect(world.warned.texts).toEqual([expect.stringContaining('no address list applies')])
    })

    whole.test('addressKey gives none, and one warning says so', async () => {
      const byAddress = adapter.addressKey()
      const app = serve(limited({ policy: '1/1m', key: (req, res) => byAddress(req as never, res as never) }))
      expect(await ask(app, 2)).toEqual([200, 200])
      expect(world.warned.codes).toEqual(['SPILLWAY_NO_ADDRESS'])
      expect(world.warned.texts).toEqual([expect.stringContaining('they have no key')])
    })
  })

  if (adapter.trustsAnybody !== undefined)
    test.each<[string, () => Options]>([
      ['the default key', () => ({})],
      ['an allow list beside a key of the service', () => ({ key: () => 'all', allow: ['10.0.0.0/8'] })],
      ['a deny list beside a key of the service', () => ({ key: () => 'all', deny: ['203.0.113.0/24'] })],
      [
        'addressKey',
        () => {
          const byAddress = adapter.addressKey()
          return { key: (req, res) => byAddress(req as never, res as never) }
        },
      ],
    ])('a framework that believes any client about its address causes one warning with %s', async (_, options) => {
      const app = serve(limited({ policy: '9/1m', ...options() }), { trustProxy: 'anybody' })
      for (const forged of ['192.0.2.1', '192.0.2.2']) await get(app, { 'x-forwarded-for': forged })
      expect(world.warned.codes).toEqual(['SPILLWAY_PROXY'])
      expect(world.warned.texts).toEqual([expect.stringContaining(adapter.trustsAnybody as string)])
    })

  whole.describe('limits with keys of their own', () => {
    const policy = [
      { quota: 2, window: '1m', name: 'address' },
      { quota: 3, window: '1h', name: 'user', key: async (req: unknown) => user(req) },
      { quota: 6, window: '1h', name: 'service', key: () => 'all' },
    ]
    const left = (headers: Record<string, string>) =>
      Object.fromEntries([...headers.ratelimit.matchAll(/"(\w+)";r=(\d+)/g)].map(([, name, units]) => [name, +units]))

    test('are one decision: all are charged or none', async () => {
      const app = serve(limited({ policy }), { trustProxy: true })
      const ask = async (address: string, name: string) => {
        const { status, headers } = await get(app, { 'x-forwarded-for': address, 'x-user': name })
        return [status, left(headers)]
      }
      expect(await ask('192.0.2.1', 'ann')).toEqual([200, { address: 1, user: 2, service: 5 }])
      expect(await ask('192.0.2.1', 'bob')).toEqual([200, { address: 0, user: 2, service: 4 }])
      // The address has none left: neither the user nor the service pays.
      expect(await ask('192.0.2.1', 'ann')).toEqual([429, { address: 0, user: 2, service: 4 }])
      expect(await ask('192.0.2.2', 'ann')).toEqual([200, { address: 1, user: 1, service: 3 }])
      expect(await ask('192.0.2.3', 'ann')).toEqual([200, { address: 1, user: 0, service: 2 }])
      expect(await ask('192.0.2.4', 'ann')).toEqual([429, { address: 2, user: 0, service: 2 }])
      expect(world.handled).toBe(4)
    })

    test('a limit without a key for a request is skipped', async () => {
      const { status, headers } = await get(serve(limited({ policy })))
      expect([status, left(headers)]).toEqual([200, { address: 1, service: 5 }])
    })

    test('a request without any key is not limited', async () => {
      const { status, headers, body } = await get(serve(limited({ policy: { quota: 0, window: '1m', key: user } })))
      expect([status, body]).toEqual([200, null])
      expect(headers).not.toHaveProperty('ratelimit')
    })

    test('the key of the middleware is used for limits without one, and its error fails the request', async () => {
      const app = serve(limited({ policy, key: () => 'everyone' }), { trustProxy: true })
      expect(await statuses(app, 1, { 'x-forwarded-for': '192.0.2.1' })).toEqual([200])
      expect(left((await get(app, { 'x-forwarded-for': '192.0.2.2' })).headers)).toEqual({ address: 0, service: 4 })
      const wrong = serve(limited({ policy: [{ quota: 1, window: '1m', key: () => true as never }] }))
      expect((await get(wrong)).body).toMatchObject({ code: 'SPILLWAY_POLICY' })
    })

    test('may be decided for each request', async () => {
      const app = serve(limited({ policy: async req => (user(req) === 'ann' ? policy : '1/1m') }))
      expect(left((await get(app, { 'x-user': 'ann' })).headers)).toEqual({ address: 1, user: 2, service: 5 })
      expect(await statuses(app, 2)).toEqual([200, 429])
    })
  })
}

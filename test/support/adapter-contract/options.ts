import type { RequestListener } from 'node:http'
import { describe, expect, test } from '@jest/globals'
import request from 'supertest'
import type { Options, World } from './world.js'

/** The options key, cost and policy: their valid values, and the effect of errors. */
export function optionsContract(world: World): void {
  const { whole, adapter, limited, serve, get, statuses, user } = world

  whole.test('a CORS preflight counts like any request, unless it is skipped', async () => {
    const isPreflight = (req: unknown) => adapter.header(req, 'access-control-request-method') !== undefined
    const ask = (app: RequestListener) => request(app).options('/').set('access-control-request-method', 'POST')
    const counting = serve(limited({ policy: '2/1m', name: 'counting' }))
    expect((await ask(counting)).headers['x-ratelimit-remaining']).toBe('1')
    const skipping = serve(limited({ policy: '2/1m', name: 'skipping', skip: isPreflight }))
    for (let i = 0; i < 3; i++) expect((await ask(skipping)).headers).not.toHaveProperty('x-ratelimit-remaining')
    expect(await statuses(skipping, 3)).toEqual([200, 200, 429])
  })

  describe('the key', () => {
    test('is set by the service', async () => {
      const app = serve(limited({ policy: '1/1m', key: async req => user(req) }))
      expect(await statuses(app, 2, { 'x-user': 'ann' })).toEqual([200, 429])
      expect(await statuses(app, 2, { 'x-user': 'bob' })).toEqual([200, 429])
    })

    whole.test('of a request that is not limited is undefined', async () => {
      const answer = await get(serve(limited({ policy: '0/1m', key: user })))
      expect([answer.status, answer.body]).toEqual([200, null])
      expect(answer.headers).not.toHaveProperty('ratelimit')
    })

    test('by default is the address, the same over IPv4 and mapped into IPv6', async () => {
      const app = serve(limited({ policy: '1/1m' }))
      const key = (await get(app)).body.key
      expect(key).toBe('127.0.0.1')
    })

    test('by default is the address that a trusted proxy reports, with IPv6 masked to the subnet', async () => {
      const app = serve(limited({ policy: '1/1m', ipv6Subnet: 64 }), { trustProxy: true })
      expect(await statuses(app, 1, { 'x-forwarded-for': '2001:db8::1' })).toEqual([200])
      expect(await statuses(app, 1, { 'x-forwarded-for': '2001:DB8:0::ffff' })).toEqual([429])
      expect(await statuses(app, 1, { 'x-forwarded-for': '2001:db8:0:1::1' })).toEqual([200])
      expect(await statuses(app, 1, { 'x-forwarded-for': '203.0.113.7' })).toEqual([200])
      expect(await statuses(app, 1, { 'x-forwarded-for': '::ffff:cb00:7107' })).toEqual([429])
      expect(world.warned.texts).toEqual([])
    })
  })

  describe('behind a proxy that is not trusted', () => {
    whole.test.each([
      ['x-forwarded-for', '203.0.113.7'],
      ['forwarded', 'for=203.0.113.7'],
    ])('%s causes one warning with the remedy', async (field, value) => {
      const app = serve(limited({ policy: '9/1m' }))
      await statuses(app, 3, { [field]: value })
      expect(world.warned.codes).toEqual(['SPILLWAY_PROXY'])
      const [text] = world.warned.texts
      expect(text).toContain('rateLimit({ proxies: 1 })')
      // Any client can send these fields: what they bring up must not be advice to believe them.
      expect(text).not.toMatch(/trust proxy|app\.proxy/)
    })

    whole.test('a key set by the service causes no warning', async () => {
      await get(serve(limited({ key: () => 'all' })), { 'x-forwarded-for': '203.0.113.7' })
      expect(world.warned.texts).toEqual([])
    })
  })

  describe('the cost', () => {
    whole.test('is spent at once, or refused whole', async () => {
      const app = serve(limited({ policy: '10/1m', cost: async req => Number(adapter.header(req, 'x-cost')) }))
      const left: unknown[] = []
      for (const cost of [4, 7, 6, 11, 0]) {
        const { status, headers } = await get(app, { 'x-cost': `${cost}` })
        left.push([cost, status, headers['x-ratelimit-remaining'], headers['retry-after']])
      }
      expect(left).toEqual([
        [4, 200, '6', undefined],
        [7, 429, '6', '60'],
        [6, 200, '0', undefined],
        [11, 429, '0', undefined],
        [0, 200, '0', undefined],
      ])
    })

    whole.test.each([Number.NaN, -1, 1.5, undefined, '1'])(
      '%p is an error for the service, and nothing is spent',
      async cost => {
        const limiter = limited({ policy: '1/1m', cost: () => cost as number })
        const { status, body } = await get(serve(limiter))
        expect([status, body.code]).toEqual([500, 'SPILLWAY_COST'])
        expect((await limiter.limiter.peek('127.0.0.1')).remaining).toBe(0)
        expect((await limiter.limiter.peek('127.0.0.1', 0)).remaining).toBe(1)
        expect(world.handled).toBe(0)
      },
    )
  })

  describe('a function of the options', () => {
    const boom = () => {
      throw new Error('boom')
    }
    const reject = () => Promise.reject(new Error('boom'))

    whole.test.each(['key', 'cost', 'skip', 'policy', 'limit', 'message'] as const)(
      '%s that fails is an error for the service, and nothing is spent',
      async option => {
        for (const fail of [boom, reject]) {
          const policy = option === 'message' ? '0/1m' : '1/1m'
          const options: Options = option === 'limit' ? {} : { policy }
          const { status, body } = await get(serve(limited({ ...options, [option]: fail })))
          expect([status, body.message]).toEqual([500, 'boom'])
        }
        expect([world.handled, world.store.size]).toEqual([0, 0])
      },
    )

    test.each([undefined, null, 'route', 'router', 0])(
      'that throws %p is an error too, and the request does not pass',
      async thrown => {
        const key = () => {
          throw thrown
        }
        const { status, body } = await get(serve(limited({ key })))
        expect([status, body.code]).toEqual([500, 'SPILLWAY'])
        expect(world.handled).toBe(0)
      },
    )

    whole.test.each([
      ['boolean', true],
      ['null', null],
      ['array', ['a']],
      ['object', { id: 4242 }],
    ])('key that returns a value of type %s is an error that does not contain the value', async (_type, value) => {
      const { status, body } = await get(serve(limited({ key: () => value as unknown as string })))
      expect([status, body.code]).toEqual([500, 'SPILLWAY_POLICY'])
      expect(body.message).not.toContain('4242')
      expect([world.handled, world.store.size]).toEqual([0, 0])
    })

    whole.test('key may return a number, which is the same key as its text', async () => {
      const { limiter, app } = (() => {
        const limiter = limited({ policy: '1/1m', key: () => 4242 })
        return { limiter: limiter.limiter, app: serve(limiter) }
      })()
      expect((await get(app)).body.key).toBe('4242')
      expect((await limiter.peek('4242')).allowed).toBe(false)
      expect((await limiter.peek(4242)).allowed).toBe(false)
    })

    whole.test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
      'key that returns %p is an error, because strangers would share one count',
      async value => {
        const { status, body } = await get(serve(limited({ key: () => value })))
        expect([status, body.code]).toEqual([500, 'SPILLWAY_POLICY'])
        expect(body.message).toContain(`key gave ${value}: expected a text or a finite number`)
      },
    )

    whole.test('skip allows without counting', async () => {
      const app = serve(limited({ policy: '1/1m', skip: async req => user(req) === 'monitor' }))
      expect(await statuses(app, 3, { 'x-user': 'monitor' })).toEqual([200, 200, 200])
      expect(await statuses(app, 2)).toEqual([200, 429])
    })

    whole.test('policy decides for each request', async () => {
      const plans: Record<string, string> = { free: '1/1m', paid: '2/1m;3/1h' }
      const app = serve(limited({ policy: async req => plans[user(req) ?? 'free'], key: user }))
      expect(await statuses(app, 2, { 'x-user': 'free' })).toEqual([200, 429])
      expect(await statuses(app, 3, { 'x-user': 'paid' })).toEqual([200, 200, 429])
      expect((await get(app, { 'x-user': 'paid' })).headers['ratelimit-policy']).toContain('"3-per-1h"')
      expect(await get(app, { 'x-user': 'nobody' })).toMatchObject({ status: 500, body: { code: 'SPILLWAY_POLICY' } })
    })

    whole.test('limit decides for each request over one count, so that a new quota forgets nothing', async () => {
      let quota = 2
      const app = serve(limited({ limit: async () => quota, windowMs: 60_000 }))
      expect(await statuses(app, 3)).toEqual([200, 200, 429])
      quota = 5
      const { status, headers } = await get(app)
      expect([status, headers.ratelimit, headers['x-ratelimit-limit']]).toEqual([200, '"per-1m";r=2;t=60', '5'])
      quota = 1
      expect((await get(app)).status).toBe(429)
    })
  })
}

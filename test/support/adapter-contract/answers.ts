import { describe, expect, test } from '@jest/globals'
import request from 'supertest'
import type { Store } from '../../../src/limiter/store.js'
import { START, type World } from './world.js'

/** Allowed and refused requests, and their responses. */
export function answersContract(world: World): void {
  const { whole, adapter, limited, serve, get, statuses, user } = world

  describe('a limit', () => {
    test('allows requests up to the limit and refuses more, without calling the service', async () => {
      const app = serve(limited({ policy: '3/1m' }))
      expect(await statuses(app, 5)).toEqual([200, 200, 200, 429, 429])
      expect(world.handled).toBe(3)
    })

    whole.test('refuses until the promised moment, and allows from that moment on', async () => {
      const app = serve(limited({ policy: '1/1m' }))
      await get(app)
      world.clock.advance(20_500)
      const refused = await get(app, { accept: 'application/json' })
      expect(refused.body.retryAfterMs).toBe(39_500)
      expect(refused.headers['retry-after']).toBe('40')
      world.clock.advance(39_499)
      expect((await get(app)).status).toBe(429)
      world.clock.advance(1)
      expect((await get(app)).status).toBe(200)
    })

    whole.test('is 5 per minute for an address without options', async () => {
      const app = serve(adapter.rateLimit())
      expect(await statuses(app, 6)).toEqual([200, 200, 200, 200, 200, 429])
    })

    whole.test('can be given with the option names of express-rate-limit', async () => {
      const app = serve(limited({ windowMs: 1000, max: 2, keyGenerator: user, algorithm: 'fixed-window' }))
      expect(await statuses(app, 3, { 'x-user': 'ann' })).toEqual([200, 200, 429])
      expect((await get(app, { 'x-user': 'bob' })).status).toBe(200)
      world.clock.advance(1000)
      expect((await get(app, { 'x-user': 'ann' })).status).toBe(200)
    })

    whole.test('of 0 refuses everything, with no time to come back', async () => {
      const answer = await get(serve(limited({ policy: '0/1m' })))
      expect(answer.status).toBe(429)
      expect(answer.headers).not.toHaveProperty('retry-after')
      expect(answer.headers.ratelimit).toBe('"0-per-1m";r=0;t=60')
    })

    test('counts requests of every method', async () => {
      const app = serve(limited({ policy: '3/1m' }))
      const answers = [
        await request(app).head('/'),
        await request(app).options('/'),
        await request(app).post('/').send('x'),
      ]
      for (const answer of answers) expect(answer.headers['x-ratelimit-limit']).toBe('3')
      expect((await get(app)).status).toBe(429)
    })
  })

  describe('the header fields', () => {
    test('show the limit, the remaining units and the reset, for allowed and for refused requests', async () => {
      const app = serve(limited({ policy: '2/1m;100/1h' }))
      await get(app)
      world.clock.advance(30_000)
      const passed = await get(app)
      expect(passed.status).toBe(200)
      expect(passed.headers).toMatchObject({
        'ratelimit-policy': '"2-per-1m";q=2;w=60, "100-per-1h";q=100;w=3600',
        ratelimit: '"2-per-1m";r=0;t=60, "100-per-1h";r=98;t=3600',
        'x-ratelimit-limit': '2',
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': `${(START + 90_000) / 1000}`,
      })
      expect(passed.headers).not.toHaveProperty('retry-after')
      const refused = await get(app)
      expect(refused.status).toBe(429)
      expect(refused.headers).toMatchObject({
        'ratelimit-policy': '"2-per-1m";q=2;w=60, "100-per-1h";q=100;w=3600',
        ratelimit: '"2-per-1m";r=0;t=30, "100-per-1h";r=98;t=3600',
        'x-ratelimit-limit': '2',
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': `${(START + 60_000) / 1000}`,
        'retry-after': '30',
        'cache-control': 'no-store',
      })
    })

    whole.test.each([
      [['draft-7'], { 'ratelimit-policy': '2;w=60', ratelimit: 'limit=2, remaining=1, reset=60' }],
      [
        ['draft-6'],
        { 'ratelimit-policy': '2;w=60', 'ratelimit-limit': '2', 'ratelimit-remaining': '1', 'ratelimit-reset': '60' },
      ],
      [[], {}],
    ] as const)('are those asked for: %j', async (headers, expected) => {
      const answer = await get(serve(limited({ policy: '2/1m', headers })))
      expect(Object.fromEntries(Object.entries(answer.headers).filter(([name]) => name.includes('ratelimit')))).toEqual(
        expected,
      )
    })

    whole.test('never contain the key, and neither does the body', async () => {
      const app = serve(limited({ policy: '1/1m', key: user }))
      const answers = [
        await get(app, { 'x-user': 'secret-token' }),
        await get(app, { 'x-user': 'secret-token' }),
        await get(app, { 'x-user': 'secret-token', accept: 'application/json' }),
      ]
      expect(answers.map(({ status }) => status)).toEqual([200, 429, 429])
      for (const { headers } of answers) expect(JSON.stringify(headers)).not.toContain('secret')
      for (const { text } of answers.slice(1)) expect(text).not.toContain('secret')
    })

    whole.test('escape the name of a limit', async () => {
      const answer = await get(serve(limited({ policy: { quota: 2, window: '1m', name: 'per "user" \\ plan' } })))
      expect(answer.headers.ratelimit).toBe('"per \\"user\\" \\\\ plan";r=1;t=60')
    })
  })

  describe('a refusal', () => {
    if (!adapter.refusesWithObjects)
      test('is one line of text for a client that does not ask for JSON', async () => {
        const app = serve(limited({ policy: '1/1m' }))
        await get(app)
        for (const accept of ['*/*', 'text/html,application/xhtml+xml,*/*;q=0.8']) {
          const { headers, text } = await get(app, { accept })
          expect(headers['content-type']).toBe('text/plain; charset=utf-8')
          expect(text).toBe('Too many requests: try again in 60 seconds.\n')
        }
      })

    test('is problem details for a client that asks for JSON', async () => {
      const app = serve(limited({ policy: '1/1m;100/1h' }))
      await get(app)
      const { status, headers, body } = await get(app, { accept: 'text/html, application/json;q=0.9' })
      const [type] = headers['content-type'].split(';')
      // NestJS 11 on Express puts its own type in the place of the one that is set.
      if (adapter.refusesWithObjects)
        expect([status, type]).toEqual([429, expect.stringMatching(/^application\/(problem\+)?json$/)])
      else expect([status, type]).toEqual([429, 'application/problem+json'])
      expect(body).toMatchObject({
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        status: 429,
        'violated-policies': ['1-per-1m'],
        retryAfterMs: 60_000,
      })
    })

    test('has no body for HEAD', async () => {
      const app = serve(limited({ policy: '1/1m' }))
      await get(app)
      const { status, headers, text } = await request(app).head('/')
      expect([status, headers['retry-after'], text]).toEqual([429, '60', undefined])
    })

    test('may have a message and a status of the service', async () => {
      const text = serve(limited({ policy: '0/1m', message: 'Slow down', statusCode: 420 }))
      const worded = await get(text)
      expect([worded.status, world.said(worded)]).toEqual([420, 'Slow down'])
      const object = serve(limited({ policy: '0/1m', message: { error: 'slow down' } }))
      expect((await get(object)).body).toEqual({ error: 'slow down' })
      const asked = serve(limited({ policy: '0/1m', message: async (req: unknown) => ({ user: user(req) }) }))
      expect((await get(asked, { 'x-user': 'ann' })).body).toEqual({ user: 'ann' })
      const silent = serve(limited({ policy: '0/1m', message: () => undefined }))
      expect(world.said(await get(silent))).toMatch(/^Too many requests/)
    })
  })

  whole.test('while the store fails, and the policy is closed, nobody is at fault, hence 503', async () => {
    const broken: Store = {
      consume: () => Promise.reject(new Error('down')),
      peek: () => Promise.reject(new Error('down')),
      refund: () => Promise.reject(new Error('down')),
      reset: () => Promise.reject(new Error('down')),
    }

    const app = serve(limited({ policy: '5/1m', store: { ...broken }, onStoreFailure: 'closed' }))
    const { status, headers, body } = await get(app, { accept: 'application/json' })
    expect([status, headers['retry-after'], headers['cache-control']]).toEqual([503, '1', 'no-store'])
    expect(body.type).toBe('https://iana.org/assignments/http-problem-types#temporary-reduced-capacity')
    expect(headers).not.toHaveProperty('ratelimit')
    expect(world.handled).toBe(0)
  })
}

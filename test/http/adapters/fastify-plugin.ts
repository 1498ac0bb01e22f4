import { describe, expect, test } from '@jest/globals'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import request from 'supertest'
import rateLimit, { type ConcurrencyLimitOptions, concurrencyLimit, shed } from '../../../src/http/adapters/fastify.js'
import { parseConcurrencyOptions } from '../../../src/http/concurrency/options.js'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { describeConcurrencyLimit } from '../../support/concurrency-contract.js'
import { warnings } from '../../support/warnings.js'

type Make = (options?: { trustProxy?: boolean; http2?: true }) => FastifyInstance

/** What the plugin does, for a version of Fastify. */
export function describePlugin(name: string, fastify: Make): void {
  const registered = new WeakMap<object, ConcurrencyLimitOptions>()
  const apps = new WeakMap<object, FastifyInstance>()
  describeConcurrencyLimit(name, {
    makesLimitsAnew: true,
    // A plugin checks its options when it is registered.
    concurrencyLimit(options) {
      parseConcurrencyOptions(options)
      const close = async () => apps.get(limit)?.close()
      const limit = { close, [Symbol.asyncDispose]: close }
      registered.set(limit, options as ConcurrencyLimitOptions)
      return limit
    },
    header: (request, name) => (request as FastifyRequest).headers[name] as string | undefined,
    told: reply => [(reply as FastifyReply).statusCode, (reply as FastifyReply).getHeader('retry-after')?.toString()],
    answer: (reply, text) => (reply as FastifyReply).send(text),
    serve(limits, handle, over) {
      const app = fastify(over)
      for (const limit of limits) {
        apps.set(limit, app)
        app.register(concurrencyLimit, registered.get(limit) as ConcurrencyLimitOptions)
      }
      const handler = async (request: FastifyRequest, reply: FastifyReply) =>
        reply.type('text/plain').send(await handle(request.url))
      // Fastify's own HEAD routes do not send the body.
      app.route({ method: ['GET', 'HEAD'], url: '/*', handler })
      const ready = app.ready()
      return (req, res) => void ready.then(() => app.routing(req, res))
    },
  })

  describe(name, () => {
    const warned = warnings()
    const statuses = async (
      app: FastifyInstance,
      url: string,
      count: number,
      method: 'GET' | 'HEAD' | 'POST' = 'GET',
    ) => {
      const all: number[] = []
      for (let i = 0; i < count; i++) all.push((await app.inject({ method, url })).statusCode)
      return all
    }
    const left = (request: FastifyRequest) => `${request.rateLimit?.remaining ?? 'no limit'}`

    test('limits routes declared before and after the plugin, in its context and in contexts within, and what is not found; no others', async () => {
      const app = fastify()
      app.register(
        async outer => {
          outer.get('/before', left)
          outer.register(async inner => void inner.get('/inner-before', left))
          outer.register(rateLimit, { policy: '4/1m' })
          outer.register(async inner => void inner.get('/inner-after', left))
          outer.get('/after', left)
          outer.setNotFoundHandler((_, reply) => void reply.code(404).send('nothing'))
        },
        { prefix: '/limited' },
      )
      app.get('/free', left)
      const answers = []
      for (const path of ['/before', '/inner-before', '/inner-after', '/after', '/nothing', '/before'])
        answers.push((await app.inject(`/limited${path}`)).statusCode)
      expect(answers).toEqual([200, 200, 200, 200, 429, 429])
      expect([(await app.inject('/free')).body, (await app.inject('/nowhere')).statusCode]).toEqual(['no limit', 404])
      await app.close()
    })

    test('limits requests that find no route', async () => {
      const app = fastify()
      await app.register(rateLimit, { policy: '1/1m' })
      expect(await statuses(app, '/nowhere', 2)).toEqual([404, 429])
    })

    test("a route's own options replace the limit of all for it, count apart, and take from the plugin what they do not name", async () => {
      const app = fastify()
      const store = new MemoryStore({ clock: new ManualClock(0) })
      app.get('/early', { config: { rateLimit: { policy: '1/1m' } } }, left)
      await app.register(rateLimit, { policy: '3/1m', message: 'Slow down', store })
      app.get('/late', { config: { rateLimit: { limit: 2, windowMs: 1000 } } }, left)
      app.post('/late', { config: { rateLimit: { policy: '1/1m' } } }, left)
      app.get('/free', { config: { rateLimit: false } }, left)
      app.get('/all', left)
      expect(await statuses(app, '/early', 2)).toEqual([200, 429])
      expect(await statuses(app, '/late', 3)).toEqual([200, 200, 429])
      expect(await statuses(app, '/late', 2, 'POST')).toEqual([200, 429])
      expect(await statuses(app, '/free', 5)).toEqual([200, 200, 200, 200, 200])
      expect(await statuses(app, '/all', 4)).toEqual([200, 200, 200, 429])
      const refused = await app.inject('/late')
      expect([refused.body, refused.headers['ratelimit-policy']]).toEqual(['Slow down', '"2-per-1s";q=2;w=1'])
    })

    test('a route keeps what was spent when its quota is changed, and the limit of all without a name does not', async () => {
      const store = new MemoryStore()
      const answers: string[] = []
      for (const policy of ['5/15m', '10/15m']) {
        const app = fastify()
        app.register(rateLimit, { policy, store })
        app.get('/own', { config: { rateLimit: { policy } } }, left)
        app.get('/other', left)
        for (const url of ['/own', '/other']) answers.push((await app.inject(url)).body)
        await app.close()
      }
      expect(answers).toEqual(['4', '4', '8', '9'])
    })

    test("a route's own policy below a plugin with a limiter counts in that limiter's store, under both names, with its observer", async () => {
      const store = new MemoryStore({ clock: new ManualClock(0) })
      const told: string[] = []
      const observer = { decided: (_: unknown, limiter: string) => told.push(limiter) }
      const services = ['api', undefined].flatMap(name =>
        [1, 2].map(() => {
          const app = fastify()
          app.register(rateLimit, { limiter: new RateLimiter({ policy: '100/1m', name, store, observer }) })
          app.register(async app => void app.get('/login', { config: { rateLimit: { policy: '1/15m' } } }, left))
          return app
        }),
      )
      const answers: number[] = []
      for (const app of services) answers.push((await app.inject('/login')).statusCode)
      expect(answers).toEqual([200, 429, 200, 429])
      expect(told).toEqual(['api GET /login', 'api GET /login', 'GET /login', 'GET /login'])
    })

    test('app.rateLimit gives a hook for a route, beside the limit of all, and app.rateLimiter is the limiter', async () => {
      const app = fastify()
      expect('rateLimit' in app).toBe(false)
      await app.register(rateLimit, { policy: '5/1m', key: () => 'k', message: 'Slow down' })
      const hook = app.rateLimit({ policy: '1/1m' })
      app.get('/a', { onRequest: hook }, left)
      app.get('/b', { preHandler: hook }, left)
      app.get('/c', left)
      expect([
        ...(await statuses(app, '/a', 2)),
        ...(await statuses(app, '/b', 1)),
        ...(await statuses(app, '/c', 2)),
      ]).toEqual([200, 429, 200, 200, 200])
      expect((await app.inject('/a')).body).toBe('Slow down')
      expect((await app.rateLimiter?.peek('k', 0))?.remaining).toBe(0)
      await app.rateLimiter?.reset('k')
      expect(await statuses(app, '/c', 1)).toEqual([200])
      expect(() => app.rateLimit({ policy: '1/min' })).toThrow(PolicyError)
    })

    test('app.rateLimiter is that of the nearest plugin; undefined if that limits only routes of their own', async () => {
      const app = fastify()
      await app.register(rateLimit, { policy: '5/1m' })
      const quotas: Array<number | undefined> = []
      for (const options of [{ global: false }, { policy: '7/1m', name: 'child' }, { policy: () => '9/1m' }]) {
        await app.register(async child => {
          await child.register(rateLimit, options)
          quotas.push(child.rateLimiter?.policy[0].quota)
        })
      }
      expect([app.rateLimiter?.policy[0].quota, ...quotas]).toEqual([5, undefined, 7, undefined])
    })

    test('HEAD counts with GET, and routes that set one name count together', async () => {
      const app = fastify()
      await app.register(rateLimit, { global: false })
      app.get('/a', { config: { rateLimit: { policy: '2/1m' } } }, left)
      app.get('/b', { config: { rateLimit: { policy: '2/1m', name: 'both' } } }, left)
      app.get('/c', { config: { rateLimit: { policy: '2/1m', name: 'both' } } }, left)
      app.get('/all', left)
      expect([...(await statuses(app, '/a', 1)), ...(await statuses(app, '/a', 2, 'HEAD'))]).toEqual([200, 200, 429])
      expect([...(await statuses(app, '/b', 1)), ...(await statuses(app, '/c', 2))]).toEqual([200, 200, 429])
      expect((await app.inject('/all')).body).toBe('no limit')
    })

    test('a route takes from the nearest plugin what it does not name, and the limits of the others still hold', async () => {
      const app = fastify()
      const store = new MemoryStore({ clock: new ManualClock(0) })
      const user = (request: FastifyRequest) => request.headers['x-user'] as string | undefined
      const ask = async (url: string, name: string) =>
        (await app.inject({ url, headers: { 'x-user': name } })).statusCode
      await app.register(rateLimit, { policy: '100/1m', name: 'ip', store })
      await app.register(rateLimit, { policy: '3/1m', name: 'user', key: user, store })
      app.get('/own', { config: { rateLimit: { policy: '50/1m' } } }, left)
      await app.register(async child => {
        child.get('/early', { config: { rateLimit: { policy: '1/1m' } } }, left)
        child.register(rateLimit, { policy: '20/1m', name: 'child', key: user, store })
        child.register(async inner => void inner.get('/inner', { config: { rateLimit: { policy: '1/1m' } } }, left))
        child.get('/none', { config: { rateLimit: false } }, left)
      })
      const asked = []
      for (let i = 0; i < 4; i++) asked.push(await ask('/own', 'ann'))
      expect(asked).toEqual([200, 200, 200, 429])
      for (const [path, name, other] of [
        ['/early', 'bob', 'cid'],
        ['/inner', 'dan', 'eve'],
      ]) {
        expect([await ask(path, name), await ask(path, name), await ask(path, other)]).toEqual([200, 429, 200])
      }
      expect([await ask('/none', 'ann'), await ask('/none', 'ann')]).toEqual([200, 200])
      await app.close()
    })

    test('a plugin without a limit for all gives a route its options, and lets the others hold', async () => {
      const app = fastify()
      await app.register(rateLimit, { policy: '2/1m' })
      await app.register(async child => {
        await child.register(rateLimit, { global: false, message: 'Enough' })
        child.get('/own', { config: { rateLimit: { policy: '1/1m' } } }, left)
        child.get('/all', left)
      })
      await app.inject('/own')
      expect((await app.inject('/own')).body).toBe('Enough')
      expect([(await app.inject('/all')).statusCode, (await app.inject('/all')).statusCode]).toEqual([429, 429])
      await app.close()
    })

    test('two plugins both limit a request, and the first one applies the limit of a route', async () => {
      const app = fastify()
      await app.register(rateLimit, { policy: '9/1h', name: 'first' })
      await app.register(rateLimit, { policy: '2/1m', name: 'second' })
      app.get('/', left)
      app.get('/own', { config: { rateLimit: { policy: '5/1m' } } }, left)
      const { headers, body } = await app.inject('/')
      expect([headers.ratelimit, body]).toEqual(['"9-per-1h";r=8;t=3600, "2-per-1m";r=1;t=60', '1'])
      const own = await app.inject('/own')
      expect([own.headers.ratelimit, own.body]).toEqual(['"5-per-1m";r=4;t=60, "2-per-1m";r=0;t=60', '0'])
    })

    test.each(['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const)('decides at %s', async hook => {
      const order: string[] = []
      const app = fastify()
      for (const name of ['onRequest', 'preValidation', 'preHandler'] as const)
        app.addHook(name, async () => void order.push(name))
      app.addHook('preParsing', async (_request, _reply, payload) => {
        order.push('preParsing')
        return payload
      })
      await app.register(rateLimit, {
        hook,
        policy: '1/1m',
        key: ({ body }) => {
          order.push('decided')
          return (body as { user?: string } | undefined)?.user ?? 'nobody'
        },
      })
      app.post('/', async () => 'done')
      const answers = []
      for (const user of ['ann', 'bob'])
        answers.push((await app.inject({ method: 'POST', url: '/', payload: { user } })).statusCode)
      expect(order[order.indexOf('decided') - 1]).toBe(hook)
      expect(answers).toEqual(hook === 'onRequest' || hook === 'preParsing' ? [200, 429] : [200, 200])
    })

    test('settles injected requests, and a handler may return the reply that it has sent', async () => {
      const settled: number[] = []
      const app = fastify()
      await app.register(rateLimit, {
        store: new MemoryStore({ clock: new ManualClock(0) }),
        policy: '1/1m',
        settle: (_, reply) => settled.push(reply.statusCode),
        handler: (_, reply, { retryAfterMs }) => reply.send(`wait ${retryAfterMs}`),
      })
      app.get('/', async (_, reply) => reply.code(201).send('done'))
      const answers = [await app.inject('/'), await app.inject('/')]
      expect(answers.map(({ statusCode, body }) => [statusCode, body])).toEqual([
        [201, 'done'],
        [429, 'wait 60000'],
      ])
      expect(settled).toEqual([201])
    })

    test('register rejects for wrong options', async () => {
      const registered = async () => void (await fastify().register(rateLimit, { hook: 'onSend' } as object))
      await expect(registered()).rejects.toThrow(PolicyError)
    })

    test('wrong options of a route throw when it is declared after the plugin; if it was declared before, its first request fails', async () => {
      const app = fastify()
      app.get('/early', { config: { rateLimit: { policy: 'often' } } }, left)
      await app.register(rateLimit, {})
      const wrong = { config: { rateLimit: { policy: 'often' } } }
      expect(() => app.get('/late', wrong, left)).toThrow(PolicyError)
      expect(() => app.get('/true', { config: { rateLimit: true as never } }, left)).toThrow(
        'options true of GET /true: expected an object',
      )
      expect((await app.inject('/early')).json()).toMatchObject({ statusCode: 500, code: 'SPILLWAY_POLICY' })
    })

    test('trustProxy: true, with which clients choose their address, causes a warning', async () => {
      const app = fastify({ trustProxy: true })
      await app.register(rateLimit, { policy: '9/1m' })
      await app.inject({ url: '/', headers: { 'x-forwarded-for': '203.0.113.7' } })
      expect(warned.texts).toEqual([expect.stringContaining('Fastify takes the leftmost address of X-Forwarded-For')])
    })

    test('shed refuses the least important requests first', async () => {
      const app = fastify()
      await app.register(shed, {
        load: { level: 1.5, reason: 'custom' },
        priority: request => Number(request.headers.priority),
      })
      app.get('/', async () => 'done')
      await app.ready()
      const answers = []
      for (const priority of ['0', '2', '3'])
        answers.push((await request(app.server).get('/').set({ priority })).status)
      expect(answers).toEqual([200, 200, 503])
      await app.close()
    })
  })
}

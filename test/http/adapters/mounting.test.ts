import { createServer, type RequestListener } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { describe, expect, test } from '@jest/globals'
import express from 'express'
import makeFastify from 'fastify'
import { H3, serve } from 'h3'
import { Hono } from 'hono'
import Koa from 'koa'
import request from 'supertest'
import * as ofExpress from '../../../src/http/adapters/express.js'
import * as ofFastify from '../../../src/http/adapters/fastify.js'
import * as ofFetch from '../../../src/http/adapters/fetch.js'
import * as ofH3 from '../../../src/http/adapters/h3.js'
import * as ofHono from '../../../src/http/adapters/hono.js'
import * as ofKoa from '../../../src/http/adapters/koa.js'
import * as ofNest from '../../../src/http/adapters/nest.js'
import * as ofNode from '../../../src/http/adapters/node.js'

/** Mounts something as middleware in a real framework, asks once, and tells the status and the message of the error. */
type Mount = (middleware: never) => Promise<[status: number, message: string]>

async function asked(listener: RequestListener): Promise<[number, string]> {
  const server = createServer(listener)
  const { status, text } = await request(server).get('/').timeout(3000)
  return [status, text]
}

const mounts: Record<string, Mount> = {
  'Express 5'(middleware) {
    const app = express()
    app.use(middleware)
    app.get('/', (_, res) => void res.send('passed'))
    app.use((error: Error, _req: express.Request, res: express.Response, _next: express.NextFunction) => {
      res.status(500).send(error.message)
    })
    return asked(app)
  },
  Koa(middleware) {
    const app = new Koa()
    app.use(async (ctx, next) => {
      try {
        await next()
      } catch (error) {
        ctx.status = 500
        ctx.body = (error as Error).message
      }
    })
    app.use(middleware)
    app.use(ctx => {
      ctx.body = 'passed'
    })
    return asked(app.callback())
  },
  Hono(middleware) {
    const app = new Hono()
    app.onError((error, c) => c.text(error.message, 500))
    app.use(middleware)
    app.get('/', c => c.text('passed'))
    return asked(getRequestListener(app.fetch))
  },
  h3(middleware) {
    const app = new H3({ silent: true, onError: error => new Response(error.message, { status: 500 }) })
    app.use(middleware)
    app.get('/', () => 'passed')
    return asked(serve(app, { manual: true, gracefulShutdown: false }).node!.handler as RequestListener)
  },
  async Fastify(plugin) {
    const app = makeFastify()
    app.get('/', async () => 'passed')
    try {
      await app.register(plugin)
      const { statusCode, body } = await app.inject('/')
      return [statusCode, body]
    } catch (error) {
      return [500, (error as Error).message]
    }
  },
  'node:http': middleware =>
    asked((req, res) => {
      const limit = middleware as (...given: unknown[]) => unknown
      // Node calls nobody else: an error that is thrown here ends the process.
      try {
        Promise.resolve(limit(req, res)).then(
          passed => res.end(passed ? 'passed' : ''),
          error => {
            res.statusCode = 500
            res.end(error.message)
          },
        )
      } catch (error) {
        res.statusCode = 500
        res.end((error as Error).message)
      }
    }),
  fetch: async middleware => {
    const limit = middleware as (...given: unknown[]) => unknown
    try {
      const limited = await limit(new Request('http://localhost/'), { address: '203.0.113.1' })
      return [200, (limited as ofFetch.RateLimited).refusal === undefined ? 'passed' : 'refused']
    } catch (error) {
      return [500, (error as Error).message]
    }
  },
}

const load = { level: 0, reason: 'custom' } as const
const priority = () => 0
const policy = '9/1m'
/** The middleware of each adapter, mounted where another one belongs. */
const misplaced: Array<[entry: string, user: string, make: () => unknown, framework: string]> = [
  ['express', 'rateLimit', () => ofExpress.rateLimit({ policy }), 'Koa'],
  ['koa', 'concurrencyLimit', () => ofKoa.concurrencyLimit({ permits: 9 }), 'Express 5'],
  ['hono', 'shed', () => ofHono.shed({ load, priority }), 'Koa'],
  ['hono', 'rateLimit', () => ofHono.rateLimit({ policy }), 'h3'],
  ['h3', 'rateLimit', () => ofH3.rateLimit({ policy }), 'Hono'],
  ['h3', 'concurrencyLimit', () => ofH3.concurrencyLimit({ permits: 9 }), 'Express 5'],
  ['node', 'rateLimit', () => ofNode.rateLimit({ policy }), 'Fastify'],
  ['fetch', 'rateLimit', () => ofFetch.rateLimit({ policy }), 'node:http'],
]

test.each(misplaced)('%s: %s says where it belongs', async (entry, user, make, framework) => {
  expect(await mounts[framework](make() as never)).toEqual([
    500,
    expect.stringMatching(
      `^${user}: this is that of spillway/${entry}, and something else has called it: each framework has its own, like ` +
        `import { ${user} } from 'spillway/${entry === 'express' ? 'koa' : 'express'}'; the others: (?!.*${entry})`,
    ),
  ])
})

describe('a middleware that was not called', () => {
  test.each<[string, string, unknown]>([
    ['Express 5', 'rateLimit', ofExpress.rateLimit],
    ['Koa', 'concurrencyLimit', ofKoa.concurrencyLimit],
    ['Hono', 'shed', ofHono.shed],
    ['h3', 'rateLimit', ofH3.rateLimit],
    ['node:http', 'rateLimit', ofNode.rateLimit],
    ['fetch', 'rateLimit', ofFetch.rateLimit],
  ])('says so in one sentence: %s, %s', async (name, user, middleware) => {
    expect(await mounts[name](middleware as never)).toEqual([
      500,
      expect.stringMatching(
        `^${user}: given a request or a context instead of options: call it first, like ${user}\\(\\{ `,
      ),
    ])
  })

  test('says so as a decorator of Nest', () => {
    class Users {
      list() {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Users.prototype, 'list')
    const bare = ofNest.RateLimit as (...given: unknown[]) => unknown
    for (const given of [[Users], [Users.prototype, 'list', descriptor]]) {
      expect(() => bare(...given)).toThrow("@RateLimit stands without a limit: call it, like @RateLimit('5/1m')")
    }
  })
})

test('a plugin of Fastify that was called, or that is a hook, says how to register it', async () => {
  const message =
    /^(rateLimit|concurrencyLimit|shed): this is a plugin, and was called: register it, like app\.register\(\1, /
  const { rateLimit, concurrencyLimit, shed } = ofFastify as unknown as Record<string, (options: object) => never>
  expect(() => rateLimit({ policy })).toThrow(message)
  expect(() => concurrencyLimit({ permits: 1 })).toThrow(message)
  expect(() => shed({ load, priority })).toThrow(message)
  const app = makeFastify()
  app.addHook('onRequest', rateLimit as never)
  app.get('/', async () => 'passed')
  const { statusCode, body } = await app.inject('/')
  expect([statusCode, JSON.parse(body).message]).toEqual([500, expect.stringMatching(message)])
})

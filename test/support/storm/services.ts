// A process of its own with four services, Express and Koa, in memory and over Redis, that are told what to do by messages. Each lets
// every request through a concurrency limit, a rate limit that charges at once, and one that charges wrong passwords when they are known.
import { createHook } from 'node:async_hooks'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import express, { type NextFunction, type Request, type Response } from 'express'
import { Redis } from 'ioredis'
import Koa, { type Context } from 'koa'
import * as forExpress from '../../../src/adapters/express.js'
import * as forKoa from '../../../src/adapters/koa.js'
import type { ConcurrencyControls } from '../../../src/http/concurrency/concurrency-limit.js'
import type { Limiters } from '../../../src/http/rate-limit/rate-limit.js'
import { MemoryStore } from '../../../src/stores/memory/memory-store.js'
import { RedisStore } from '../../../src/stores/redis/redis-store.js'
import type { Account, Orders } from './orders.js'

export const QUOTA = 1_000_000
const POLICY = `${QUOTA}/1d fixed-window`

/** Timers that are running, also those that keep no process alive. */
const timers = new Set<number>()
createHook({
  init: (id, type) => type === 'Timeout' && void timers.add(id),
  destroy: id => void timers.delete(id),
}).enable()

/** What a request asks for: `/kind/ms/user`. */
const wish = (url = '') => {
  const [, kind, ms, user] = url.split('/')
  return { kind, ms: Number(ms), user }
}

/** Does what a request asks for, whatever the framework; `answer` ends the response as that framework does. */
async function work(url: string, answer: (status: number, body?: string | PassThrough) => void): Promise<void> {
  const { kind, ms } = wish(url)
  if (ms > 0) await sleep(ms)
  switch (kind) {
    case 'wrong':
      return answer(401)
    case 'throw':
      throw new Error('of the handler')
    case 'never':
      return new Promise(() => {})
    case 'large':
      return answer(200, 'x'.repeat(500_000))
    case 'stream': {
      const stream = new PassThrough()
      const feed = setInterval(() => stream.write('x'.repeat(10_000)), 5)
      setTimeout(() => {
        clearInterval(feed)
        stream.end()
      }, 50)
      // Koa destroys the body of a client that has gone.
      stream.on('close', () => clearInterval(feed)).on('error', () => {})
      return answer(200, stream)
    }
    default:
      return answer(200, 'done')
  }
}

class Service {
  readonly handled = new Map<string, number>()
  readonly responses: ServerResponse[] = []
  readonly sockets = new Set<Socket>()
  plain!: Limiters
  settled!: Limiters
  places!: ConcurrencyControls
  port = 0

  async start(framework: 'express' | 'koa', redis: Redis | undefined, orders: Orders): Promise<this> {
    const make = framework === 'express' ? forExpress : forKoa
    // Express is given the request, Koa the context; both have the URL.
    const user = (req: { url?: string }) => wish(req.url).user
    const store = redis === undefined ? new MemoryStore() : new RedisStore(redis, { prefix: framework })
    const common = { policy: POLICY, key: user as never, store, deadline: '5s' as const }
    this.places = make.concurrencyLimit({
      permits: orders.permits,
      key: user as never,
      wait: '40ms',
      lease: '1500ms',
      deadline: '5s',
      abandonAfter: '300ms',
      name: framework,
      ...(redis && { client: redis, prefix: framework }),
    } as never)
    this.plain = make.rateLimit({ ...common, name: 'plain' } as never)
    // A handler that does not end its response is charged after 30 s, for which the short storm does not wait.
    const skip = (req: { url?: string }) => !orders.settlesAll && ['never', 'stream'].includes(wish(req.url).kind)
    const settle = (_: unknown, res: { statusCode?: number; status?: unknown }) =>
      (framework === 'koa' ? res.status : res.statusCode) === 401 ? 1 : 0
    this.settled = make.rateLimit({ ...common, name: 'settled', cost: 0, skip, settle } as never)
    const server = createServer(framework === 'express' ? this.#express() : this.#koa())
    // Node stops reading from a connection whose answers pile up behind a slow one, and then does not notice that its client has gone.
    server.setTimeout(2000)
    server.on('connection', socket => {
      this.sockets.add(socket)
      socket.on('close', () => this.sockets.delete(socket))
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    this.port = (server.address() as AddressInfo).port
    return this
  }

  #handled(req: IncomingMessage, res: ServerResponse): void {
    const { user } = wish(req.url)
    this.handled.set(user, (this.handled.get(user) ?? 0) + 1)
    this.responses.push(res)
  }

  #express(): RequestListener {
    const app = express()
    for (const limit of [this.places, this.plain, this.settled]) app.use(limit as never)
    app.use((req: Request, res: Response, next: NextFunction) => {
      this.#handled(req, res)
      if (req.url.startsWith('/throw/0')) throw new Error('of the handler, at once')
      work(req.url, (status, body = '') => {
        res.status(status)
        if (typeof body === 'string') res.send(body)
        else body.pipe(res)
      }).catch(next)
    })
    app.use((_error: unknown, _req: Request, res: Response, _next: NextFunction) => void res.status(500).end())
    return app
  }

  #koa(): RequestListener {
    const app = new Koa()
    app.silent = true
    for (const limit of [this.places, this.plain, this.settled]) app.use(limit as never)
    app.use(async (ctx: Context) => {
      this.#handled(ctx.req, ctx.res)
      await work(ctx.url, (status, body) => {
        ctx.status = status
        if (body !== undefined) ctx.body = body
      })
    })
    return app.callback()
  }

  /** What users were charged, beside what their handlers did. */
  async accounts(orders: Orders): Promise<Account[]> {
    const wrong = new Map<string, number>()
    for (const { req, writableEnded, statusCode } of this.responses) {
      const { kind, user } = wish(req.url)
      if (!orders.settlesAll && ['never', 'stream'].includes(kind)) continue
      if (!writableEnded || statusCode === 401) wrong.set(user, (wrong.get(user) ?? 0) + 1)
    }
    return Promise.all(
      orders.users.map(async user => ({
        user,
        handled: this.handled.get(user) ?? 0,
        charged: QUOTA - (await this.plain.limiter.peek(user, 0)).remaining,
        wrong: wrong.get(user) ?? 0,
        chargedWrong: QUOTA - (await this.settled.limiter.peek(user, 0)).remaining,
      })),
    )
  }
}

process.once('message', async (orders: Orders) => {
  const redis = [new Redis(orders.redisPort), new Redis(orders.redisPort)]
  const services = await Promise.all([
    new Service().start('express', undefined, orders),
    new Service().start('koa', undefined, orders),
    new Service().start('express', redis[0], orders),
    new Service().start('koa', redis[1], orders),
  ])
  process.on('message', async (question: string) => {
    if (question === 'connections') process.send?.(services.reduce((sum, { sockets }) => sum + sockets.size, 0))
    if (question === 'accounts') process.send?.(await Promise.all(services.map(service => service.accounts(orders))))
    if (question === 'listeners') {
      process.send?.(services.flatMap(({ responses }) => responses.filter(res => res.listenerCount('pipe') > 0)).length)
    }
    if (question === 'timers') process.send?.(timers.size)
    if (question === 'forget') {
      for (const { responses } of services) responses.length = 0
      process.send?.(true)
    }
    if (question === 'heap') {
      for (let i = 0; i < 5; i++) {
        globalThis.gc?.()
        await sleep(20)
      }
      process.send?.(process.memoryUsage().heapUsed)
    }
    if (question === 'stop') process.exit(0)
  })
  process.send?.(services.map(({ port }) => port))
})

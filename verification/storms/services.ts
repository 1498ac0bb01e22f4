// A process of its own with six services: Express and Koa, in memory and over Redis, Hono, and node:http2. Each lets
// every request through a concurrency limit, a rate limit that charges at once, and one that charges wrong passwords
// when they are known.
import { createHook } from 'node:async_hooks'
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import {
  createServer as createServer2,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import { PassThrough, pipeline, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import express, { type NextFunction, type Request, type Response } from 'express'
import { Hono, type Context as HonoContext } from 'hono'
import { Redis } from 'ioredis'
import Koa, { type Context } from 'koa'
import * as forExpress from '../../src/http/adapters/express.js'
import * as forHono from '../../src/http/adapters/hono.js'
import * as forKoa from '../../src/http/adapters/koa.js'
import * as forNode from '../../src/http/adapters/node.js'
import type { ConcurrencyControls } from '../../src/http/concurrency/concurrency-limit.js'
import type { LimiterAccess } from '../../src/http/rate-limit/rate-limit.js'
import { RedisStore } from '../../src/index.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { answering } from '../../test/support/answering.js'

/** What the process with the services is started with. */
export interface Orders {
  readonly redisPort: number
  readonly permits: number
  readonly users: readonly string[]
  /** True if also handlers that never end their response are settled: 30 s after their client has gone. */
  readonly settlesAll: boolean
}

/** What one user was charged, beside what its handlers did. */
export interface Account {
  readonly user: string
  readonly handled: number
  readonly charged: number
  /** Handlers that answered 401, or never. */
  readonly wrong: number
  readonly chargedWrong: number
}

const QUOTA = 1_000_000
/** What ends late, or never: it is charged 30 s after its client has gone. */
const ENDS_LATE = ['never', 'stream', 'endless']
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

const FRAMEWORKS = { express: forExpress, koa: forKoa, hono: forHono, http2: forNode }

type Answer<Result> = (status: number, body?: string | Readable) => Result

/** Does what a request asks for, whatever the framework; `answer` ends the response as that framework does. */
async function work<Result>(url: string, answer: Answer<Result>): Promise<Result> {
  const { kind, ms } = wish(url)
  if (ms > 0) await sleep(ms)
  switch (kind) {
    case 'wrong':
      return answer(401)
    case 'throw':
      throw new Error('of the handler')
    case 'never':
      return new Promise(() => {})
    case 'endless': {
      const piece = Buffer.alloc(50_000)
      return answer(
        200,
        new Readable({
          read: function () {
            this.push(piece)
          },
        }),
      )
    }
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
  readonly responses: Array<ServerResponse | Http2ServerResponse> = []
  readonly sockets = new Set<Socket>()
  plain!: LimiterAccess
  settled!: LimiterAccess
  places!: ConcurrencyControls
  port = 0
  /**
   * HTTP/2 responses into which a whole stream was piped: they do not tell whether their end was called once their
   * client has gone.
   */
  readonly #piped = new WeakSet<object>()
  readonly #framework: keyof typeof FRAMEWORKS

  constructor(framework: keyof typeof FRAMEWORKS) {
    this.#framework = framework
  }

  async start(redis: Redis | undefined, orders: Orders): Promise<this> {
    const framework = this.#framework
    const make = FRAMEWORKS[framework]
    // Some are given the request, others the context.
    const urlOf = (req: { url?: string; req?: { path?: string } }) => req.url ?? req.req?.path
    const user = (req: { url?: string }) => wish(urlOf(req)).user
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
    const skip = (req: { url?: string }) => !orders.settlesAll && ENDS_LATE.includes(wish(urlOf(req)).kind)
    const settle = (
      context: { status?: unknown; res?: { status?: number } },
      { statusCode }: { statusCode?: number },
    ): number =>
      (framework === 'hono' ? context.res?.status : framework === 'koa' ? context.status : statusCode) === 401 ? 1 : 0
    this.settled = make.rateLimit({ ...common, name: 'settled', cost: 0, skip, settle } as never)
    const server = this.#server()
    // Node stops reading from a connection whose answers pile up behind a slow one, and then does not notice that its
    // client has gone.
    server.setTimeout(2000)
    server.on('connection', (socket: Socket) => {
      // Node leaves some HTTP/2 connections open whose session was closed and whose client has gone; no visitor stays
      // so long.
      if (framework === 'http2') socket.setTimeout(3000, () => socket.destroy())
      this.sockets.add(socket)
      socket.on('close', () => this.sockets.delete(socket))
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    this.port = (server.address() as AddressInfo).port
    return this
  }

  #server(): HttpServer | Http2Server {
    switch (this.#framework) {
      case 'express':
        return createServer(this.#express())
      case 'koa':
        return createServer(this.#koa())
      case 'hono':
        return createServer(this.#hono())
      default:
        return createServer2((req, res) => void this.#node(req, res))
    }
  }

  #handled(req: IncomingMessage | Http2ServerRequest, res: ServerResponse | Http2ServerResponse): void {
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
        else pipeline(body, res, () => {})
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

  #hono(): RequestListener {
    const app = new Hono<{ Bindings: HttpBindings }>()
    app.onError((_, c) => c.text('failed', 500))
    for (const limit of [this.places, this.plain, this.settled]) app.use(limit as never)
    app.get('*', (c: HonoContext) => {
      this.#handled(c.env.incoming, c.env.outgoing)
      return work(c.req.path, (status, body = '') =>
        c.body(typeof body === 'string' ? body : (Readable.toWeb(body) as ReadableStream), status as 200),
      )
    })
    return getRequestListener(app.fetch)
  }

  async #node(req: Http2ServerRequest, res: Http2ServerResponse): Promise<void> {
    for (const limit of [this.places, this.plain, this.settled]) {
      if (!(await (limit as unknown as forNode.RateLimit)(req, res))) return
    }
    this.#handled(req, res)
    await work(req.url, (status, body = '') => {
      res.statusCode = status
      if (typeof body === 'string') res.end(body)
      else body.on('end', () => this.#piped.add(res)).pipe(res)
    }).catch(() => {
      res.statusCode = 500
      res.end()
    })
  }

  /** True if a request is charged for how it ended: by its status, or because its handler never ended it. */
  #isWrong(response: ServerResponse | Http2ServerResponse): boolean {
    const { req, writableEnded, statusCode } = response
    const { kind } = wish(req.url)
    // A response of Hono ends with its client as soon as the handler has returned it.
    if (this.#framework === 'hono') return kind === 'wrong' || kind === 'never'
    if (this.#framework === 'http2') {
      if (kind !== 'stream' && kind !== 'endless') return kind === 'wrong' || kind === 'never'
      // A response to HEAD has ended with its header, whatever is written to it.
      return !this.#piped.has(response) && !(req.method === 'HEAD' && response.headersSent)
    }
    return !writableEnded || statusCode === 401
  }

  /** What users were charged, beside what their handlers did. */
  async accounts(orders: Orders): Promise<Account[]> {
    const wrong = new Map<string, number>()
    for (const response of this.responses) {
      const { kind, user } = wish(response.req.url)
      if (!orders.settlesAll && ENDS_LATE.includes(kind)) continue
      if (this.#isWrong(response)) wrong.set(user, (wrong.get(user) ?? 0) + 1)
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

const orders = JSON.parse(process.argv[2]) as Orders
const redis = [new Redis(orders.redisPort), new Redis(orders.redisPort)]
const services = await Promise.all([
  new Service('express').start(undefined, orders),
  new Service('koa').start(undefined, orders),
  new Service('express').start(redis[0], orders),
  new Service('koa').start(redis[1], orders),
  new Service('hono').start(undefined, orders),
  new Service('http2').start(undefined, orders),
])

const ANSWERS = {
  ports: () => services.map(({ port }) => port),
  connections: () => services.reduce((sum, { sockets }) => sum + sockets.size, 0),
  accounts: () => Promise.all(services.map(service => service.accounts(orders))),
  listeners: () => services.flatMap(({ responses }) => responses.filter(res => res.listenerCount('pipe') > 0)).length,
  timers: () => timers.size,
  forget: () => {
    for (const { responses } of services) responses.length = 0
    return true
  },
  heap: async () => {
    for (let i = 0; i < 5; i++) {
      globalThis.gc?.()
      await sleep(20)
    }
    return process.memoryUsage().heapUsed
  },
}
answering((question: keyof typeof ANSWERS): unknown => ANSWERS[question]())

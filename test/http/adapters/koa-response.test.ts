import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, test } from '@jest/globals'
import Koa3, { type Context, type Next } from 'koa'
import { rateLimit } from '../../../src/http/adapters/koa.js'
import { eventually } from '../../support/eventually.js'
import { older } from '../../support/older.js'
import { rawClient } from '../../support/raw-client.js'

const closers: Array<() => void> = []
afterEach(() => {
  for (const close of closers.splice(0).reverse()) close()
})

describe.each<[string, typeof Koa3]>([
  ...older('koa2', (Koa2: typeof Koa3): [string, typeof Koa3] => ['Koa 2', Koa2]),
  ['Koa 3', Koa3],
])('%s: the status of a request whose client has gone', (_name, Koa) => {
  type Middleware = (ctx: Context, next: Next) => unknown

  /** What `settle` is told, if the client leaves while the handler is at work. */
  async function told(handler: Middleware, before: Middleware = (_, next) => next()) {
    const ends: unknown[] = []
    let noticed = false
    let atWork = false
    let finish = () => {}
    const app = new Koa()
    app.silent = true
    app.use(before as Koa3.Middleware)
    app.use(
      rateLimit({
        policy: '5/15m',
        cost: 0,
        settle: (ctx, end) => {
          ends.push([ctx.status, end])
          return ctx.status === 401 ? 1 : 0
        },
      }),
    )
    app.use(async (ctx, next) => {
      atWork = true
      await new Promise<void>(resolve => {
        finish = resolve
      })
      await handler(ctx as Context, next)
    })
    const server = createServer(app.callback())
    server.on('connection', socket =>
      socket.on('close', () => {
        noticed = true
      }),
    )
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    closers.push(() => server.close())
    const client = await rawClient((server.address() as AddressInfo).port)
    client.send('/')
    await eventually('at work', async () => atWork)
    client.leave()
    await eventually('gone', async () => noticed)
    expect(ends).toEqual([])
    finish()
    await eventually('settled', async () => ends.length > 0)
    return ends
  }

  const later = () => new Promise(resolve => setTimeout(resolve, 20))
  const catching: Middleware = async (ctx, next) => {
    try {
      await next()
    } catch {
      // In a later turn than the end of the handler.
      await later()
      ctx.status = 401
    }
  }

  test.each<[string, number, Middleware, Middleware?]>([
    [
      'is the one that the handler has set',
      401,
      ctx => {
        ctx.status = 401
      },
    ],
    ['is that of the error that the handler has thrown', 401, ctx => ctx.throw(401)],
    [
      'is the one that an error handler around the limiter sets for the error, however long that takes',
      401,
      () => {
        throw new Error('wrong password')
      },
      catching,
    ],
    [
      'is known when a handler that bypasses Koa has ended the response by itself',
      401,
      ctx => {
        ctx.respond = false
        // In a later turn than the end of the handler.
        void later().then(() => {
          ctx.res.statusCode = 401
          ctx.res.end()
        })
      },
    ],
    [
      'is not that of a connection error during the handler',
      401,
      async ctx => {
        // Of two errors of one connection, only the first is kept on it.
        ctx.onerror(new Error('write EPIPE'))
        await later()
        ctx.status = 401
        ctx.body = 'wrong'
      },
    ],
    [
      'does not prevent a body that is a stream',
      200,
      ctx => {
        ctx.body = new PassThrough()
      },
    ],
  ])('%s', async (...row) => {
    const [, status, handler, before] = row
    expect(await told(handler, before)).toEqual([[status, { completed: false, ended: true }]])
  })
})

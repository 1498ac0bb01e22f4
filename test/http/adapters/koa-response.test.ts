import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import Koa3, { type Context, type Next } from 'koa'
import { rateLimit } from '../../../src/http/adapters/koa.js'
import { eventually } from '../../support/eventually.js'
import { older } from '../../support/older.js'
import { rawClient } from '../../support/raw-client.js'

const closers: Array<() => void> = []
afterEach(() => {
  jest.useRealTimers()
  for (const close of closers.splice(0).reverse()) close()
})

describe.each<[string, typeof Koa3]>([
  ...older('koa2', (Koa2: typeof Koa3): [string, typeof Koa3] => ['Koa 2', Koa2]),
  ['Koa 3', Koa3],
])('%s: the status of a request whose client has gone', (_name, Koa) => {
  type Middleware = (ctx: Context, next: Next) => unknown

  /** What `settle` is told, if the client leaves while the handler is at work. */
  async function told(handler: Middleware, { before = (_, next) => next() }: { before?: Middleware } = {}) {
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
        settle: (ctx, _, end) => {
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
  const aborted = { completed: false, ended: true }

  test('is the one that the handler has set', async () => {
    const ends = await told(ctx => {
      ctx.status = 401
    })
    expect(ends).toEqual([[401, aborted]])
  })

  test('is that of the error that the handler has thrown', async () => {
    expect(await told(ctx => ctx.throw(401))).toEqual([[401, aborted]])
    expect(
      await told(() => {
        throw new Error('boom')
      }),
    ).toEqual([[500, aborted]])
  })

  test('is the one that an error handler around the limiter sets for the error, however long that takes', async () => {
    const before: Middleware = async (ctx, next) => {
      try {
        await next()
      } catch {
        // In a later turn than the end of the handler.
        await new Promise(resolve => setTimeout(resolve, 20))
        ctx.status = 401
      }
    }
    const handler = () => {
      throw new Error('wrong password')
    }
    expect(await told(handler, { before })).toEqual([[401, aborted]])
  })

  test('is known when a handler that bypasses Koa has ended the response by itself', async () => {
    const ends = await told(ctx => {
      ctx.respond = false
      // In a later turn than the end of the handler.
      setTimeout(() => {
        ctx.res.statusCode = 401
        ctx.res.end()
      }, 20)
    })
    expect(ends).toEqual([[401, aborted]])
  })

  test('is not that of a connection error during the handler', async () => {
    const ends = await told(async ctx => {
      // Of two errors of one connection, only the first is kept on it.
      ctx.onerror(new Error('write EPIPE'))
      await new Promise(resolve => setTimeout(resolve, 20))
      ctx.status = 401
      ctx.body = 'wrong'
    })
    expect(ends).toEqual([[401, aborted]])
  })

  test('of a stream that is cut off is known 30 s later, because the handler has not ended the response', async () => {
    const told: unknown[] = []
    const app = new Koa()
    app.silent = true
    app.use(
      rateLimit({
        policy: '5/15m',
        cost: 0,
        settle: (_ctx, _, end) => {
          told.push(end)
          return 0
        },
      }),
    )
    const bodies: PassThrough[] = []
    app.use(ctx => {
      const body = new PassThrough()
      body.write('begun')
      bodies.push(body)
      ctx.body = body
    })
    const server = createServer(app.callback())
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    closers.push(() => server.close())
    const client = await rawClient((server.address() as AddressInfo).port)
    client.send('/')
    await eventually('it streams', async () => client.received.includes('begun'))
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'Date', 'performance'] })
    client.leave()
    while (!bodies[0].destroyed) await new Promise(resolve => setImmediate(resolve))
    jest.advanceTimersByTime(29_999)
    expect(told).toEqual([])
    jest.advanceTimersByTime(1)
    jest.useRealTimers()
    expect(told).toEqual([{ completed: false, ended: false }])
  })

  test('does not prevent a body that is a stream', async () => {
    const ends = await told(ctx => {
      ctx.body = new PassThrough()
    })
    expect(ends).toEqual([[200, aborted]])
  })
})

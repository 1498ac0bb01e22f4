import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { type Handler, Hono, type MiddlewareHandler } from 'hono'
import { timeout } from 'hono/timeout'
import { concurrencyLimit, rateLimit } from '../../../src/http/adapters/hono.js'

const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

const closers: Array<() => void> = []
afterEach(() => {
  for (const close of closers.splice(0).reverse()) close()
  jest.restoreAllMocks()
  jest.useRealTimers()
})

/** Asks an application on a runtime of which the limiter knows nothing; the whole body is read. */
async function onAnyRuntime(app: Hono): Promise<() => Promise<number>> {
  return async () => {
    try {
      const response = await app.request('/')
      await response.text()
      return response.status
    } catch {
      // The runtime answers 500 if the application rejects.
      return 500
    }
  }
}

async function onNode(app: Hono): Promise<() => Promise<number>> {
  const server = createServer(getRequestListener(app.fetch)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return async () => {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    await response.text()
    return response.status
  }
}

const throwing =
  (thrown: unknown): Handler =>
  () => {
    throw thrown
  }
const sorry: MiddlewareHandler = async (c, next) => {
  await next()
  if (c.res.status === 500) c.res = new Response('sorry', { status: 503 })
}
const failing: MiddlewareHandler = async (_, next) => {
  await next()
  throw new Error('outside')
}
const answering: MiddlewareHandler = async (c, next) => {
  try {
    await next()
  } catch {
    return c.text('caught', 401)
  }
}

interface Way {
  outside?: MiddlewareHandler
  handler: Handler
  rethrows?: true
  /** The status that the client receives. */
  sent: number
  /** What is settled where no runtime tells what was sent, and what becomes of a response that was thrown away. */
  elsewhere?: [status: number, ended: boolean]
}

const late: Handler = async c => {
  await sleep(60)
  return c.text('late')
}
const WAYS: Array<[string, Way]> = [
  ['throws an error', { handler: throwing(new Error('inside')), sent: 500 }],
  ['throws a text', { handler: throwing('a text'), sent: 500 }],
  ['throws an error that onError throws again', { handler: throwing(new Error('inside')), rethrows: true, sent: 500 }],
  ['takes longer than a time limit outside', { outside: timeout(20), handler: late, sent: 504 }],
  [
    'returns a response that is replaced outside',
    { outside: sorry, handler: c => c.text('failed', 500), sent: 503, elsewhere: [503, false] },
  ],
  [
    'returns a response before a middleware outside fails',
    { outside: failing, handler: c => c.text('done'), sent: 500, elsewhere: [500, false] },
  ],
  [
    'throws what a middleware outside answers',
    { outside: answering, handler: throwing('a text'), sent: 401, elsewhere: [500, true] },
  ],
]

describe.each([
  ['on Node', onNode],
  ['on any runtime', onAnyRuntime],
])('Hono %s: a handler that', (where, serve) => {
  const app = (limit: MiddlewareHandler, { outside, handler, rethrows }: Way) => {
    jest.spyOn(console, 'error').mockImplementation(() => {})
    const app = new Hono()
    app.onError((error, c) => {
      if (rethrows) throw error
      return c.text('failed', (error as { status?: 500 }).status ?? 500)
    })
    if (outside) app.use(outside)
    app.use(limit)
    app.get('/', handler)
    return app
  }

  test.each(WAYS)('%s gives its place back', async (_, way) => {
    const ask = await serve(app(concurrencyLimit({ permits: 1, abandonAfter: '50ms' }), way))
    for (let i = 0; i < 3; i++) {
      expect(await ask()).toBe(way.sent)
      await sleep(150)
    }
  })

  test.each(WAYS)('%s is settled once, with the status that was sent if that is known', async (_, way) => {
    jest.useFakeTimers({ advanceTimers: true, doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'Date'] })
    const ends: unknown[] = []
    const settle = (c: { res: Response }, { ended }: { ended: boolean }) => {
      ends.push([c.res.status, ended])
      return 1
    }
    const ask = await serve(app(rateLimit({ policy: '9/1m', key: () => 'k', cost: 0, settle }), way))
    expect(await ask()).toBe(way.sent)
    jest.advanceTimersByTime(100)
    await new Promise(resolve => setImmediate(resolve))
    jest.advanceTimersByTime(30_000)
    expect(ends).toEqual([where === 'on Node' || way.elsewhere === undefined ? [way.sent, true] : way.elsewhere])
  })
})

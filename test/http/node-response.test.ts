import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import {
  connect as connect2,
  createServer as createServer2,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test } from '@jest/globals'
import { watchResponse } from '../../src/http/node-response.js'
import type { ResponseEnd } from '../../src/http/response-watch.js'
import { eventually } from '../support/eventually.js'
import { rawClient } from '../support/raw-client.js'
import { warnings } from '../support/warnings.js'

const warned = warnings()

const closers: Array<() => void> = []
afterEach(() => {
  for (const close of closers.splice(0).reverse()) close()
})

/** A request that has arrived, whose response is watched and left to the test. */
interface Exchange<Request = IncomingMessage, Response = ServerResponse> {
  readonly req: Request
  readonly res: Response
  /** What was heard of the end of the response. */
  readonly ends: ResponseEnd[]
}

const COMPLETED = { completed: true, ended: true }
const ABORTED = { completed: false, ended: true }
const EXPIRED = { completed: false, ended: false }

function watched<Request, Response extends ServerResponse | Http2ServerResponse>(
  req: Request,
  res: Response,
  withinMs: number,
): Exchange<Request, Response> {
  const ends: ResponseEnd[] = []
  watchResponse(res).onEnd({ withinMs }, end => ends.push(end))
  return { req, res, ends }
}
const gone = ({ res }: { res: ServerResponse | Http2ServerResponse }) =>
  eventually('the client has gone', async () => watchResponse(res).gone)
const over = ({ ends }: { ends: unknown[] }) => eventually('it is over', async () => ends.length > 0)

interface Asked {
  /** Default true. */
  readonly reads?: boolean
  readonly withinMs?: number
  readonly method?: string
}

/** So many requests over one connection, sent in one write. */
async function asked(count = 1, { reads = true, withinMs = 100_000 }: Asked = {}) {
  const exchanges: Exchange[] = []
  const server: Server = createServer((req, res) => void exchanges.push(watched(req, res, withinMs)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = await rawClient((server.address() as AddressInfo).port, { reads })
  closers.push(() => {
    client.leave()
    server.closeAllConnections()
    server.close()
  })
  const send = async (more: number) => {
    const all = exchanges.length + more
    client.send(...Array.from({ length: more }, () => '/'))
    await eventually(`${all} have arrived`, async () => exchanges.length === all)
  }
  await send(count)
  return { server, client, send, exchanges, ...exchanges[0] }
}

/** One request over HTTP/2. */
async function asked2({ reads = true, withinMs = 100_000, method = 'GET' }: Asked = {}) {
  const server: Http2Server = createServer2().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  client.on('error', () => {})
  closers.push(() => {
    client.destroy()
    server.close()
  })
  const stream = client.request({ ':path': '/', ':method': method })
  stream.on('error', () => {})
  if (reads) stream.resume()
  const [req, res] = (await once(server, 'request')) as [Http2ServerRequest, Http2ServerResponse]
  return { client, stream, ...watched(req, res, withinMs) }
}

type Client = Awaited<ReturnType<typeof asked>>
type Client2 = Awaited<ReturnType<typeof asked2>>

/** What each transport does alike: how a request comes to the test, and what clients and services do to it. */
interface Transport<Way> {
  ask(options?: Asked): Promise<Way>
  readonly leave: Record<string, (way: Way) => unknown>
  readonly breakOff: Record<string, (way: Way) => unknown>
}

const OVER_HTTP1: Transport<Client> = {
  ask: options => asked(1, options),
  leave: { 'closes its connection': ({ client }) => client.leave() },
  breakOff: {
    'the response': ({ res }) => res.destroy(),
    'the response with an error': ({ res }) => res.destroy(new Error('broken')),
    'the response it has begun': ({ res }) => {
      res.write('x')
      res.destroy()
    },
  },
}
const OVER_HTTP2: Transport<Client2> = {
  ask: asked2,
  leave: {
    'ends its stream': ({ stream }) => stream.close(0),
    'cancels its stream': ({ stream }) => stream.close(8),
    'closes its session': ({ client }) => client.destroy(),
  },
  breakOff: {
    'the response': ({ res }) => res.destroy(),
  },
}

describe.each<[string, Transport<Client> | Transport<Client2>]>([
  ['HTTP/1', OVER_HTTP1],
  ['HTTP/2', OVER_HTTP2],
])('over %s', (_name, transport) => {
  // Each test works with one of the two; the tests need not know which.
  const { ask, leave, breakOff } = transport as Transport<Client>

  test('the end is reported in the turn in which the handler ends it, although the client reads nothing', async () => {
    const { res, ends } = await ask({ reads: false })
    res.end(Buffer.alloc(20_000_000))
    expect([ends, res.writableFinished, watchResponse(res).streamed]).toEqual([[COMPLETED], false, false])
  })

  test.each(Object.entries(leave))('a client that %s does not end the response: the handler does', async (_, go) => {
    for (const method of ['GET', 'HEAD']) {
      const exchange = await ask({ method })
      go(exchange)
      await gone(exchange)
      expect(exchange.ends).toEqual([])
      exchange.res.end('x')
      expect(exchange.ends).toEqual([ABORTED])
    }
  })

  test.each(Object.entries(leave))('a client that %s is given the time of the listener', async (_, go) => {
    const exchange = await ask({ withinMs: 10 })
    go(exchange)
    await over(exchange)
    expect(exchange.ends).toEqual([EXPIRED])
  })

  test.each(Object.entries(breakOff))('a service that breaks off %s ends the request in that turn', async (_, does) => {
    const exchange = await ask()
    does(exchange)
    expect(exchange.ends).toEqual([ABORTED])
  })

  test('a generator that fails while it is piped in ends the request', async () => {
    const { res, ends } = await ask()
    const source = async function* () {
      yield 'x'
      throw new Error('broken')
    }
    await expect(pipeline(source, res)).rejects.toThrow('broken')
    expect(ends).toEqual([ABORTED])
  })

  test.each<[string, (res: ServerResponse) => unknown]>([
    ['a stream', res => createReadStream('/dev/zero').pipe(res)],
    ['what a loop writes', res => feed(res)],
    ['a piece that never ends', res => res.write(Buffer.alloc(30_000_000))],
  ])('a client that takes nothing of %s ends the request a given time after it took something', async (_, answer) => {
    const exchange = await ask({ reads: false, withinMs: 100 })
    answer(exchange.res)
    await sleep(50)
    expect(exchange.ends).toEqual([])
    await over(exchange)
    expect([exchange.ends, exchange.res.writableEnded]).toEqual([[EXPIRED], false])
  })

  test('a client that takes nothing does not end a request whose handler writes nothing', async () => {
    const { res, ends } = await ask({ reads: false, withinMs: 20 })
    res.write('x')
    await sleep(80)
    expect(ends).toEqual([])
    res.end()
    expect(ends).toEqual([COMPLETED])
  })

  /** Writes as long as the client takes it. */
  function feed(res: ServerResponse): void {
    while (res.write(Buffer.alloc(50_000)));
    res.once('drain', () => feed(res))
  }
})

describe('the end of a response', () => {
  test('is reported in its turn also if it waits behind another one on its connection', async () => {
    const { exchanges } = await asked(101)
    for (const { res, ends } of exchanges.slice(1)) {
      res.statusCode = 401
      res.end('wrong')
      expect(ends).toEqual([COMPLETED])
    }
    expect(exchanges[0].ends).toEqual([])
  })

  test('is not reported if the call of end fails', async () => {
    const { res, ends } = await asked()
    expect(() => res.end(42 as unknown as string)).toThrow('chunk')
    expect(ends).toEqual([])
    res.end('x')
    expect(ends).toEqual([COMPLETED])
  })

  test('is reported to a listener that comes later, also if nobody had listened before', async () => {
    const { res, exchanges, server, send } = await asked()
    res.end('x')
    server.removeAllListeners('request').on('request', (req, res) => {
      res.end('x')
      exchanges.push(watched(req, res, 0))
    })
    expect(watched(undefined, res, 0).ends).toEqual([COMPLETED])
    await send(1)
    expect(exchanges[1].ends).toEqual([COMPLETED])
  })
})

describe('a client that goes', () => {
  test('is noticed for all responses that wait on its connection', async () => {
    const { exchanges, client } = await asked(3)
    const left = exchanges.map(({ res }) => watched(undefined, res, 0))
    client.leave()
    for (const each of left) await over(each)
    for (const { res, ends } of exchanges) {
      res.end('x')
      expect(ends).toEqual([ABORTED])
    }
  })

  test('by closing its half of the connection has gone, since Node answers it no more', async () => {
    const { exchanges, client } = await asked(2)
    client.socket.end()
    for (const exchange of exchanges) await gone(exchange)
  })

  test('by closing its half is still there where the server allows that', async () => {
    const { server, client, send, exchanges } = await asked(0)
    Object.assign(server, { httpAllowHalfOpen: true })
    await send(1)
    const [{ req, res, ends }] = exchanges
    client.socket.end()
    await once(req.socket, 'end')
    expect(watchResponse(res).gone).toBe(false)
    res.end('still')
    expect(ends).toEqual([COMPLETED])
    await eventually('it is answered', async () => client.received.endsWith('still'))
  })
})

describe('what has not ended the work of the handler', () => {
  test.each<[string, (way: Client) => unknown]>([
    ['that the service closes all connections', ({ server }) => server.closeAllConnections()],
    ['that the service destroys the connection', ({ req }) => req.socket.destroy()],
    ['the end of a time limit to which nobody listens: Node destroys', ({ req }) => req.socket.setTimeout(1)],
    [
      'what is no HTTP',
      ({ server, client }) => {
        server.on('clientError', (_error, socket) => socket.destroy())
        client.socket.write('garbage\r\n\r\n')
      },
    ],
    [
      'a CONNECT',
      ({ server, client }) => {
        server.on('connect', (_req, socket) => socket.destroy())
        client.socket.write('CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n')
      },
    ],
    [
      'that the service destroys the response because its client has gone',
      ({ req, res, client }) => {
        for (const event of ['aborted', 'close', 'error']) req.on(event, () => res.destroy())
        client.leave()
        return new Promise(resolve => req.on('close', resolve))
      },
    ],
  ])('%s', async (_, happens) => {
    const way = await asked()
    await happens(way)
    await gone(way)
    expect(way.ends).toEqual([])
    way.res.end()
    expect(way.ends).toEqual([ABORTED])
  })

  test('over HTTP/2: that the service closes the stream', async () => {
    const way = await asked2()
    way.res.stream.close(2)
    await gone(way as never)
    expect(way.ends).toEqual([])
    way.res.end()
    expect(way.ends).toEqual([ABORTED])
  })

  test('is the end of another request on its connection', async () => {
    const { exchanges } = await asked(2)
    const [login, broken] = exchanges
    broken.res.write('x')
    broken.req.socket.destroy()
    await gone(login)
    expect([login.ends, broken.ends]).toEqual([[], []])
    login.res.end()
    expect(login.ends).toEqual([ABORTED])
  })
})

test('a response that waits behind another one ends, too, when its client takes nothing', async () => {
  const { exchanges } = await asked(2, { withinMs: 100 })
  const [slow, stream] = exchanges
  createReadStream('/dev/zero').pipe(stream.res)
  await over(stream)
  expect([slow.ends, stream.ends]).toEqual([[], [EXPIRED]])
})

test('a client may read as slowly as it likes', async () => {
  const { client, res, ends } = await asked(1, { reads: false, withinMs: 600 })
  const source = createReadStream('/dev/zero')
  source.pipe(res)
  for (let i = 0; i < 12; i++) {
    await sleep(100)
    client.socket.read()
    for (let read = 0; read < 3_000_000; ) {
      read += (client.socket.read() as Buffer | null)?.length ?? 0
      await sleep(0)
    }
  }
  expect(ends).toEqual([])
  source.destroy()
  res.end()
  expect(ends).toEqual([COMPLETED])
}, 30_000)

test('nothing is left on the response and its connection, whichever way it ends', async () => {
  const listeners = ({ req, res }: Exchange) =>
    [res.listenerCount('close'), res.listenerCount('pipe'), res.listenerCount('unpipe')].concat(
      req.socket.listenerCount('close'),
      req.socket.listenerCount('end'),
    )
  const { exchanges, client, send } = await asked()
  // What Node itself listens to, on a connection with a request at work.
  const [bare] = exchanges
  watchResponse(bare.res).end()
  const before = listeners(bare)
  await send(50)
  bare.res.end()
  for (const { res } of exchanges.slice(1, 40)) res.end('x')
  client.leave()
  await gone(exchanges[50])
  for (const { res } of exchanges.slice(40)) res.end('x')
  expect(listeners(exchanges[50]).slice(0, 3)).toEqual(before.slice(0, 3))
  // Node takes its own listeners from a connection that has closed.
  expect(bare.req.socket.listenerCount('close')).toBeLessThanOrEqual(before[3])
  expect(bare.req.socket.listenerCount('end')).toBeLessThanOrEqual(before[4])
  expect(warned.texts).toEqual([])
})

describe('a stream that was piped into the response', () => {
  const detached = (res: ServerResponse) =>
    new Promise<ResponseEnd>(resolve => watchResponse(res).onEnd({ withinMs: 100_000, orDetached: true }, resolve))

  test('ends it when it is detached after the client has gone', async () => {
    const { client, res } = await asked(1, { reads: false })
    const free = detached(res)
    createReadStream('/dev/zero').pipe(res)
    client.leave()
    expect(await free).toEqual(EXPIRED)
  })

  test('ends it when it was piped in after the client had gone, and is destroyed', async () => {
    const exchange = await asked()
    const free = detached(exchange.res)
    exchange.client.leave()
    await gone(exchange)
    const source = new PassThrough()
    source.pipe(exchange.res)
    source.destroy()
    expect(await free).toEqual(EXPIRED)
  })

  test('does not end it while the client is there: another stream may follow', async () => {
    const exchange = await asked()
    const { res, ends } = exchange
    let free = false
    void detached(res).then(() => {
      free = true
    })
    const first = new PassThrough()
    first.pipe(res, { end: false })
    first.end('first')
    await once(first, 'close')
    expect([free, ends]).toEqual([false, []])
    const second = new PassThrough()
    second.pipe(res)
    second.end('second')
    await over(exchange)
    expect(ends).toEqual([COMPLETED])
  })
})

describe('over HTTP/2 alone', () => {
  test('a HEAD request has ended when its header is sent, although the stream that is piped in never ends', async () => {
    const { res, ends, stream } = await asked2({ method: 'HEAD' })
    const answered = once(stream, 'response')
    createReadStream('/dev/zero').pipe(res)
    await answered
    expect(ends).toEqual([COMPLETED])
  })

  test.each<[string, (stream: Http2ServerResponse['stream']) => void]>([
    [
      'a text',
      stream => {
        stream.respond({ ':status': 200 })
        stream.end('x')
      },
    ],
    ['a header alone', stream => stream.respond({ ':status': 204 })],
  ])('%s that is sent on the stream itself ends the request in its turn', async (_, answer) => {
    const { res, ends } = await asked2()
    answer(res.stream)
    expect(ends).toEqual([COMPLETED])
  })

  test('a file that is sent on the stream itself ends the request', async () => {
    const exchange = await asked2()
    exchange.res.stream.respondWithFile(__filename)
    await over(exchange)
    expect(exchange.ends).toEqual([COMPLETED])
  })
})

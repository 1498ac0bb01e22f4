import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
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
import { type RawClient, rawClient } from '../support/raw-client.js'
import { warnings } from '../support/warnings.js'

const warned = warnings()

const closers: Array<() => void> = []
afterEach(() => {
  for (const close of closers.splice(0).reverse()) close()
})

interface Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly ends: ResponseEnd[]
}

/** A service that watches each response and leaves it to the test. */
async function service({ withinMs = 100_000 } = {}) {
  const exchanges: Exchange[] = []
  const server: Server = createServer((req, res) => {
    const ends: ResponseEnd[] = []
    watchResponse(res).onEnd({ withinMs }, end => ends.push(end))
    exchanges.push({ req, res, ends })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const visit = async (options?: { reads?: boolean }): Promise<RawClient> => {
    const client = await rawClient((server.address() as AddressInfo).port, options)
    closers.push(() => client.leave())
    return client
  }
  const arrived = (count: number) => eventually(`${count} arrived`, async () => exchanges.length === count)
  return { server, exchanges, visit, arrived }
}

const gone = (res: ServerResponse) => eventually('the client has gone', async () => watchResponse(res).gone)
const listeners = ({ req, res }: Exchange) =>
  [res.listenerCount('close'), res.listenerCount('pipe'), res.listenerCount('unpipe')].concat(
    req.socket.listenerCount('close'),
    req.socket.listenerCount('end'),
  )

const COMPLETED = { completed: true, ended: true }
const ABORTED = { completed: false, ended: true }
const EXPIRED = { completed: false, ended: false }

describe('the end of a response', () => {
  test('is reported in the turn in which the handler ends it, although the client reads nothing', async () => {
    const { exchanges, visit, arrived } = await service()
    const client = await visit({ reads: false })
    client.send('/')
    await arrived(1)
    const [{ res, ends }] = exchanges
    res.end(Buffer.alloc(20_000_000))
    expect(ends).toEqual([COMPLETED])
    expect(res.writableFinished).toBe(false)
  })

  test('is reported in that turn also for responses that wait behind another one on their connection', async () => {
    const { exchanges, visit, arrived } = await service()
    const client = await visit()
    client.send('/slow', ...Array.from({ length: 100 }, () => '/login'))
    await arrived(101)
    for (const { res, ends } of exchanges.slice(1)) {
      res.statusCode = 401
      res.end('wrong')
      expect(ends).toEqual([COMPLETED])
    }
    expect(exchanges[0].ends).toEqual([])
  })

  test('is not reported if the call of end fails', async () => {
    const { exchanges, visit, arrived } = await service()
    ;(await visit()).send('/')
    await arrived(1)
    const [{ res, ends }] = exchanges
    expect(() => res.end(42 as unknown as string)).toThrow('chunk')
    expect(ends).toEqual([])
    res.end('x')
    expect(ends).toEqual([COMPLETED])
  })

  test('is reported once to a late listener', async () => {
    const { exchanges, visit, arrived } = await service()
    ;(await visit()).send('/')
    await arrived(1)
    const [{ res }] = exchanges
    res.end('x')
    const late: ResponseEnd[] = []
    watchResponse(res).onEnd({ withinMs: 0 }, end => late.push(end))
    expect(late).toEqual([COMPLETED])
  })

  test('that came before the first listener is reported', async () => {
    const server = createServer((_, res) => {
      res.end('x')
      const ends: ResponseEnd[] = []
      watchResponse(res).onEnd({ withinMs: 0 }, end => ends.push(end))
      expect(ends).toEqual([COMPLETED])
      server.emit('checked')
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    closers.push(() => server.close())
    const client = await rawClient((server.address() as AddressInfo).port)
    closers.push(() => client.leave())
    client.send('/')
    await once(server, 'checked')
  })
})

describe('a client that goes', () => {
  test('does not end the response: the handler does', async () => {
    const { exchanges, visit, arrived } = await service()
    const client = await visit()
    client.send('/')
    await arrived(1)
    client.leave()
    const [{ res, ends }] = exchanges
    await gone(res)
    expect(ends).toEqual([])
    res.end('x')
    expect(ends).toEqual([ABORTED])
  })

  test('is noticed for all responses queued on its connection', async () => {
    const { exchanges, visit, arrived } = await service()
    const client = await visit()
    client.send('/slow', '/a', '/b')
    await arrived(3)
    const left: unknown[] = []
    for (const { res } of exchanges) watchResponse(res).onEnd({ withinMs: 0 }, end => left.push(end))
    client.leave()
    await eventually('all have heard', async () => left.length === 3)
    for (const { res, ends } of exchanges) {
      res.end('x')
      expect(ends).toEqual([ABORTED])
    }
  })

  test('by closing its half of the connection has gone, since Node answers it no more', async () => {
    const { exchanges, visit, arrived } = await service()
    const client = await visit()
    client.send('/slow', '/queued')
    await arrived(2)
    client.socket.end()
    for (const { res } of exchanges) await gone(res)
  })

  test('by closing its half is still there where the server allows that', async () => {
    const { server, exchanges, visit, arrived } = await service()
    Object.assign(server, { httpAllowHalfOpen: true })
    const client = await visit()
    client.send('/')
    await arrived(1)
    client.socket.end()
    const [{ req, res, ends }] = exchanges
    await once(req.socket, 'end')
    expect(watchResponse(res).gone).toBe(false)
    res.end('still')
    expect(ends).toEqual([COMPLETED])
    await eventually('it is answered', async () => client.received.endsWith('still'))
  })
})

describe('a service that breaks off the exchange', () => {
  /** One request has arrived, and its client is there. */
  async function asked(path = '/') {
    const all = await service()
    const client = await all.visit()
    client.send(path)
    await all.arrived(1)
    return { ...all, ...all.exchanges[0], client }
  }

  test.each<[string, (exchange: Exchange) => void]>([
    ['by destroying the response', ({ res }) => res.destroy()],
    ['by destroying the response with an error', ({ res }) => res.destroy(new Error('broken'))],
    ['by destroying the connection', ({ req }) => req.socket.destroy()],
  ])('%s ends the request in that turn, before and after the first write', async (_, breakOff) => {
    for (const written of [false, true]) {
      const exchange = await asked()
      if (written) exchange.res.write('x')
      breakOff(exchange)
      expect(exchange.ends).toEqual([ABORTED])
    }
  })

  test('because a generator fails that it pipes in ends the request', async () => {
    const { res, ends } = await asked()
    const source = async function* () {
      yield 'x'
      throw new Error('broken')
    }
    await expect(pipeline(source, res)).rejects.toThrow('broken')
    expect(ends).toEqual([ABORTED])
  })

  test('because its client has gone has not ended its own work', async () => {
    const { req, res, ends, client } = await asked()
    const closed = new Promise(resolve => req.on('close', resolve))
    for (const event of ['aborted', 'close', 'error']) req.on(event, () => res.destroy())
    client.leave()
    await closed
    expect([res.destroyed, ends]).toEqual([true, []])
    res.end()
    expect(ends).toEqual([ABORTED])
  })

  test('at the end of a time limit, or with all connections, has not ended the work of the handler', async () => {
    for (const limit of [
      (server: Server) => server.closeAllConnections(),
      (server: Server) => void server.on('timeout', socket => setImmediate(() => socket.destroy(new Error('slow')))),
    ]) {
      const { server, req, res, ends } = await asked()
      limit(server)
      if (!req.socket.destroyed) req.socket.setTimeout(1)
      await gone(res)
      expect(ends).toEqual([])
    }
    const { req, res, ends } = await asked()
    // Nobody listens: Node destroys the connection.
    req.socket.setTimeout(1)
    await gone(res)
    expect(ends).toEqual([])
  })

  test.each<[string, (client: RawClient) => void]>([
    ['no HTTP', client => void client.socket.write('garbage\r\n\r\n')],
    ['a CONNECT', client => void client.socket.write('CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n')],
  ])('because its client has sent %s has not ended the work of the handler', async (_, send) => {
    const { server, res, ends, client } = await asked()
    server.on('clientError', (_error, socket) => socket.destroy())
    server.on('connect', (_req, socket) => socket.destroy())
    send(client)
    await gone(res)
    expect(ends).toEqual([])
    res.end()
    expect(ends).toEqual([ABORTED])
  })

  test('for one request does not end the others on its connection', async () => {
    const { exchanges, visit, arrived } = await service()
    ;(await visit()).send('/login', '/broken')
    await arrived(2)
    const [login, broken] = exchanges
    broken.res.write('x')
    broken.req.socket.destroy()
    await gone(login.res)
    expect([login.ends, broken.ends]).toEqual([[], []])
    login.res.end()
    expect(login.ends).toEqual([ABORTED])
  })
})

describe('a client that takes nothing', () => {
  test.each<[string, (res: ServerResponse) => unknown]>([
    ['a stream', res => createReadStream('/dev/zero').pipe(res)],
    ['what a loop writes', res => feed(res)],
    ['a piece that never ends', res => res.write(Buffer.alloc(30_000_000))],
  ])('of %s ends the request a given time after it took something last', async (_, answer) => {
    const { exchanges, visit, arrived } = await service({ withinMs: 100 })
    const client = await visit({ reads: false })
    client.send('/')
    await arrived(1)
    const [{ res, ends }] = exchanges
    answer(res)
    await sleep(50)
    expect(ends).toEqual([])
    await eventually('the time is over', async () => ends.length > 0)
    expect([ends, res.writableEnded]).toEqual([[EXPIRED], false])
  })

  test('because its response waits behind another one ends the request, too', async () => {
    const { exchanges, visit, arrived } = await service({ withinMs: 100 })
    ;(await visit()).send('/slow', '/stream')
    await arrived(2)
    const [slow, stream] = exchanges
    createReadStream('/dev/zero').pipe(stream.res)
    await eventually('the time is over', async () => stream.ends.length > 0)
    expect([slow.ends, stream.ends]).toEqual([[], [EXPIRED]])
  })

  test('for less than that time may read as slowly as it likes', async () => {
    const { exchanges, visit, arrived } = await service({ withinMs: 600 })
    const client = await visit({ reads: false })
    client.send('/')
    await arrived(1)
    const [{ res, ends }] = exchanges
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

  test('does not end a request whose handler writes nothing', async () => {
    const { exchanges, visit, arrived } = await service({ withinMs: 20 })
    ;(await visit({ reads: false })).send('/')
    await arrived(1)
    const [{ res, ends }] = exchanges
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

test('nothing is left on the response and its connection, whichever way it ends', async () => {
  const { exchanges, visit, arrived } = await service()
  const client = await visit()
  client.send('/bare')
  await arrived(1)
  // What Node itself listens to, on a connection with a request at work.
  const [bare] = exchanges
  watchResponse(bare.res).end()
  const before = listeners(bare)
  client.send(...Array.from({ length: 50 }, () => '/'))
  await arrived(51)
  bare.res.end()
  for (const { res } of exchanges.slice(1, 40)) res.end('x')
  client.leave()
  await gone(exchanges[50].res)
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
    const { exchanges, visit, arrived } = await service()
    const client = await visit({ reads: false })
    client.send('/')
    await arrived(1)
    const [{ res }] = exchanges
    const free = detached(res)
    createReadStream('/dev/zero').pipe(res)
    client.leave()
    expect(await free).toEqual({ completed: false, ended: false })
  })

  test('ends it when it was piped in after the client had gone, and is destroyed', async () => {
    const { exchanges, visit, arrived } = await service()
    const client = await visit()
    client.send('/')
    await arrived(1)
    const [{ res }] = exchanges
    const free = detached(res)
    client.leave()
    await gone(res)
    const source = new PassThrough()
    source.pipe(res)
    source.destroy()
    expect(await free).toEqual({ completed: false, ended: false })
  })

  test('does not end it while the client is there: another stream may follow', async () => {
    const { exchanges, visit, arrived } = await service()
    ;(await visit()).send('/')
    await arrived(1)
    const [{ res, ends }] = exchanges
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
    await eventually('it has ended', async () => ends.length === 1)
    expect(ends).toEqual([COMPLETED])
  })
})

describe('over HTTP/2', () => {
  async function exchange2({ method = 'GET', reads = true, withinMs = 100_000 } = {}) {
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
    const [, res] = (await once(server, 'request')) as [Http2ServerRequest, Http2ServerResponse]
    const ends: ResponseEnd[] = []
    watchResponse(res).onEnd({ withinMs }, end => ends.push(end))
    return { res, client, stream, ends }
  }

  test('the end is reported in its turn', async () => {
    const { res, ends } = await exchange2()
    res.end('x')
    expect([ends, watchResponse(res).streamed]).toEqual([[COMPLETED], false])
  })

  test.each(['GET', 'HEAD'])('a client of a %s that goes does not end the response: the handler does', async method => {
    for (const leave of [
      ({ stream }: { stream: ClientHttp2Stream }) => stream.close(0),
      ({ stream }: { stream: ClientHttp2Stream }) => stream.close(8),
      ({ client }: { client: ClientHttp2Session }) => client.destroy(),
    ]) {
      const exchange = await exchange2({ method })
      const { res, ends } = exchange
      leave(exchange)
      await eventually('it has gone', async () => watchResponse(res).gone)
      expect(ends).toEqual([])
      res.end('x')
      expect(ends).toEqual([ABORTED])
    }
  })

  test('a client that goes is given the time of the listener', async () => {
    for (const method of ['GET', 'HEAD']) {
      const { client, ends } = await exchange2({ method, withinMs: 10 })
      client.destroy()
      await eventually('the time is over', async () => ends.length > 0)
      expect(ends).toEqual([EXPIRED])
    }
  })

  test('a HEAD request has ended when its header is sent, although the stream that is piped in never ends', async () => {
    const { res, ends, stream } = await exchange2({ method: 'HEAD' })
    const answered = once(stream, 'response')
    createReadStream('/dev/zero').pipe(res)
    await answered
    expect(ends).toEqual([COMPLETED])
  })

  test.each<[string, (res: Http2ServerResponse) => void]>([
    [
      'a text',
      ({ stream }) => {
        stream.respond({ ':status': 200 })
        stream.end('x')
      },
    ],
    ['a header alone', ({ stream }) => stream.respond({ ':status': 204 })],
  ])('%s that is sent on the stream itself ends the request in its turn', async (_, answer) => {
    const { res, ends } = await exchange2()
    answer(res)
    expect(ends).toEqual([COMPLETED])
  })

  test('a file that is sent on the stream itself ends the request', async () => {
    const { res, ends } = await exchange2()
    res.stream.respondWithFile(__filename)
    await eventually('it is sent', async () => ends.length > 0)
    expect(ends).toEqual([COMPLETED])
  })

  test.each<[string, (res: Http2ServerResponse) => void]>([
    ['the response', res => res.destroy()],
    ['the stream', ({ stream }) => stream.close(2)],
    ['the stream, as HTTP/1 code does', ({ req }) => req.socket.destroy()],
  ])('a service that breaks off %s ends the request in that turn', async (_, breakOff) => {
    const { res, ends } = await exchange2()
    breakOff(res)
    expect(ends).toEqual([ABORTED])
  })

  test('a client that takes nothing ends the request a given time after it took something last', async () => {
    const { res, ends } = await exchange2({ reads: false, withinMs: 100 })
    createReadStream('/dev/zero').pipe(res)
    await eventually('the time is over', async () => ends.length > 0)
    expect([ends, res.writableEnded]).toEqual([[EXPIRED], false])
  })
})

import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import {
  type ClientHttp2Session,
  connect as connect2,
  createServer as createServer2,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { watchResponse } from '../../src/http/node-response.js'
import type { ResponseEnd } from '../../src/http/response-watch.js'
import { type RawClient, rawClient } from '../support/raw-client.js'
import { eventually } from '../support/redis-process.js'

const closers: Array<() => void> = []
afterEach(() => {
  for (const close of closers.splice(0).reverse()) close()
  jest.restoreAllMocks()
})

interface Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly ends: ResponseEnd[]
}

/** A service that watches each response and leaves it to the test. */
async function service() {
  const exchanges: Exchange[] = []
  const server: Server = createServer((req, res) => {
    const ends: ResponseEnd[] = []
    watchResponse(res).onEnd({ withinMs: 100_000 }, end => ends.push(end))
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

test('nothing is left on the response and its connection, whichever way it ends', async () => {
  const { exchanges, visit, arrived } = await service()
  const client = await visit()
  client.send('/bare')
  await arrived(1)
  // What Node itself listens to, on a connection with a request at work.
  const [bare] = exchanges
  watchResponse(bare.res).end()
  const before = listeners(bare)
  const warned = jest.spyOn(process, 'emitWarning')
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
  expect(warned).not.toHaveBeenCalled()
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
  async function exchange2() {
    let server!: Http2Server
    let client!: ClientHttp2Session
    const [, res] = await new Promise<[Http2ServerRequest, Http2ServerResponse, unknown]>(resolve => {
      server = createServer2((req, res) => resolve([req, res, undefined])).listen(0, '127.0.0.1', () => {
        client = connect2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
        client.on('error', () => {})
        stream = client.request({ ':path': '/' })
        stream.on('error', () => {})
        stream.resume()
      })
      closers.push(() => {
        client.destroy()
        server.close()
      })
    })
    const ends: ResponseEnd[] = []
    watchResponse(res).onEnd({ withinMs: 100_000 }, end => ends.push(end))
    return { res, client, ends }
  }
  let stream: ReturnType<ClientHttp2Session['request']>

  test('the end is reported in its turn', async () => {
    const { res, ends } = await exchange2()
    res.end('x')
    expect(ends).toEqual([COMPLETED])
  })

  test.each(['stream', 'session'])(
    'a client that closes its %s has gone, and the handler ends the response',
    async what => {
      const { res, client, ends } = await exchange2()
      if (what === 'stream') stream.close(8)
      else client.destroy()
      await eventually('it has gone', async () => watchResponse(res).gone)
      expect(ends).toEqual([])
      res.end('x')
      expect(ends).toEqual([ABORTED])
    },
  )
})

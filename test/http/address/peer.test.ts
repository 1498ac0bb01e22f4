import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, connect, createServer as createNetServer } from 'node:net'
import { Duplex } from 'node:stream'
import { afterEach, describe, expect, test } from '@jest/globals'
import { nodePeer, webPeer } from '../../../src/http/address/client.js'
import { resetAtOnce } from '../../support/gone-clients.js'

const servers: Array<{ close(): unknown }> = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

/** What is seen of the connection of the first request; afterwards the connection is closed. */
function seenBy(server: Server): Promise<string | undefined> {
  return new Promise(resolve => {
    server.once('request', (req: IncomingMessage) => {
      resolve(nodePeer(req))
      req.socket.destroy()
    })
  })
}

const GET = 'GET / HTTP/1.1\r\nHost: test\r\n\r\n'

describe('the peer of a request in Node', () => {
  test('of a connection that a service hands to a server that listens nowhere has its address, or has gone', async () => {
    const http = createServer()
    const front = createNetServer(socket => http.emit('connection', socket)).listen(0, '127.0.0.1')
    servers.push(front)
    await once(front, 'listening')
    const { port } = front.address() as AddressInfo
    const stays = seenBy(http)
    connect(port, '127.0.0.1')
      .on('error', () => {})
      .write(GET)
    expect(await stays).toBe('127.0.0.1')
    const gone = seenBy(http)
    resetAtOnce(port, 1, GET)
    expect(await gone).toBeUndefined()
  })

  test('of a stream that a service uses as a connection has no address', async () => {
    const http = createServer().listen(0, '127.0.0.1')
    servers.push(http)
    await once(http, 'listening')
    const seen = seenBy(http)
    const [ours, theirs] = pair()
    http.emit('connection', ours)
    theirs.write(GET)
    expect(await seen).toBe('')
  })

  test('of a connection over a Unix socket has no address after its server has been closed, either', async () => {
    const path = `/tmp/spillway-peer-${process.pid}`
    const http = createServer().listen(path)
    await once(http, 'listening')
    const seen = new Promise(resolve => {
      http.once('request', (req: IncomingMessage) => {
        http.close()
        req.socket.once('close', () => resolve(nodePeer(req)))
        req.socket.destroy()
      })
    })
    connect(path)
      .on('error', () => {})
      .write(GET)
    expect(await seen).toBe('')
  })

  test.each<[string, { socket?: object | null }, string | undefined]>([
    ['without a socket', {}, ''],
    ['whose socket is null', { socket: null }, ''],
    ['of a test, with a socket of its own', { socket: {} }, ''],
    ['of a function platform that knows the address', { socket: { remoteAddress: '203.0.113.7' } }, '203.0.113.7'],
    ['of a function platform that knows none', { socket: { remoteAddress: undefined, encrypted: true } }, ''],
    [
      'over HTTP/2 whose session has been destroyed',
      {
        socket: {
          get remoteAddress(): string {
            throw new TypeError('Cannot read properties of undefined')
          },
        },
      },
      undefined,
    ],
  ])('a request %s', (_, req, peer) => {
    expect(nodePeer(req)).toBe(peer)
  })
})

test('the peer of a web platform request has gone if its runtime reports no address and has aborted the request', () => {
  const aborted = new Request('http://test/', { signal: AbortSignal.abort() })
  const asked = new Request('http://test/')
  expect([webPeer(asked, '203.0.113.7'), webPeer(asked, ''), webPeer(asked, undefined)]).toEqual([
    '203.0.113.7',
    '',
    '',
  ])
  expect([webPeer(aborted, '203.0.113.7'), webPeer(aborted, undefined)]).toEqual(['203.0.113.7', undefined])
})

test('the peer of a request that Bun serves has gone if its server listens on a port and knows no address', () => {
  const request = new Request('http://test/')
  const serverOf = (address: string | undefined, port?: number) => ({
    requestIP: () => (address === undefined ? null : { address }),
    port,
  })
  expect(webPeer(request, undefined, serverOf('203.0.113.7', 80))).toBe('203.0.113.7')
  expect(webPeer(request, undefined, serverOf(undefined, 80))).toBeUndefined()
  expect(webPeer(request, undefined, serverOf(undefined))).toBe('')
  // The variables of a platform may have any name.
  expect(webPeer(request, undefined, { port: 80 })).toBe('')
})

/** Two ends of a connection in memory. */
function pair(): [Duplex, Duplex] {
  const ends: Duplex[] = [0, 1].map(
    i =>
      new Duplex({
        read() {},
        write(chunk, _, done) {
          ends[1 - i].push(chunk)
          done()
        },
      }),
  )
  return [ends[0], ends[1]]
}

import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createHttp2Server, type Http2Server, type Http2ServerRequest } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Worker } from 'node:worker_threads'

/** In a thread of its own, so that everything arrives while the service is not looking. */
const ATTACKER = `
const { workerData: { port, count, request, mark } } = require('node:worker_threads')
const left = new Int32Array(mark)
for (let i = 0; i < count; i++) {
  const socket = require('node:net').connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.on('close', () => {
    Atomics.add(left, 0, 1)
    Atomics.notify(left, 0)
  })
  socket.write(request, () => socket.resetAndDestroy())
}`

const POST = 'POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n'

/**
 * So many connections send a request and are reset at once. This thread stands still meanwhile: the service reads each
 * request from a connection of which the system no longer knows the address.
 */
export function resetAtOnce(port: number, count: number, request = POST): void {
  const mark = new SharedArrayBuffer(4)
  const left = new Int32Array(mark)
  const worker = new Worker(ATTACKER, { eval: true, workerData: { port, count, request, mark } })
  worker.unref()
  for (let done = 0; done < count; done = Atomics.load(left, 0)) {
    if (Atomics.wait(left, 0, done, 10_000) === 'timed-out') throw new Error(`only ${done} of ${count} were reset`)
  }
}

/** A service on a free port, and how many requests have reached it. */
export interface Reached {
  readonly port: number
  readonly requests: number
  /** Connections that are still open. */
  readonly open: number
  stop(): Promise<void>
}

/** Serves a listener. `late`: something asynchronous before it passes a request on only when its client has gone. */
export async function reached(app: RequestListener, late = false): Promise<Reached> {
  let requests = 0
  const server = createServer((req, res) => {
    requests++
    if (late) req.socket.once('close', () => app(req, res))
    else app(req, res)
  })
  return listen(server, () => requests)
}

/** The same over HTTP/2: a request with the field x-late is passed on when its stream is closed. */
export async function reachedOverHttp2(app: RequestListener): Promise<Reached> {
  let requests = 0
  const server = createHttp2Server((req, res) => {
    requests++
    const pass = () => app(req as unknown as IncomingMessage, res as unknown as ServerResponse)
    if (req.headers['x-late'] === undefined) pass()
    else (req as Http2ServerRequest).stream.once('close', pass)
  })
  return listen(server, () => requests)
}

async function listen(server: Server | Http2Server, count: () => number): Promise<Reached> {
  const sockets = new Set<{ destroy(): void }>()
  server.on('connection', socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get requests() {
      return count()
    },
    get open() {
      return sockets.size
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

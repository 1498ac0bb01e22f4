import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Peer } from 'spillway/fetch'

/** Turns a request into a response; `peer` is what the runtime knows of the sender. */
export type WebHandler = (request: Request, peer: Peer) => Promise<Response>

interface WebServer {
  /** The part of the runtime that serves. */
  readonly by: string
  readonly port: number
  close(): unknown
}

interface BunServer {
  readonly port: number
  requestIP(request: Request): { address: string } | null
  stop(closeConnections: boolean): unknown
}

interface DenoServer {
  readonly addr: { readonly port: number }
  shutdown(): Promise<void>
}

const runtime = globalThis as {
  Bun?: { serve(options: object): BunServer }
  Deno?: { serve(options: object, handle: object): DenoServer }
}

/** Serves by what the runtime has for it. */
export function serveWeb(handle: WebHandler): Promise<WebServer> | WebServer {
  if (runtime.Bun !== undefined) return byBun(runtime.Bun, handle)
  if (runtime.Deno !== undefined) return byDeno(runtime.Deno, handle)
  return byNode(handle)
}

function byBun(bun: NonNullable<typeof runtime.Bun>, handle: WebHandler): WebServer {
  const fetch = (request: Request, server: BunServer) => handle(request, { server })
  const server = bun.serve({ port: 0, hostname: '127.0.0.1', fetch })
  return { by: 'Bun.serve', port: server.port, close: () => server.stop(true) }
}

function byDeno(deno: NonNullable<typeof runtime.Deno>, handle: WebHandler): WebServer {
  const server = deno.serve(
    { port: 0, hostname: '127.0.0.1', onListen: () => {} },
    (request: Request, { remoteAddr }: { remoteAddr: { hostname: string } }) =>
      handle(request, { address: remoteAddr.hostname }),
  )
  return { by: 'Deno.serve', port: server.addr.port, close: () => server.shutdown() }
}

async function byNode(handle: WebHandler): Promise<WebServer> {
  const server = createServer((req, res) => {
    answer(handle, req, res).catch(error => res.destroy(error))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { by: 'node:http', port: (server.address() as AddressInfo).port, close }
}

async function answer(handle: WebHandler, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const gone = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished) gone.abort()
  })
  const headers = Object.entries(req.headersDistinct).flatMap(([name, values = []]) =>
    values.map(value => [name, value]),
  )
  const request = new Request(`http://${req.headers.host}${req.url}`, {
    headers: headers as [string, string][],
    signal: gone.signal,
  })
  const response = await handle(request, { socket: req.socket })
  res.writeHead(response.status, Object.fromEntries(response.headers))
  const reader = response.body?.getReader()
  gone.signal.addEventListener('abort', () => void reader?.cancel())
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true }
    if (done) break
    if (!res.write(value)) await Promise.race([once(res, 'drain'), once(res, 'close')])
  }
  res.end()
}

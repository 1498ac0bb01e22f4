import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { Redis } from 'ioredis'
import { END_MS } from './redis-server.js'

const TOKEN = 'token'

/** A request that a front has received. */
export interface RestRequest {
  /** '/', '/pipeline' or '/multi-exec'. */
  readonly path: string
  readonly commands: readonly (readonly string[])[]
}

/**
 * What happens to a request instead of an answer: a status with a text, silence, or the end of its connection before or
 * after it is carried out.
 */
export type Fault = { readonly status: number; readonly text: string } | 'silence' | 'cut' | 'cut after'

type Reply = string | number | null | Reply[]

/**
 * Redis over HTTP, as Upstash serves it, in front of a real Redis: a command as a list by POST to `/`, several to
 * `/pipeline`, those of a transaction to `/multi-exec`; a bearer's token; answers `{ result }` or `{ error }`, texts in
 * base64 if the client asks for that.
 */
export class RestFront {
  readonly requests: RestRequest[] = []
  /** Requests that the client has given up. */
  aborted = 0
  /** Undefined: it is answered. */
  fault: (request: RestRequest) => Fault | undefined = () => undefined
  /** The answer of a request that was carried out is sent when this has resolved. */
  delay: (request: RestRequest) => Promise<void> | undefined = () => undefined
  readonly #redis: Redis
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(port: number) {
    this.#redis = new Redis({ port, disconnectTimeout: END_MS, lazyConnect: true })
    this.#redis.on('error', () => {})
    this.#server = createServer((request, response) => this.#serve(request, response))
    this.#server.on('connection', socket => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
  }

  static async start({ port }: { readonly port: number }): Promise<RestFront> {
    const front = new RestFront(port)
    await new Promise<void>(done => front.#server.listen(0, '127.0.0.1', done))
    return front
  }

  /** What a client is built with. */
  get access(): { readonly url: string; readonly token: string } {
    return { url: `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`, token: TOKEN }
  }

  async stop(): Promise<void> {
    this.#redis.disconnect()
    for (const socket of this.#sockets) socket.destroy()
    await new Promise(done => this.#server.close(done))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('close', () => {
      if (!response.writableFinished) this.aborted++
    })
    let text = ''
    for await (const part of request.setEncoding('utf8')) text += part
    const send = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (request.headers.authorization !== `Bearer ${TOKEN}`) {
      send(401, { error: 'WRONGPASS invalid or missing auth token' })
      return
    }
    const path = request.url ?? '/'
    const body = JSON.parse(text)
    const commands: string[][] = path === '/' ? [body] : body
    const received = { path, commands: commands.map(words => words.map(String)) }
    this.requests.push(received)
    const fault = this.fault(received)
    if (fault === 'silence') return
    if (fault === 'cut') request.socket.destroy()
    else if (typeof fault === 'object') response.writeHead(fault.status).end(fault.text)
    if (fault !== undefined && fault !== 'cut after') return
    const isCoded = request.headers['upstash-encoding'] === 'base64'
    const answers = await this.#answers(received, isCoded)
    await this.delay(received)
    if (fault === 'cut after') request.socket.destroy()
    else if (path === '/') send('error' in answers[0] ? 400 : 200, answers[0])
    else send(200, answers)
  }

  async #answers({ path, commands }: RestRequest, isCoded: boolean): Promise<object[]> {
    const batch = path === '/multi-exec' ? this.#redis.multi() : this.#redis.pipeline()
    // Redis 7.0 does not know the flag that the scripts of @upstash/ratelimit ask for.
    for (const [name, ...words] of commands) batch.call(name, ...words.map(word => word.replace(/^#!lua.*/, '')))
    const replies = (await batch.exec()) ?? []
    return replies.map(([error, reply]) =>
      error ? { error: error.message } : { result: isCoded ? coded(reply as Reply) : reply },
    )
  }
}

function coded(reply: Reply): Reply {
  if (Array.isArray(reply)) return reply.map(coded)
  return typeof reply === 'string' && reply !== 'OK' ? Buffer.from(reply).toString('base64') : reply
}

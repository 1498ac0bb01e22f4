import type { ServerResponse } from 'node:http'
import type { Http2ServerResponse, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { type ResponseConnection, ResponseWatch } from './response-watch.js'

const CONNECTIONS = new WeakMap<Socket, Connection>()

/** A request that must learn of the loss of its connection. */
export interface OnConnection {
  /** The client has gone, or the connection was destroyed. */
  lost(): void
}

/**
 * The requests of one connection that must learn of its loss. A response that waits behind another one on its
 * connection receives no event itself: Node 20 and 22 emit neither 'finish' nor 'close' for it.
 */
export class Connection {
  static of(socket: Socket): Connection {
    let connection = CONNECTIONS.get(socket)
    if (connection === undefined) {
      connection = new Connection(socket)
      CONNECTIONS.set(socket, connection)
    }
    return connection
  }

  readonly #socket: Socket
  readonly #requests = new Set<OnConnection>()

  private constructor(socket: Socket) {
    this.#socket = socket
  }

  /**
   * One listener on the socket serves all: a client may pipeline hundreds of requests, and Node warns from the eleventh
   * listener on.
   */
  add(request: OnConnection): void {
    if (this.#requests.size === 0) {
      this.#socket.on('close', this.#onClose)
      this.#socket.on('end', this.#onEnd)
    }
    this.#requests.add(request)
  }

  remove(request: OnConnection): void {
    if (!this.#requests.delete(request) || this.#requests.size > 0) return
    this.#socket.off('close', this.#onClose)
    this.#socket.off('end', this.#onEnd)
  }

  readonly #onClose = (): void => {
    for (const request of [...this.#requests]) request.lost()
  }

  /**
   * The client has closed its half of the connection. Unless the server allows half-open connections, Node has closed
   * the other half by now.
   */
  readonly #onEnd = (): void => {
    if (!this.#socket.writable) this.#onClose()
  }
}

export type NodeResponse = ServerResponse | Http2ServerResponse

const WATCHES = new WeakMap<NodeResponse, ResponseWatch>()

/** The watch of a Node response, over HTTP/1 or HTTP/2; all callers share it. `created` is called if it is new. */
export function watchResponse(response: NodeResponse, created?: (watch: ResponseWatch) => void): ResponseWatch {
  let watch = WATCHES.get(response)
  if (watch === undefined) {
    watch = new ResponseWatch(watch => new NodeClient(response, watch))
    WATCHES.set(response, watch)
    if (hasEnded(response)) watch.end(true)
    else {
      tellEnd(response, watch)
      tellWrites('stream' in response ? response.stream : response, watch)
      created?.(watch)
    }
  }
  return watch
}

/** The watch of a response, if it exists. */
export function knownResponseWatch(response: NodeResponse): ResponseWatch | undefined {
  return WATCHES.get(response)
}

function hasEnded(response: NodeResponse): boolean {
  if (response.writableEnded) return true
  return 'stream' in response && response.headersSent && response.stream.writableEnded
}

type Method = (this: unknown, ...given: unknown[]) => unknown

/**
 * Reports the end from the calls by which a service ends a response. Node's events come later, when the client chooses:
 * 'finish' after it has read everything, or after the earlier responses on its connection were sent.
 */
function tellEnd(response: NodeResponse, watch: ResponseWatch): void {
  const { end, destroy } = response
  const stream = 'stream' in response ? response.stream : undefined
  let ending = false
  const toldEnd: Method = function (...given) {
    // First, because ending may close the connection.
    const completed = !watch.gone
    const streamed = response.headersSent
    ending = true
    const result: unknown = Reflect.apply(end, this, given)
    watch.end(completed, streamed)
    return result
  }
  const toldDestroy: Method = function (...given) {
    // A service that destroys the response because its client has gone does not end its own work by that.
    const brokenOff = !watch.gone && response.req?.aborted !== true
    const result: unknown = Reflect.apply(destroy, this, given)
    if (brokenOff) watch.end(false)
    return result
  }
  response.end = toldEnd as NodeResponse['end'] & typeof response.end
  response.destroy = toldDestroy as NodeResponse['destroy'] & typeof response.destroy
  if (stream !== undefined) tellStream(stream, watch, () => ending)
}

/**
 * Reports the end of an HTTP/2 stream itself: by the service, which may use it in place of the response, and by Node,
 * which ends the stream of a HEAD request with its header: nothing that is written afterwards is ever taken.
 */
function tellStream(stream: ServerHttp2Stream, watch: ResponseWatch, isEnding: () => boolean): void {
  const { end } = stream
  const toldEnd: Method = function (...given) {
    const { gone } = watch
    // Node ends the stream of a client that has gone, although the handler is still at work.
    const byNode = gone && !stream.writableEnded
    const result: unknown = Reflect.apply(end, this, given)
    if (!byNode && !isEnding()) watch.end(!gone, true)
    return result
  }
  stream.end = toldEnd as typeof stream.end
}

/** Reports writes that the client does not take at once. */
function tellWrites(to: ServerResponse | ServerHttp2Stream, watch: ResponseWatch): void {
  const { write } = to
  const told: Method = function (...given) {
    const flowed = !to.writableNeedDrain
    const result: unknown = Reflect.apply(write, this, given)
    if (result === false && flowed) watch.holdUp()
    return result
  }
  to.write = told as typeof to.write
}

class NodeClient implements ResponseConnection, OnConnection {
  readonly #response: NodeResponse
  readonly #watch: ResponseWatch
  readonly #stream: ServerHttp2Stream | undefined
  /** The response, if it is sent over HTTP/1. */
  readonly #http1: ServerResponse | undefined
  readonly #socket: Socket | undefined
  readonly #sources = new Set<Readable>()

  constructor(response: NodeResponse, watch: ResponseWatch) {
    this.#response = response
    this.#watch = watch
    if ('stream' in response) this.#stream = response.stream
    else {
      this.#http1 = response
      // A response that waits behind others has no socket yet; its request has.
      this.#socket = response.req?.socket ?? response.socket ?? undefined
    }
  }

  get gone(): boolean {
    const stream = this.#stream
    if (stream !== undefined) return stream.closed || stream.destroyed || stream.aborted
    const socket = this.#socket
    return this.#response.destroyed || (socket !== undefined && (socket.destroyed || socket.writable === false))
  }

  get stuck(): boolean {
    return !this.#response.headersSent || (this.#stream ?? this.#http1)?.writableNeedDrain === true
  }

  get taken(): number {
    if (this.#stream !== undefined) return -this.#stream.writableLength
    const socket: WritingSocket | null | undefined = this.#http1?.socket
    // Nothing is taken yet of a response that waits behind another one.
    if (!socket) return 0
    // Of a large piece only the queue of the operating system's library tells how much was taken.
    return socket.bytesWritten - socket.writableLength - (socket._handle?.writeQueueSize ?? 0)
  }

  watch(): void {
    if (this.#socket !== undefined) Connection.of(this.#socket).add(this)
    // A response to HEAD over HTTP/2 does not report that its stream is closed.
    if (this.#stream !== undefined) this.#stream.on('close', this.#closed)
    else this.#response.on('close', this.#closed)
    this.#response.on('pipe', this.#piped)
    this.#response.on('unpipe', this.#detached)
  }

  unwatch(): void {
    if (this.#socket !== undefined) Connection.of(this.#socket).remove(this)
    if (this.#stream !== undefined) this.#stream.off('close', this.#closed)
    else this.#response.off('close', this.#closed)
    this.#response.off('pipe', this.#piped)
    this.#response.off('unpipe', this.#detached)
    for (const source of this.#sources) source.off('close', this.#detached)
    this.#sources.clear()
  }

  lost(): void {
    if (this.#response.writableEnded) this.#watch.end(true)
    else this.#watch.leave()
  }

  readonly #closed = (): void => this.lost()

  /** A stream that is piped into a response whose client has already gone is never detached from it, only destroyed. */
  readonly #piped = (source: Readable): void => {
    this.#sources.add(source)
    source.on('close', this.#detached)
  }

  readonly #detached = (): void => this.#watch.detach()
}

interface WritingSocket extends Socket {
  readonly _handle?: { readonly writeQueueSize?: number } | null
}

import type { ServerResponse } from 'node:http'
import type { Http2ServerResponse, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Connection } from './connection.js'
import { type Client, ResponseWatch } from './response-watch.js'

type NodeResponse = ServerResponse | Http2ServerResponse

const WATCHES = new WeakMap<NodeResponse, ResponseWatch>()

/** The watch of a Node response, over HTTP/1 or HTTP/2; all callers share it. `created` is called if it is new. */
export function watchResponse(response: NodeResponse, created?: () => void): ResponseWatch {
  let watch = WATCHES.get(response)
  if (watch === undefined) {
    watch = new ResponseWatch(watch => new NodeClient(response, watch))
    WATCHES.set(response, watch)
    if (response.writableEnded) watch.end(true)
    else {
      tellEnd(response, watch)
      created?.()
    }
  }
  return watch
}

/**
 * Reports the end from `end` itself. Node's events come later, when the client chooses: 'finish' after it has read everything,
 * or after the earlier responses on its connection were sent.
 */
function tellEnd(response: NodeResponse, watch: ResponseWatch): void {
  const { end } = response
  const told = function (this: NodeResponse, ...given: unknown[]): unknown {
    // First, because ending may close the connection.
    const completed = !watch.gone
    const streamed = response.headersSent
    const result: unknown = Reflect.apply(end, this, given)
    watch.end(completed, streamed)
    return result
  }
  response.end = told as typeof response.end & ServerResponse['end'] & Http2ServerResponse['end']
}

class NodeClient implements Client {
  readonly #response: NodeResponse
  readonly #watch: ResponseWatch
  readonly #stream: ServerHttp2Stream | undefined
  readonly #socket: Socket | undefined
  readonly #sources = new Set<Readable>()

  constructor(response: NodeResponse, watch: ResponseWatch) {
    this.#response = response
    this.#watch = watch
    if ('stream' in response) this.#stream = response.stream
    // A response that waits behind others has no socket yet; its request has.
    else this.#socket = response.req?.socket ?? response.socket ?? undefined
  }

  get gone(): boolean {
    if (this.#stream !== undefined) return this.#stream.destroyed || this.#stream.aborted
    const socket = this.#socket
    return this.#response.destroyed || (socket !== undefined && (socket.destroyed || socket.writable === false))
  }

  watch(): void {
    if (this.#socket !== undefined) Connection.of(this.#socket).add(this.#closed)
    this.#response.on('close', this.#closed)
    this.#response.on('pipe', this.#piped)
    this.#response.on('unpipe', this.#detached)
  }

  unwatch(): void {
    if (this.#socket !== undefined) Connection.of(this.#socket).remove(this.#closed)
    this.#response.off('close', this.#closed)
    this.#response.off('pipe', this.#piped)
    this.#response.off('unpipe', this.#detached)
    for (const source of this.#sources) source.off('close', this.#detached)
    this.#sources.clear()
  }

  readonly #closed = (): void => {
    if (this.#response.writableEnded) this.#watch.end(true)
    else this.#watch.leave()
  }

  /** A stream that is piped into a response whose client has already gone is never detached from it, only destroyed. */
  readonly #piped = (source: Readable): void => {
    this.#sources.add(source)
    source.on('close', this.#detached)
  }

  readonly #detached = (): void => this.#watch.detach()
}

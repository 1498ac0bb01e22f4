import type { Socket } from 'node:net'
import { Connection, knownResponseWatch, type NodeResponse, type OnConnection, watchResponse } from './node-response.js'
import { type ResponseConnection, ResponseWatch } from './response-watch.js'

const CLIENTS = new WeakMap<object, WebClient>()

/**
 * The watch of the response to a web platform request; all callers for the request share it. `socket`: the connection
 * of the client, if it is known; not all servers abort the request's signal when it closes.
 */
export function watchRequest(request: Request, socket?: Socket): ResponseWatch {
  let client = CLIENTS.get(request)
  if (client === undefined) {
    client = new WebClient(request.signal, socket)
    CLIENTS.set(request, client)
  }
  return client.watched
}

/** The watch, if it exists: creating one needs the request's signal, which is expensive on some servers. */
export function knownWatch(request: Request): ResponseWatch | undefined {
  return CLIENTS.get(request)?.watched
}

/**
 * The watch for a framework whose handlers return the response. `outgoing`: where Node's server will write it, and tells
 * what became of it; undefined: another runtime sends it.
 */
export function watchReturned(request: Request, outgoing: NodeResponse | undefined): ResponseWatch {
  return outgoing === undefined ? watchRequest(request) : watchResponse(outgoing)
}

/** That watch, if it exists. */
export function knownReturned(request: Request, outgoing: NodeResponse | undefined): ResponseWatch | undefined {
  return outgoing === undefined ? knownWatch(request) : knownResponseWatch(outgoing)
}

/**
 * No handler of such a framework will return anything any more: none runs, or all have failed. Node tells what is sent
 * instead; whether it is sent matters only to runtimes that tell.
 */
export function returnsNothing(request: Request, outgoing: NodeResponse | undefined): void {
  const watch = knownReturned(request, outgoing)
  if (outgoing === undefined) watch?.end()
  else watch?.handOver()
}

/** Gives a request a new watch, for a request that is answered a second time. */
export function forgetRequest(request: Request): void {
  CLIENTS.delete(request)
}

/** The sender of a web platform request: the runtime aborts the request's signal when it goes away. */
class WebClient implements ResponseConnection, OnConnection {
  readonly watched = new ResponseWatch(() => this)
  stuck = true
  taken = 0
  readonly #signal: AbortSignal
  readonly #socket: Socket | undefined

  constructor(signal: AbortSignal, socket: Socket | undefined) {
    this.#signal = signal
    this.#socket = socket
  }

  get gone(): boolean {
    return this.#signal.aborted || this.#socket?.destroyed === true
  }

  watch(): void {
    this.#signal.addEventListener('abort', this.#aborted)
    if (this.#socket !== undefined) Connection.of(this.#socket).add(this)
  }

  unwatch(): void {
    this.#signal.removeEventListener('abort', this.#aborted)
    if (this.#socket !== undefined) Connection.of(this.#socket).remove(this)
  }

  lost(): void {
    this.watched.leave()
  }

  /**
   * The same bytes, read from the body only on demand, so that nothing is buffered. Between two demands the response is
   * held up.
   */
  follow(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
    const { watched } = this
    const reader = body.getReader()
    return new ReadableStream<Uint8Array>(
      {
        pull: async controller => {
          this.stuck = false
          try {
            const { done, value } = await reader.read()
            if (!done) {
              controller.enqueue(value)
              this.taken++
              this.stuck = true
              watched.holdUp()
              return
            }
            controller.close()
            watched.end(!watched.gone, this.taken > 1)
          } catch (error) {
            watched.end(false, this.taken > 0)
            throw error
          }
        },
        cancel(reason) {
          watched.end(false, true)
          return reader.cancel(reason)
        },
      },
      { highWaterMark: 0 },
    )
  }

  readonly #aborted = (): void => this.lost()
}

/** Node leaves such a body out by itself, but a Response cannot be made with one: RFC 9110, section 15. */
export function bodyUnder<Body>(status: number, body: Body): Body | null {
  return status === 204 || status === 205 || status === 304 ? null : body
}

/**
 * The response to send instead of `response`: reports to the watch of its request when the body has been read to its
 * end, was cancelled, or failed. Without listeners, or if nobody will read the body, the watch is ended at once, and
 * the response is returned unchanged.
 */
export function followResponse(response: Response, request: Request): Response {
  const client = CLIENTS.get(request)
  if (client === undefined) return response
  const { watched } = client
  // Some servers rebuild a response when its body is accessed: without a listener that would be wasted.
  if (watched.ended || !watched.listened || watched.gone || response.body === null || response.body.locked) {
    watched.end()
    return response
  }
  const sent = new Response(client.follow(response.body), response)
  watched.handOver()
  return sent
}

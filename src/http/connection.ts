import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

const CONNECTIONS = new WeakMap<Socket, Connection>()

/** A request that must learn what happens to its connection. */
export interface OnConnection {
  /** The response of Node to the request, if there is one. */
  readonly response?: ServerResponse | undefined
  /** The client has gone. */
  lost(): void
  /** The service has destroyed the connection, on which this response was the only one. */
  brokenOff?(): void
}

/** What Node's HTTP server keeps on a connection. Where it keeps nothing, nobody counts as the one who has destroyed the connection. */
interface ServedSocket extends Socket {
  /** The response that is sent now: the oldest one. */
  readonly _httpMessage?: unknown
  /** `incoming` is the youngest request. */
  readonly parser?: { readonly incoming?: unknown } | null
}

/**
 * The requests of one connection that must learn of its loss. A response that waits behind another one on its connection
 * receives no event itself: Node 20 and 22 emit neither 'finish' nor 'close' for it.
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

  readonly #socket: ServedSocket
  readonly #requests = new Set<OnConnection>()
  readonly #errorListeners: readonly unknown[]

  private constructor(socket: Socket) {
    this.#socket = socket
    this.#errorListeners = socket.listeners('error')
    // Sockets of test tools may lack it.
    if (typeof socket.destroy === 'function') this.#tellDestroy()
  }

  /** One listener on the socket serves all: a client may pipeline hundreds of requests, and Node warns from the eleventh listener on. */
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

  #tellDestroy(): void {
    const socket = this.#socket
    const { destroy } = socket
    const told = (...given: [error?: Error]): Socket => {
      const only = given[0] === undefined && !socket.destroyed ? this.#onlyRequest() : undefined
      const brokenOff = only !== undefined && isCalledByService(told)
      Reflect.apply(destroy, socket, given)
      if (brokenOff) only.brokenOff?.()
      return socket
    }
    socket.destroy = told
  }

  /**
   * The only request on the connection. Undefined if others are at work on it, whose end this would not be, and if Node's HTTP server
   * has let go of the connection: after a client has sent what is no HTTP, services destroy it, although the handler is still at work.
   */
  #onlyRequest(): OnConnection | undefined {
    const { _httpMessage: response, parser } = this.#socket
    if (this.#requests.size === 0 || response === undefined || response === null || !parser) return undefined
    if (this.#errorListeners.length === 0 || this.#socket.writable === false) return undefined
    const listeners = this.#socket.listeners('error') as unknown[]
    if (!this.#errorListeners.every(listener => listeners.includes(listener))) return undefined
    for (const request of this.#requests) {
      if (request.response === response) return request.response.req === parser.incoming ? request : undefined
    }
    return undefined
  }

  readonly #onClose = (): void => {
    for (const request of [...this.#requests]) request.lost()
  }

  /** The client has closed its half of the connection. Unless the server allows half-open connections, Node has closed the other half by now. */
  readonly #onEnd = (): void => {
    if (!this.#socket.writable) this.#onClose()
  }
}

/** True if the caller of `method` is not a part of Node, which destroys connections and streams for reasons of its own: time limits, clients that go. */
export function isCalledByService(method: (...given: never[]) => unknown): boolean {
  const settings: { stackTraceLimit: number; prepareStackTrace?: unknown } = Error
  const { stackTraceLimit, prepareStackTrace } = settings
  const trace: { stack?: unknown } = {}
  settings.stackTraceLimit = 1
  settings.prepareStackTrace = undefined
  try {
    Error.captureStackTrace(trace, method)
    return typeof trace.stack === 'string' && /^ +at (?!(?:.* \()?node:)/m.test(trace.stack)
  } finally {
    settings.stackTraceLimit = stackTraceLimit
    settings.prepareStackTrace = prepareStackTrace
  }
}

import type { Socket } from 'node:net'
import type { Decision } from '../core/decision.js'
import { PolicyError, shown } from '../core/errors.js'
import { ExistingObject } from '../core/existing-object.js'
import type { BunServer } from '../http/address/peer.js'
import type { Body } from '../http/refusal.js'
import { followResponse, forgetRequest, knownWatch } from '../http/web-response.js'

/** The sender of a request, as the runtime reports it: `server.requestIP(request)` in Bun, `info.remoteAddr.hostname` in Deno. */
export interface Peer {
  /** The client's address; undefined or '' if there is none. */
  readonly address?: string
  /**
   * On Node, the client's connection: `incoming.socket`. Its address is the client's, unless `address` is given. Without it, a client that has gone is noticed only if the runtime aborts
   * the request's signal.
   */
  readonly socket?: PeerSocket
  /** In Bun, the server: it is asked for the address, and knows that a client has reset its connection. */
  readonly server?: BunServer
}

/** A socket of `node:net` or `node:tls`. */
export interface PeerSocket {
  /** True if the connection has been closed. */
  readonly destroyed: boolean
  /** Adds a listener for the end of the connection. */
  on(event: 'close' | 'end', listener: () => void): unknown
  /** Removes it. */
  off(event: 'close' | 'end', listener: () => void): unknown
}

/** How long after the decision a response is expected. */
const WITHIN_MS = 30_000

const NOBODY: Peer = {}

/** The exchange of a request, stored in a private field of the request. */
class Kept extends ExistingObject {
  #exchange: Exchange | undefined

  static exchange(request: Request): Exchange | undefined {
    return #exchange in request ? (request as Kept).#exchange : undefined
  }

  static keep(request: Request, exchange: Exchange): void {
    const kept = #exchange in request ? (request as Kept) : (new Kept(request) as Kept)
    kept.#exchange = exchange
  }
}

/** A web platform request and what its limiters add to its response. */
export class Exchange {
  /** The exchange of a request, for the next limiter; a new one if the request has been answered. */
  static begin(request: Request, peer: Peer = NOBODY): Exchange {
    let exchange = Kept.exchange(request)
    if (exchange === undefined || exchange.#isOver) {
      forgetRequest(request)
      exchange = new Exchange(request)
      Kept.keep(request, exchange)
    }
    exchange.peer = peer ?? NOBODY
    return exchange
  }

  /** The exchange of a request; of one that no limiter has seen yet: a new one. */
  static of(request: Request): Exchange {
    return Kept.exchange(request) ?? Exchange.begin(request)
  }

  /** The response as sent; undefined until it is known. */
  response: Response | undefined
  /** The strictest decision so far. */
  decision: Decision | undefined
  readonly #request: Request
  /** The header fields of the limiters: if a field has two values, the later one counts. All limiters spell field names alike. */
  readonly fields = new Map<string, string>()
  #status = 200
  #answered = false
  peer = NOBODY
  #expiry: NodeJS.Timeout | undefined

  private constructor(request: Request) {
    this.#request = request
  }

  /** The client's connection, if the service has passed it to the limiter. */
  get socket(): Socket | undefined {
    return this.peer.socket as Socket | undefined
  }

  /** True if a proxy has written addresses, but the service took the address from elsewhere. */
  get ignoresProxy(): boolean {
    const { headers } = this.#request
    const { address } = this.peer
    const written = `${headers.get('x-forwarded-for') ?? ''},${headers.get('forwarded') ?? ''}`
    return written !== ',' && !(address && written.includes(address))
  }

  /** From now on the service handles the request. */
  expect(): void {
    const watch = knownWatch(this.#request)
    if (this.#expiry !== undefined || !watch?.listened) return
    this.#expiry = setTimeout(() => watch.expire(), WITHIN_MS)
    // Some runtimes return a number.
    this.#expiry.unref?.()
  }

  /** The response with all header fields of the limiters; informs the listeners of its end. */
  answer(response: Response): Response {
    clearTimeout(this.#expiry)
    this.response = this.#withFields(response)
    this.#answered = true
    const watch = knownWatch(this.#request)
    if (watch === undefined) return this.response
    // Runtimes neither read nor cancel the body of a response to HEAD.
    if (this.#request.method === 'HEAD') watch.end()
    return followResponse(this.response, this.#request)
  }

  /** Stores the response that the service's own handler has returned for a refusal. */
  word(response: unknown): void {
    if (!(response instanceof Response)) {
      throw new PolicyError(
        `rateLimit: handler returned ${shown(response)}: expected a Response, like new Response("busy", { status: 429 })`,
      )
    }
    this.response = response
  }

  /** The status of the refusal. */
  get status(): number {
    return this.#status
  }

  beginRefusal(status: number): void {
    this.#status = status
    this.response = undefined
  }

  /** Stores the limiter's own response for a refusal. */
  write({ type, text }: Body): void {
    this.response = new Response(text, { status: this.#status, headers: { 'content-type': type } })
  }

  /** The response of a refusal, once it was written. No handler will run, so the request is over. */
  refuse(): Response {
    clearTimeout(this.#expiry)
    this.response = this.#withFields(withStatus(this.response ?? Response.error(), this.#status))
    this.#answered = true
    knownWatch(this.#request)?.end()
    return this.response
  }

  get #isOver(): boolean {
    return knownWatch(this.#request)?.ended ?? this.#answered
  }

  #withFields(response: Response): Response {
    try {
      const { headers } = response
      for (const [name, value] of this.fields) headers.set(name, value)
      return response
    } catch {
      // Responses of `fetch` and `Response.redirect` have immutable header fields.
      return response.status === 0 ? response : this.#withFields(new Response(response.body, response))
    }
  }
}

/** A handler that sets no status leaves it at 200. */
function withStatus(response: Response, status: number): Response {
  if (response.status !== 200 || status === 200) return response
  return new Response(response.body, { status, headers: response.headers })
}

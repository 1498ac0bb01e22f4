import type { Socket } from 'node:net'
import type { Decision } from '../../limiter/core/decision.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { ExistingObject } from '../../limiter/core/maps.js'
import { type AddressKeyOptions, addressKeyOf, type BunServer, nodePeer, webPeer } from '../address/client.js'
import { admit, type Delivery, type Framework } from '../framework.js'
import { Ledger } from '../ledger.js'
import { checkCaller } from '../misuse.js'
import type { HttpOptions } from '../rate-limit/options.js'
import { type LimiterAccess, RateLimitGate } from '../rate-limit/rate-limit.js'
import type { Body } from '../refusal.js'
import type { ResponseEnd } from '../response-watch.js'
import { after, isPromise, type SyncOrAsync } from '../sync-or-async.js'
import { bodyUnder, followResponse, forgetRequest, knownWatch, watchRequest } from '../web-response.js'

/**
 * The sender of a request, as the runtime reports it: `server.requestIP(request)` in Bun, `info.remoteAddr.hostname` in
 * Deno.
 */
export interface Peer {
  /** The client's address; undefined or '' if there is none. */
  readonly address?: string
  /**
   * On Node, the client's connection: `incoming.socket`. Its address is the client's, unless `address` is given.
   * Without it, a client that has gone is noticed only if the runtime aborts the request's signal.
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
class StoredExchange extends ExistingObject {
  #exchange: Exchange | undefined

  static exchange(request: Request): Exchange | undefined {
    return #exchange in request ? (request as StoredExchange).#exchange : undefined
  }

  static keep(request: Request, exchange: Exchange): void {
    const kept = #exchange in request ? (request as StoredExchange) : (new StoredExchange(request) as StoredExchange)
    kept.#exchange = exchange
  }
}

/** A web platform request and what its limiters add to its response. */
class Exchange {
  /** The exchange of a request, for the next limiter; a new one if the request has been answered. */
  static begin(request: Request, peer: Peer = NOBODY): Exchange {
    let exchange = StoredExchange.exchange(request)
    if (exchange === undefined || exchange.#isOver) {
      forgetRequest(request)
      Ledger.forget(request)
      exchange = new Exchange(request)
      StoredExchange.keep(request, exchange)
    }
    exchange.peer = peer ?? NOBODY
    return exchange
  }

  /** The exchange of a request; of one that no limiter has seen yet: a new one. */
  static of(request: Request): Exchange {
    return StoredExchange.exchange(request) ?? Exchange.begin(request)
  }

  /** The response as sent; undefined until it is known. */
  response: Response | undefined
  /** The strictest decision so far. */
  decision: Decision | undefined
  readonly #request: Request
  /**
   * The header fields of the limiters: if a field has two values, the later one counts. All limiters spell field names
   * alike.
   */
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
        `rateLimit: handler returned ${shown(response)}: expected a Response, like new Response("busy", { ` +
          'status: 429 })',
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
    const body = bodyUnder(this.#status, text)
    this.response = new Response(body, { status: this.#status, headers: { 'content-type': type } })
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
  return new Response(bodyUnder(status, response.body), { status, headers: response.headers })
}

export type * from '../adapter-exports.js'
export { clientAddress } from '../address/client.js'

/**
 * The options of `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions
 * receive the request and the peer, except `settle` and `handler`.
 */
export interface RateLimitOptions<P extends Peer = Peer>
  extends Omit<HttpOptions<[request: Request, peer: P]>, 'settle' | 'handler'> {
  /**
   * Default: none. The real cost of the request; integer ≥ 0. Called once, when the body of the response has been read
   * to its end or cancelled. If nothing is read for 30 s, it is called then, with `end.ended` false; if `apply` is not
   * called, 30 s after the decision, with `Response.error()`. In both cases at least 1 is charged regardless of its
   * result.
   */
  settle?: (request: Request, response: Response, end: ResponseEnd) => number | Promise<number>
  /**
   * Returns the refusal instead of the default one. All header fields are added to it; a status of 200 is replaced by
   * the status of the refusal. The limiter throws what it throws. Not called for an address on the deny list. With it,
   * `message` is not used.
   */
  handler?: (request: Request, peer: P, decision: Decision) => Response | Promise<Response>
}

/** The limiter's answer for a request. */
export interface RateLimited {
  /** Return it instead of handling the request; undefined: the request may be handled. */
  readonly refusal?: Response
  /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
  readonly decision?: Decision
  /**
   * The response to send instead of the handler's: the same, with the header fields of the limiters. Throws
   * `PolicyError` for a promise, and for anything else that is no response.
   */
  apply(response: Response): Response
}

/** The function that `rateLimit` returns, with its limiter. */
export interface RateLimit<P extends Peer = Peer> extends LimiterAccess {
  /**
   * Decides the request; a request that must wait is answered when its turn has come. Rejects if a function of the
   * options fails.
   */
  (request: Request, peer: P): Promise<RateLimited>
}

/**
 * A limiter for services that answer a `Request` with a `Response`. Checks its options: `PolicyError`, or `CostError`
 * for a constant cost.
 */
export function rateLimit<P extends Peer = Peer>(options: RateLimitOptions<P> = {}): RateLimit<P> {
  const gate = RateLimitGate.of(ofExchanges(options), frameworkOf<P>())
  const limited = async (request: Request, peer: P): Promise<RateLimited> => {
    const exchange = Exchange.begin(request, peer)
    const apply = (response: Response) => exchange.answer(checked(response))
    const admitted = admit(gate, web, request, peer)
    const delivered = isPromise(admitted) ? await admitted : admitted
    const { decision } = exchange
    // This response is never read.
    if (delivered === 'gone') return { refusal: new Response(null, { status: 499 }), decision, apply }
    if (delivered === 'refused') return { refusal: exchange.refuse(), decision, apply }
    exchange.expect()
    return { decision, apply }
  }
  let isRight = false
  return gate.equip((request: Request, peer: P, next?: unknown): Promise<RateLimited> => {
    if (!isRight) {
      isRight = checkCaller('fetch', 'rateLimit', typeof request?.headers?.get === 'function', next)
      if (!isRight) return undefined as never
    }
    return limited(request, peer)
  })
}

export default rateLimit

/** By its shape: a response may be of another realm. */
function checked(response: Response): Response {
  const { headers, status, then } = (response ?? {}) as Partial<Response & PromiseLike<Response>>
  if (typeof headers?.set === 'function' && typeof status === 'number') return response
  const given = typeof then === 'function' ? 'a promise' : shown(response)
  throw new PolicyError(`apply: given ${given}: expected a Response, like apply(await handler(request))`)
}

/**
 * The options in the format of the gate: a response is known later than its request, and is returned instead of written
 * to.
 */
function ofExchanges<P extends Peer>(options: RateLimitOptions<P>): HttpOptions<[request: Request, peer: P]> {
  const { settle, handler } = options ?? {}
  const own: Pick<HttpOptions<[request: Request, peer: P]>, 'settle' | 'handler'> = {}
  if (typeof settle === 'function') {
    own.settle = (request, _peer, end) => settle(request, Exchange.of(request).response ?? Response.error(), end)
  }
  if (typeof handler === 'function') {
    own.handler = (request, peer, decision) =>
      after(handler(request, peer, decision) as SyncOrAsync<unknown>, response => Exchange.of(request).word(response))
  }
  const given = options as HttpOptions<[request: Request, peer: P]>
  // The gate rejects a value that is not an options object.
  return own.settle || own.handler ? { ...given, ...own } : given
}

/**
 * The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. The function is given
 * the request and the peer, as a `key` is. undefined if the peer has no address. Checks its options: `PolicyError`.
 */
export function addressKey(options?: AddressKeyOptions): (request: Request, peer?: Peer) => string | undefined {
  const keyOf = addressKeyOf(web, options)
  return (request, peer) => {
    if (peer !== undefined) Exchange.begin(request, peer)
    return keyOf(request)
  }
}

function peerOf(request: Request): string | undefined {
  const { address, socket, server } = Exchange.of(request).peer
  return socket && !address ? nodePeer({ socket }) : webPeer(request, address, server)
}

function frameworkOf<P>(): Framework<Request, P, [request: Request, peer: P]> {
  return web as unknown as Framework<Request, P, [request: Request, peer: P]>
}

const web: Framework<Request, unknown> & Delivery<Request, unknown> = {
  name: 'the service',
  args: (request, peer) => [request, peer],
  address: (_, peer) => peer,
  peer: peerOf,
  passes: 'limit(request, { address })',
  trust: request => (Exchange.of(request).ignoresProxy ? 'nobody' : 'some'),
  requestHeader: (request, name) => request.headers.get(name) ?? undefined,
  watch: (_, request) => watchRequest(request, Exchange.of(request).socket),
  leaveDecision(request, decision) {
    Exchange.of(request).decision = decision
  },
  // A response is returned, not sent.
  isSent: () => false,
  setFields(_, fields, request) {
    const own = Exchange.of(request).fields
    for (const name in fields) own.set(name, fields[name])
  },
  removeField: (_, name, request) => void Exchange.of(request).fields.delete(name),
  status: (_, request) => Exchange.of(request).status,
  setStatus: (_, status, request) => Exchange.of(request).beginRefusal(status),
  write: (_, body, request) => Exchange.of(request).write(body),
}

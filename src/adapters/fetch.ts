import type { Decision } from '../core/decision.js'
import { addressKeyOf } from '../http/address/client.js'
import type { AddressKeyOptions } from '../http/address/client-options.js'
import { nodePeer, webPeer } from '../http/address/peer.js'
import { admit, type Delivery } from '../http/delivery.js'
import type { Framework } from '../http/framework.js'
import { checkCaller } from '../http/mounting.js'
import type { HttpOptions } from '../http/rate-limit/options.js'
import { Guard, type Limiters } from '../http/rate-limit/rate-limit.js'
import type { ResponseEnd } from '../http/response-watch.js'
import { after, isPromise, type SyncOrAsync } from '../http/sync-or-async.js'
import { watchRequest } from '../http/web-response.js'
import { Exchange, type Peer } from './fetch-exchange.js'

export type * from '../http/adapter-exports.js'
export type { Peer, PeerSocket } from './fetch-exchange.js'

/**
 * The options of `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions receive the request and the peer, except
 * `settle` and `handler`.
 */
export interface RateLimitOptions<P extends Peer = Peer> extends Omit<HttpOptions<Request, P>, 'settle' | 'handler'> {
  /**
   * The real cost of the request; integer ≥ 0. Called once, when the body of the response has been read to its end or cancelled. If nothing is read for 30 s, it is called
   * then, with `end.ended` false; if `apply` is not called, 30 s after the decision, with `Response.error()`. In both cases at least 1 is charged regardless of its result.
   */
  settle?: (request: Request, response: Response, end: ResponseEnd) => number | Promise<number>
  /**
   * Returns the refusal instead of the default one. All header fields are added to it; a status of 200 is replaced by the status of the refusal. The limiter throws what it
   * throws. Not called for an address on the deny list. With it, `message` is not used.
   */
  handler?: (request: Request, peer: P, decision: Decision) => Response | Promise<Response>
}

/** The limiter's answer for a request. */
export interface RateLimited {
  /** Return it instead of handling the request; undefined: the request may be handled. */
  readonly refusal?: Response
  /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
  readonly decision?: Decision
  /** The response to send instead of the handler's: the same, with the header fields of the limiters. */
  apply(response: Response): Response
}

/** The function that `rateLimit` returns, with its limiter. */
export interface RateLimit<P extends Peer = Peer> extends Limiters {
  /** Decides the request; a request that must wait is answered when its turn has come. Rejects if a function of the options fails. */
  (request: Request, peer: P): Promise<RateLimited>
}

/** A limiter for services that answer a `Request` with a `Response`. Checks its options: `PolicyError`, or `CostError` for a constant cost. */
export function rateLimit<P extends Peer = Peer>(options: RateLimitOptions<P> = {}): RateLimit<P> {
  const guard = new Guard<Request, P>(ofExchanges(options), web)
  const limited = async (request: Request, peer: P): Promise<RateLimited> => {
    const exchange = Exchange.begin(request, peer)
    const apply = (response: Response) => exchange.answer(response)
    const admitted = admit(guard, web, request, peer)
    const delivered = isPromise(admitted) ? await admitted : admitted
    const { decision } = exchange
    // This response is never read.
    if (delivered === 'gone') return { refusal: new Response(null, { status: 499 }), decision, apply }
    if (delivered === 'refused') return { refusal: exchange.refuse(), decision, apply }
    exchange.expect()
    return { decision, apply }
  }
  let isRight = false
  return guard.equip((request: Request, peer: P, next?: unknown): Promise<RateLimited> => {
    if (!isRight) {
      isRight = checkCaller('fetch', 'rateLimit', request, peer, next)
      if (!isRight) return undefined as never
    }
    return limited(request, peer)
  })
}

/** The options in the guard's format: a response is known later than its request, and is returned instead of written to. */
function ofExchanges<P extends Peer>(options: RateLimitOptions<P>): HttpOptions<Request, P> {
  const { settle, handler } = options ?? {}
  const own: Pick<HttpOptions<Request, P>, 'settle' | 'handler'> = {}
  if (typeof settle === 'function') {
    own.settle = (request, _peer, end) => settle(request, Exchange.of(request).response ?? Response.error(), end)
  }
  if (typeof handler === 'function') {
    own.handler = (request, peer, decision) =>
      after(handler(request, peer, decision) as SyncOrAsync<unknown>, response => Exchange.of(request).word(response))
  }
  const given = options as HttpOptions<Request, P>
  // The guard rejects a value that is not an options object.
  return own.settle || own.handler ? { ...given, ...own } : given
}

/**
 * The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. The function is given the request and the peer, as a `key` is.
 * undefined if the peer has no address. Checks its options: `PolicyError`.
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

const web: Framework<Request, unknown> & Delivery<Request, unknown> = {
  name: 'the service',
  address: (_, peer) => peer,
  peer: peerOf,
  trust: request => (Exchange.of(request).ignoresProxy ? 'nobody' : 'some'),
  requestHeader: (request, name) => request.headers.get(name) ?? undefined,
  responseHeader: (_, name, request) => Exchange.of(request).fields.get(name),
  watch: (_, request) => watchRequest(request, Exchange.of(request).socket),
  decision: request => Exchange.of(request).decision,
  leaveDecision(request, decision) {
    Exchange.of(request).decision = decision
  },
  // A response is returned, not sent.
  isSent: () => false,
  setField: (_, name, value, request) => void Exchange.of(request).fields.set(name, value),
  removeField: (_, name, request) => void Exchange.of(request).fields.delete(name),
  status: (_, request) => Exchange.of(request).status,
  setStatus: (_, status, request) => Exchange.of(request).beginRefusal(status),
  write: (_, body, request) => Exchange.of(request).write(body),
}

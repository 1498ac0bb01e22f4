import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import type { Decision } from '../../limiter/core/decision.js'
import { type AddressKeyOptions, addressKeyOf, nodePeer } from '../address/client.js'
import { type ConcurrencyControls, ConcurrencyGate } from '../concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../concurrency/options.js'
import { admit, type Delivery, type Framework, type Gate } from '../framework.js'
import { checkCaller, hasAll } from '../misuse.js'
import { toNodeResponse } from '../node-delivery.js'
import { watchResponse } from '../node-response.js'
import type { HttpOptions } from '../rate-limit/options.js'
import { type LimiterAccess, RateLimitGate } from '../rate-limit/rate-limit.js'
import { ShedGate, type ShedOptions } from '../shed.js'
import { isPromise } from '../sync-or-async.js'

export type * from '../adapter-exports.js'
export { clientAddress } from '../address/client.js'
export type { ShedOptions } from '../shed.js'

/** A request of `node:http` or of the compatibility API of `node:http2`. */
export type NodeRequest = IncomingMessage | Http2ServerRequest
/** A response of `node:http` or of the compatibility API of `node:http2`. */
export type NodeResponse = ServerResponse | Http2ServerResponse

declare module 'node:http' {
  interface IncomingMessage {
    /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
    rateLimit?: Decision
  }
}

declare module 'node:http2' {
  interface Http2ServerRequest {
    /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
    rateLimit?: Decision
  }
}

/**
 * The options of `rateLimit`: those of `rateLimit` in `spillway/express`, with the same defaults. Their functions
 * receive `(req, res)`.
 */
export interface RateLimitOptions extends HttpOptions<[req: NodeRequest, res: NodeResponse]> {}

/** The function that `rateLimit` returns, with its limiter. */
export interface RateLimit extends LimiterAccess {
  /**
   * Decides the request. true: continue; false: the request is refused and answered, or deferred, or its client has
   * gone. Rejects with errors of the functions in the options; then nothing is spent and nothing is answered.
   */
  (req: NodeRequest, res: NodeResponse): Promise<boolean>
}

/**
 * A rate limit for services over `node:http` and `node:http2`. Checks its options: `PolicyError`, or `CostError` for a
 * constant cost.
 */
export function rateLimit(options: RateLimitOptions = {}): RateLimit {
  const gate = RateLimitGate.of(options, node)
  return gate.equip(limiterOf(gate, 'rateLimit'))
}

export default rateLimit

/** The options of `concurrencyLimit`: those of `spillway/express`. Their functions receive `(req, res)`. */
export interface ConcurrencyLimitOptions extends ConcurrencyOptions<[req: NodeRequest, res: NodeResponse]> {}

/** The function that `concurrencyLimit` returns. */
export interface ConcurrencyLimit extends ConcurrencyControls {
  /**
   * Gives the request a place, lets it wait for one, or refuses it. true: continue; false: it is answered already, or
   * its client has gone.
   */
  (req: NodeRequest, res: NodeResponse): Promise<boolean>
}

/**
 * Limits how many requests are inside at once, for services over `node:http` and `node:http2`. Checks its options:
 * `PolicyError`.
 */
export function concurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const gate = new ConcurrencyGate(options, node)
  return gate.equip(limiterOf(gate, 'concurrencyLimit'))
}

/**
 * Refuses the least important requests first under overload, for services over `node:http` and `node:http2`. The
 * function resolves to true: continue; or to false: the request is answered already. Checks its options: `PolicyError`.
 */
export function shed(options: ShedOptions<NodeRequest>): (req: NodeRequest, res: NodeResponse) => Promise<boolean> {
  return limiterOf(new ShedGate(options, node), 'shed')
}

/**
 * The client's address as a key, for keys of a service: as `addressKey` of `spillway/express`. Checks its options:
 * `PolicyError`.
 */
export function addressKey(options?: AddressKeyOptions): (req: NodeRequest) => string | undefined {
  return addressKeyOf(node, options)
}

const node: Framework<NodeRequest, NodeResponse> & Delivery<NodeRequest, NodeResponse> = {
  ...toNodeResponse,
  name: 'node:http',
  args: (req, res) => [req, res],
  address: (_, peer) => peer,
  peer: nodePeer,
  trust: () => 'nobody',
  requestHeader: (req, name) => req.headers[name] as string | undefined,
  watch: res => watchResponse(res),
  leaveDecision(req, decision) {
    req.rateLimit = decision
  },
}

function limiterOf(gate: Gate<NodeRequest, NodeResponse>, user: string) {
  let isRight = false
  return (req: NodeRequest, res: NodeResponse, next?: unknown): Promise<boolean> => {
    if (!isRight) {
      isRight = checkCaller('node', user, hasAll(req, 'headers', 'method') && hasAll(res, 'end'), next)
      if (!isRight) return undefined as never
    }
    return limited(gate, req, res)
  }
}

async function limited(gate: Gate<NodeRequest, NodeResponse>, req: NodeRequest, res: NodeResponse): Promise<boolean> {
  const delivered = admit(gate, node, req, res)
  return (isPromise(delivered) ? await delivered : delivered) === 'passed'
}

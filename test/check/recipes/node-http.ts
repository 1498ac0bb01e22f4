import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Decision } from '../../../src/core/decision.js'
import { type AddressKeyOptions, addressKeyOf, nodePeer } from '../../../src/http/address/client.js'
import { admit, type Delivery, type Framework } from '../../../src/http/framework.js'
import { watchResponse } from '../../../src/http/node-response.js'
import type { HttpOptions } from '../../../src/http/rate-limit/options.js'
import { Guard, type Limiters } from '../../../src/http/rate-limit/rate-limit.js'

/** A request of Node, with the decision that a limiter leaves on it. */
export interface LimitedRequest extends IncomingMessage {
  rateLimit?: Decision
}

/** A limiter for Node's own server. */
export interface RateLimit extends Limiters {
  /** True if the service should handle the request; false if it was answered, or the client has gone. */
  (req: LimitedRequest, res: ServerResponse): Promise<boolean>
}

const node: Framework<LimitedRequest, ServerResponse> & Delivery<LimitedRequest, ServerResponse> = {
  name: 'Node',
  address: (_, peer) => peer,
  peer: nodePeer,
  trust: () => 'nobody',
  requestHeader: (req, name) => req.headers[name] as string | undefined,
  responseHeader: (res, name) => res.getHeader(name)?.toString(),
  watch: res => watchResponse(res),
  decision: req => req.rateLimit,
  leaveDecision(req, decision) {
    req.rateLimit = decision
  },
  isSent: res => res.headersSent,
  setField: (res, name, value) => void res.setHeader(name, value),
  removeField: (res, name) => res.removeHeader(name),
  status: res => res.statusCode,
  setStatus(res, status) {
    res.statusCode = status
  },
  write(res, { type, text }) {
    res.setHeader('Content-Type', type)
    res.end(text)
  },
}

/** The client's address as a key, for keys of a service. */
export function addressKey(options?: AddressKeyOptions): (req: LimitedRequest) => string | undefined {
  return addressKeyOf(node, options)
}

/** The recipe for a web framework, carried out for a server without one. */
export function rateLimit(options: HttpOptions<LimitedRequest, ServerResponse> = {}): RateLimit {
  const guard = new Guard(options, node)
  return guard.equip(
    async (req: LimitedRequest, res: ServerResponse) => (await admit(guard, node, req, res)) === 'passed',
  )
}

import type { ServerResponse } from 'node:http'
import type { Decision } from '../core/decision.js'

/**
 * What the guard asks of a web framework. An adapter answers and decides nothing. Names of header fields are given in
 * lower case.
 */
export interface Framework<Request, Response> {
  readonly name: string
  /** The client's address, with what the proxies say that the framework trusts; undefined or '' if there is none. */
  address(req: Request): string | undefined
  /** True if the framework believes what a proxy says of the client. */
  trustsProxy(req: Request): boolean
  /** How it is told to, in a line of code. */
  readonly trustProxy: string
  /** True if the connection has ended. */
  isGone(req: Request): boolean
  requestHeader(req: Request, name: string): string | undefined
  /** A field that has been set on the response so far. */
  responseHeader(res: Response, name: string): string | undefined
  /** Node's own response, which tells when it has been sent and when the client has gone. */
  rawResponse(res: Response): ServerResponse
  /** The decision that an earlier limiter left on this request. */
  decision(req: Request, res: Response): Decision | undefined
}

import type { Decision } from '../core/decision.js'
import type { ResponseWatch } from './response-watch.js'

/**
 * Whose claims about the client's address a framework believes. Those of any client: a clause for messages names the setting, like
 * "Express takes the leftmost address of X-Forwarded-For (app.set('trust proxy', true))".
 */
export type Trust = 'nobody' | 'some' | { readonly anybody: string }

/**
 * The port to a web framework: what is asked of it. An adapter answers these calls and decides nothing; how an answer is written is
 * its `Delivery`. Header field names are lower case.
 */
export interface Framework<Request, Response> {
  readonly name: string
  /** The client's address, considering the proxies that the framework trusts; undefined or '' if there is none. `peer`: that of the connection, if it is still there. */
  address(req: Request, peer: string): string | undefined
  /** The address of the connection, regardless of proxies; '' if it has none, as over a Unix socket; undefined: the client has gone. */
  peer(req: Request): string | undefined
  trust(req: Request): Trust
  requestHeader(req: Request, name: string): string | undefined
  /** A header field set on the response so far. */
  responseHeader(res: Response, name: string, req: Request): string | undefined
  /** Reports when the handler has ended the response; all callers for one response share the watch. */
  watch(res: Response, req: Request): ResponseWatch
  /** The decision that an earlier limiter stored on this request. */
  decision(req: Request, res: Response): Decision | undefined
}

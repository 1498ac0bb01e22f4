import type { Decision } from '../core/decision.js'
import type { ResponseWatch } from './response-watch.js'

/** 'anybody': the framework believes any client's claim about its address. */
export type Trust = 'nobody' | 'some' | 'anybody'

/**
 * The port to a web framework: what is asked of it. An adapter answers these calls and decides nothing; how an answer is written is
 * its `Delivery`. Header field names are lower case.
 */
export interface Framework<Request, Response> {
  readonly name: string
  /** The client's address, considering the proxies that the framework trusts; undefined or '' if there is none. */
  address(req: Request): string | undefined
  /** The address of the connection, regardless of proxies; undefined or '' if there is none. */
  peer(req: Request): string | undefined
  /** Whose claims about the client's address the framework trusts. */
  trust(req: Request): Trust
  /** A clause for messages: the setting by which the framework trusts anybody. */
  readonly trustsAnybody: string
  /** True if the connection has ended. */
  isGone(req: Request): boolean
  requestHeader(req: Request, name: string): string | undefined
  /** A header field set on the response so far. */
  responseHeader(res: Response, name: string, req: Request): string | undefined
  /** Reports when the handler has ended the response; all callers for one response share the watch. */
  watch(res: Response, req: Request): ResponseWatch
  /** The decision that an earlier limiter stored on this request. */
  decision(req: Request, res: Response): Decision | undefined
}

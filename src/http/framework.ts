import type { Decision } from '../core/decision.js'
import type { ResponseWatch } from './response-watch.js'

/** 'anybody': a client that says what its address is is believed. */
export type Trust = 'nobody' | 'some' | 'anybody'

/**
 * The port to a web framework. An adapter answers these calls and decides nothing. Names of header fields are given in
 * lower case.
 */
export interface Framework<Request, Response> {
  readonly name: string
  /** The client's address, with what the proxies say that the framework trusts; undefined or '' if there is none. */
  address(req: Request): string | undefined
  /** The address of the connection, whatever proxies say; undefined or '' if there is none. */
  peer(req: Request): string | undefined
  /** Whom the framework believes what they say of the client's address. */
  trust(req: Request): Trust
  /** A clause for people: the setting by which the framework trusts anybody. */
  readonly trustsAnybody: string
  /** True if the connection has ended. */
  isGone(req: Request): boolean
  requestHeader(req: Request, name: string): string | undefined
  /** A field that has been set on the response so far. */
  responseHeader(res: Response, name: string, req: Request): string | undefined
  /** Tells when the handler has ended the response; the same watch for all who ask about one response. */
  watch(res: Response, req: Request): ResponseWatch
  /** The decision that an earlier limiter left on this request. */
  decision(req: Request, res: Response): Decision | undefined
}

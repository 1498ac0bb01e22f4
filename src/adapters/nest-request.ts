import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Request as ExpressRequest } from 'express'
import type { Decision } from '../core/decision.js'
import type { Framework, Trust } from '../http/framework.js'
import type { Fields } from '../http/headers.js'
import { watchResponse } from '../http/node-response.js'
import { decisionOn, leaveDecision } from './express-request.js'

/** The common part of Express and Fastify requests. */
export interface NestRequest {
  /** The client's address, as the platform reports it. */
  readonly ip?: string
  /** Header fields of the request. */
  readonly headers: IncomingMessage['headers']
  /** The strictest decision of the rate limiters that this request has passed; undefined if none limited it. */
  rateLimit?: Decision
}

/** The common part of Express responses and Fastify replies. */
export interface NestResponse {
  /** The status of the response. */
  readonly statusCode: number
  /** Reads a header field of the response. */
  getHeader(name: string): number | string | string[] | undefined
  /** Removes a header field of the response. */
  removeHeader(name: string): unknown
  /** Sets the status. */
  status(code: number): unknown
}

interface FastifyRequest extends NestRequest {
  readonly raw: IncomingMessage
  /** Only present if Fastify trusts proxies. */
  readonly ips?: readonly string[]
}

interface FastifyReply extends NestResponse {
  readonly raw: ServerResponse
  header(name: string, value: string): unknown
}

/** The framework adapter for Nest over Express or Fastify. */
export const nest: Framework<NestRequest, NestResponse> = {
  name: 'Nest',
  address: req => req.ip,
  peer: req => messageOf(req).socket.remoteAddress,
  trust: trustOf,
  trustsAnybody: "Express takes the leftmost address of X-Forwarded-For (app.set('trust proxy', true))",
  isGone: req => messageOf(req).socket.destroyed,
  requestHeader(req, name) {
    // Nest does not negotiate content types: the body of an HttpException is an object.
    return name === 'accept' ? 'application/json' : (req.headers[name] as string | undefined)
  },
  responseHeader: (res, name) => res.getHeader(name)?.toString(),
  watch: res => watchResponse(rawOf(res)),
  decision: req => (isFastify(req) ? req.rateLimit : decisionOn(req as ExpressRequest)),
}

/** Stores a decision where services look for it, as `req.rateLimit`. */
export function noteDecision(req: NestRequest, decision: Decision): void {
  if (isFastify(req)) req.rateLimit = decision
  else leaveDecision(req as ExpressRequest, decision)
}

export function setFields(res: NestResponse, fields: Fields): void {
  if ('raw' in res) for (const name in fields) (res as FastifyReply).header(name, fields[name])
  else for (const name in fields) (res as unknown as ServerResponse).setHeader(name, fields[name])
}

/** True if the header fields have been sent. */
export function isSent(res: NestResponse): boolean {
  return rawOf(res).headersSent
}

function trustOf(req: NestRequest): Trust {
  if (isFastify(req)) return req.ips === undefined ? 'nobody' : 'some'
  const setting: unknown = (req as ExpressRequest).app.get('trust proxy')
  if (setting === true) return 'anybody'
  return setting ? 'some' : 'nobody'
}

function isFastify(req: NestRequest): req is FastifyRequest {
  return 'raw' in req
}

function messageOf(req: NestRequest): IncomingMessage {
  return isFastify(req) ? req.raw : (req as ExpressRequest)
}

function rawOf(res: NestResponse): ServerResponse {
  return 'raw' in res ? (res as FastifyReply).raw : (res as unknown as ServerResponse)
}

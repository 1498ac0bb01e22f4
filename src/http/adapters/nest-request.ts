import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Request as ExpressRequest } from 'express'
import type { Decision } from '../../limiter/core/decision.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { nodePeer } from '../address/client.js'
import type { Delivery, Framework, Trust } from '../framework.js'
import { setNodeFields } from '../node-delivery.js'
import { watchResponse } from '../node-response.js'
import { type Body, refuse } from '../refusal.js'
import { trustOf as expressTrust, leaveDecision } from './express-request.js'
import { trustOf as fastifyTrust } from './fastify-request.js'

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
  headers(fields: Readonly<Record<string, string>>): unknown
}

/** What functions of the options receive: request and response of the platform. */
export type NestArgs = [req: NestRequest, res: NestResponse]

/** The framework adapter for Nest over Express or Fastify. */
export const nest: Framework<NestRequest, NestResponse, NestArgs> & Delivery<NestRequest, NestResponse> = {
  name: 'Nest',
  args: (req, res) => [req, res],
  address: req => req.ip,
  peer: req => nodePeer(messageOf(req)),
  trust: trustOf,
  requestHeader(req, name) {
    // Nest does not negotiate content types: the body of an HttpException is an object.
    return name === 'accept' ? 'application/json' : (req.headers[name] as string | undefined)
  },
  watch: res => watchResponse(rawOf(res)),
  leaveDecision(req, decision) {
    if (isFastify(req)) req.rateLimit = decision
    else leaveDecision(req as ExpressRequest, decision)
  },
  isSent: res => rawOf(res).headersSent,
  setFields(res, fields) {
    if ('raw' in res) (res as FastifyReply).headers(fields)
    else setNodeFields(res as unknown as ServerResponse, fields)
  },
  removeField: (res, name) => void res.removeHeader(name),
  status: res => res.statusCode,
  setStatus: (res, status) => void res.status(status),
  write: (res, body, req) => keepRefusal(req, res, parsed(body, res.statusCode, req.rateLimit)),
}

/** Each Fastify instance has its own class of requests, with its setting. */
const TRUST = new WeakMap<object, Trust>()

function trustOf(req: NestRequest): Trust {
  if (!isFastify(req)) return expressTrust(req as ExpressRequest)
  return getOrMake(TRUST, Object.getPrototypeOf(req), () => fastifyTrust(req))
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

const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM_TYPE = 'application/problem+json'

/** The body of an exception, with its type. */
type Said = readonly [type: string, body: object]

/** The bodies of requests that were refused. */
const REFUSALS = new WeakMap<NestRequest, object>()

/** Stores what a service's own `handler` returned, as the body of the exception. */
export function keepWorded(req: NestRequest, res: NestResponse, value: unknown, decision: Decision): void {
  keepRefusal(req, res, said(value, res.statusCode, decision))
}

/** The body of the exception for a refused request; undefined if the response was sent before. Available once. */
export function refusalOf(req: NestRequest): object | undefined {
  const body = REFUSALS.get(req)
  REFUSALS.delete(req)
  return body
}

function keepRefusal(req: NestRequest, res: NestResponse, [type, body]: Said): void {
  if (!nest.isSent(res)) nest.setFields(res, { 'Content-Type': type }, req)
  REFUSALS.set(req, body)
}

/** Nest would send a text as text, or wrap it in its own object: both become problem details. */
function parsed({ type, text }: Body, status: number, decision: Decision | undefined): Said {
  if (type.startsWith('text/')) return said(text, status, decision)
  const value: unknown = JSON.parse(text)
  return type === PROBLEM_TYPE ? [type, value as object] : said(value, status, decision)
}

function said(value: unknown, status: number, decision: Decision | undefined): Said {
  if (typeof value === 'object' && value !== null) return [JSON_TYPE, value]
  const problem = decision === undefined ? {} : JSON.parse(refuse(decision, status, 'application/json').body.text)
  return [PROBLEM_TYPE, value === undefined ? problem : { ...problem, detail: String(value) }]
}

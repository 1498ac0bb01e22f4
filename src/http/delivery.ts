import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import type { Decision } from '../core/decision.js'
import type { Fields } from './headers.js'
import type { Body } from './refusal.js'
import type { Reply } from './reply.js'
import { isPromise, type SyncOrAsync } from './sync-or-async.js'

/** What to do with a request. */
export interface Answer {
  /** To store on the request: the strictest decision on it so far. undefined: the request is not limited. */
  readonly decision: Decision | undefined
  /** To set on the response. */
  readonly fields: Fields
  /** To send instead of passing the request on, after decision, fields and status are set. */
  readonly refusal: Reply | undefined
  /** The client has gone: there is no one to answer. */
  readonly gone?: true
}

/** The request is passed on, with nothing to set. */
export const PASS: Answer = Object.freeze({ decision: undefined, fields: Object.freeze({}), refusal: undefined })
/** No handler runs, because the client has gone. */
export const GONE: Answer = Object.freeze({ ...PASS, gone: true })

/** Decides requests: a rate limit, a concurrency limit or load shedding. */
export interface Gate<Request, Response> {
  /** Throws or rejects if a function of the options fails. */
  answer(req: Request, res: Response): SyncOrAsync<Answer>
}

/** How an answer is written: the part of the port to a web framework that changes request and response. */
export interface Delivery<Request, Response> {
  /** Stores a decision where services look for it, and where `Framework.decision` finds it. */
  leaveDecision(req: Request, decision: Decision, res: Response): void
  /** True if the header fields have been sent: nothing can be set any more. */
  isSent(res: Response): boolean
  setField(res: Response, name: string, value: string, req: Request): void
  removeField(res: Response, name: string, req: Request): void
  status(res: Response, req: Request): number
  setStatus(res: Response, status: number, req: Request): void
  /** Answers with a body. Status and header fields are set. */
  write(res: Response, body: Body, req: Request): void
}

/** What became of a request. Only one that has passed may be handled. */
export type Delivered = 'passed' | 'refused' | 'gone'

/** Decides a request and carries out the answer; synchronously, if the gate answers synchronously. Throws or rejects if a function of the options fails. */
export function admit<Request, Response>(
  gate: Gate<Request, Response>,
  port: Delivery<Request, Response>,
  req: Request,
  res: Response,
): SyncOrAsync<Delivered> {
  const answer = gate.answer(req, res)
  return isPromise(answer) ? answer.then(answer => deliver(answer, port, req, res)) : deliver(answer, port, req, res)
}

/** Carries out an answer. */
export function deliver<Request, Response>(
  { decision, fields, refusal, gone }: Answer,
  port: Delivery<Request, Response>,
  req: Request,
  res: Response,
): SyncOrAsync<Delivered> {
  if (gone) return 'gone'
  if (decision !== undefined) port.leaveDecision(req, decision, res)
  const sent = port.isSent(res)
  if (!sent) for (const name in fields) port.setField(res, name, fields[name], req)
  if (refusal === undefined) return 'passed'
  return sent ? 'refused' : refuse(refusal, port, req, res)
}

function refuse<Request, Response>(
  reply: Reply,
  port: Delivery<Request, Response>,
  req: Request,
  res: Response,
): SyncOrAsync<Delivered> {
  const before = port.status(res, req)
  port.setStatus(res, reply.status, req)
  const write = (body: Body | undefined): Delivered => {
    if (body !== undefined && !port.isSent(res)) port.write(res, body, req)
    return 'refused'
  }
  // Express, Koa and Fastify answer an error with the status of the response, if that is an error status.
  const undo = (error: unknown): never => {
    if (!port.isSent(res)) {
      port.setStatus(res, before, req)
      port.removeField(res, 'Retry-After', req)
    }
    throw error
  }
  try {
    const body = reply.body()
    return isPromise(body) ? body.then(write).then(undefined, undo) : write(body)
  } catch (error) {
    return undo(error)
  }
}

type NodeRequest = IncomingMessage | Http2ServerRequest
type NodeResponse = ServerResponse | Http2ServerResponse

/** How an answer is written on Node's own response. */
export const toNodeResponse: Omit<Delivery<NodeRequest, NodeResponse>, 'leaveDecision'> = {
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

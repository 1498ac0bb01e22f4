import type { Decision } from '../limiter/core/decision.js'
import { callOption, type OptionFunction } from './call-option.js'
import type { Fields } from './headers.js'
import { type Body, bodyOf, type Refusal } from './refusal.js'
import type { ResponseWatch } from './response-watch.js'
import { after, isPromise, type SyncOrAsync } from './sync-or-async.js'

/** The answer that is sent instead of passing a request on. */
export interface Reply {
  readonly status: number
  /**
   * The body. Call it after the status and all fields are set and the decision is on the request; undefined if the
   * service's own handler has answered. Throws or rejects if a function of the options does.
   */
  body(): SyncOrAsync<Body | undefined>
}

/** A service's own refusal texts. */
interface Wording<Args extends readonly unknown[]> {
  readonly handler: ((...args: Args) => unknown) | undefined
  /** A body, or a function that returns one. */
  readonly message: unknown
}

/** The package's own reply for a refusal. */
export function plainReply({ status, body }: Refusal): Reply {
  return { status, body: () => body }
}

/**
 * The service's own reply, if it has one. `args`: what its functions receive. `user` names the middleware in errors.
 */
export function wordedReply<Args extends readonly unknown[]>(
  refusal: Refusal,
  { handler, message }: Wording<Args>,
  user: string,
  args: Args,
): Reply {
  const { status } = refusal
  if (handler !== undefined) {
    return { status, body: () => after(callOption(handler, args, user), () => undefined) }
  }
  if (typeof message === 'function') {
    const bodyFrom = (own: unknown) => (own === undefined ? refusal.body : bodyOf(own))
    return { status, body: () => after(callOption(message as OptionFunction<Args, unknown>, args, user), bodyFrom) }
  }
  return message === undefined ? plainReply(refusal) : { status, body: () => bodyOf(message) }
}

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
  /** Stores the strictest decision where services look for it. */
  leaveDecision(req: Request, decision: Decision, res: Response): void
  /** True if the header fields have been sent: nothing can be set any more. */
  isSent(res: Response): boolean
  setFields(res: Response, fields: Fields, req: Request): void
  removeField(res: Response, name: string, req: Request): void
  status(res: Response, req: Request): number
  setStatus(res: Response, status: number, req: Request): void
  /** Answers with a body. Status and header fields are set; `status`: for frameworks that do not tell it. */
  write(res: Response, body: Body, req: Request, status: number): void
}

/** What became of a request. Only one that has passed may be handled. */
export type Delivered = 'passed' | 'refused' | 'gone'

/**
 * Decides a request and carries out the answer; synchronously, if the gate answers synchronously. Throws or rejects if
 * a function of the options fails.
 */
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
  if (!sent) port.setFields(res, fields, req)
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
    if (body !== undefined && !port.isSent(res)) port.write(res, body, req, reply.status)
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

/**
 * Whose claims about the client's address a framework believes. Those of any client: a clause for messages names the
 * setting, like "Express takes the leftmost address of X-Forwarded-For (app.set('trust proxy', true))".
 */
export type Trust = 'nobody' | 'some' | { readonly anybody: string }

/**
 * The port to a web framework: what is asked of it. An adapter answers these calls and decides nothing; how an answer
 * is written is its `Delivery`. Header field names are lower case.
 */
export interface Framework<Request, Response, Args extends readonly unknown[] = [Request, Response]> {
  readonly name: string
  /** What functions of the options receive: the request and the response, or a context that stands for both. */
  args(req: Request, res: Response): Args
  /**
   * The client's address, considering the proxies that the framework trusts; undefined or '' if there is none. `peer`:
   * that of the connection, if it is still there.
   */
  address(req: Request, peer: string): string | undefined
  /**
   * The address of the connection, regardless of proxies; '' if it has none, as over a Unix socket; undefined: the
   * client has gone.
   */
  peer(req: Request): string | undefined
  /** How a service passes the address, if only the service knows it: for messages. */
  readonly passes?: string
  trust(req: Request): Trust
  requestHeader(req: Request, name: string): string | undefined
  /** Reports when the handler has ended the response; all callers for one response share the watch. */
  watch(res: Response, req: Request): ResponseWatch
}

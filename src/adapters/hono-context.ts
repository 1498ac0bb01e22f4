import type { Context } from 'hono'
import { type BunServer, type FromNode, nodePeer, webPeer } from '../http/address/peer.js'
import type { Delivery } from '../http/delivery.js'
import type { Framework } from '../http/framework.js'
import { knownResponseWatch, type NodeResponse, watchResponse } from '../http/node-response.js'
import type { ResponseEnd, ResponseWatch } from '../http/response-watch.js'
import { followResponse, knownWatch, watchRequest } from '../http/web-response.js'

/** What Hono's runtimes report about a connection, in `c.env`. */
interface Bindings extends Partial<BunServer> {
  /** @hono/node-server */
  readonly incoming?: FromNode & { readonly headers: Record<string, string | string[] | undefined> }
  readonly outgoing?: NodeResponse
  /** Deno */
  readonly remoteAddr?: { readonly hostname?: string }
  /** Bun, or one of the above in `server` */
  readonly server?: Bindings
}

/** The responses that requests get from others than their handlers: refusals, and the answers to errors that nobody has handled yet. */
const STAND_INS = new WeakMap<Context, Response>()

/** Stores the response that the middleware returns for a refusal. */
export function keepRefusal(c: Context, response: Response): void {
  STAND_INS.set(c, response)
}

/** The response of a refusal; an empty one if nothing was written. No handler runs; whether it is sent matters only to runtimes that tell. */
export function refused(c: Context): Response {
  const outgoing = outgoingOf(c)
  if (outgoing === undefined) knownWatch(c.req.raw)?.end()
  else knownResponseWatch(outgoing)?.handOver()
  return STAND_INS.get(c) ?? c.body(null)
}

/** No handler runs, because the client has gone. */
export function gone(c: Context): Response {
  knownWatchOf(c)?.end()
  return c.body(null)
}

/** The handlers have failed, and nobody within the limiter has answered for them. Node tells what is sent instead; other runtimes do not. */
export function failed(c: Context): void {
  STAND_INS.set(c, new Response(null, { status: 500 }))
  const outgoing = outgoingOf(c)
  if (outgoing === undefined) knownWatch(c.req.raw)?.end()
  else knownResponseWatch(outgoing)?.handOver()
}

/** The handlers have returned a response. Node tells what becomes of it; for other runtimes its body is followed. `asked`: the request as the limiter saw it. */
export function returned(asked: Request, c: Context): void {
  const outgoing = outgoingOf(c)
  if (outgoing !== undefined) {
    knownResponseWatch(outgoing)?.handOver()
    return
  }
  const watch = knownWatch(asked)
  if (watch === undefined) return
  // A server neither reads nor cancels the body of a response to HEAD.
  if (c.req.method === 'HEAD') watch.end()
  const followed = followResponse(c.res, asked)
  if (followed !== c.res) replace(followed, c)
}

/** Calls a function that looks at the response of a request that has ended. A context that was given none shows the one that was sent for it. */
export function lookAt<Result>(c: Context, { ended }: ResponseEnd, look: () => Result): Result {
  if (!ended || c.finalized) return look()
  const outgoing = outgoingOf(c)
  const status = outgoing?.headersSent ? outgoing.statusCode : STAND_INS.get(c)?.status
  if (status === undefined) return look()
  const { res } = c
  replace(new Response(null, { status, headers: res.headers }), c)
  try {
    return look()
  } finally {
    replace(res, c)
    c.finalized = false
  }
}

/** Hono would otherwise add the fields of the previous response. */
export function replace(response: Response, c: Context): void {
  c.res = undefined
  c.res = response
}

export const hono: Framework<Context, Context> & Delivery<Context, Context> = {
  name: 'Hono',
  address: (_, peer) => peer,
  peer: peerOf,
  trust: () => 'nobody',
  requestHeader: headerOf,
  // `c.res` of Hono 3 is a response without the fields that were set on the context.
  responseHeader: (c, name) => c.newResponse(null).headers.get(name) ?? undefined,
  watch: watchOf,
  decision: c => c.get('rateLimit'),
  leaveDecision: (c, decision) => c.set('rateLimit', decision),
  // A response is returned, not sent.
  isSent: () => false,
  setField: (c, name, value) => c.header(name, value),
  removeField: (c, name) => c.header(name, undefined),
  // The context does not tell the status of a response that does not exist yet.
  status: () => 200,
  setStatus: (c, status) => c.status(status as 200),
  write(c, { type, text }) {
    // Hono 3 gives a response the status of the context only if the call has no options.
    c.header('Content-Type', type)
    keepRefusal(c, c.body(text))
  },
}

function watchOf(c: Context): ResponseWatch {
  const outgoing = outgoingOf(c)
  return outgoing === undefined ? watchRequest(c.req.raw) : watchResponse(outgoing)
}

function knownWatchOf(c: Context): ResponseWatch | undefined {
  const outgoing = outgoingOf(c)
  return outgoing === undefined ? knownWatch(c.req.raw) : knownResponseWatch(outgoing)
}

/** The address of the connection; '' if the runtime does not report it; undefined: the client has gone. */
function peerOf(c: Context): string | undefined {
  const env = c.env as Bindings | undefined
  const incoming = incomingOf(c)
  if (incoming !== undefined) return nodePeer(incoming)
  const server = env?.server ?? env
  return webPeer(c.req.raw, server?.remoteAddr?.hostname, server)
}

/** Node has parsed the fields already; Hono would copy all to return one. */
function headerOf(c: Context, name: string): string | undefined {
  const incoming = incomingOf(c)
  return incoming === undefined ? c.req.header(name) : (incoming.headers[name] as string | undefined)
}

function incomingOf({ env }: Context): Bindings['incoming'] {
  return (env as Bindings | undefined)?.incoming ?? (env as Bindings | undefined)?.server?.incoming
}

/** The response of Node to which the runtime will write that of the context. */
function outgoingOf({ env }: Context): NodeResponse | undefined {
  return (env as Bindings | undefined)?.outgoing ?? (env as Bindings | undefined)?.server?.outgoing
}

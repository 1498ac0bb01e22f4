import type { Context } from 'hono'
import { type BunServer, type FromNode, nodePeer, webPeer } from '../http/address/peer.js'
import type { Delivery } from '../http/delivery.js'
import type { Framework } from '../http/framework.js'
import { watchRequest } from '../http/web-response.js'

/** What Hono's runtimes report about a connection, in `c.env`. */
interface Bindings extends Partial<BunServer> {
  /** @hono/node-server */
  readonly incoming?: FromNode & { readonly headers: Record<string, string | string[] | undefined> }
  /** Deno */
  readonly remoteAddr?: { readonly hostname?: string }
  /** Bun, or one of the above in `server` */
  readonly server?: Bindings
}

/** Responses with which the limiter answers a refused request. */
const REFUSALS = new WeakMap<Context, Response>()

/** Stores the response that the middleware returns for a refusal. */
export function keepRefusal(c: Context, response: Response): void {
  REFUSALS.set(c, response)
}

/** The response of a refusal; an empty one if nothing was written. */
export function refusalOf(c: Context): Response {
  return REFUSALS.get(c) ?? c.body(null)
}

export const hono: Framework<Context, Context> & Delivery<Context, Context> = {
  name: 'Hono',
  address: peerOf,
  peer: peerOf,
  trust: () => 'nobody',
  requestHeader: headerOf,
  // `c.res` of Hono 3 is a response without the fields that were set on the context.
  responseHeader: (c, name) => c.newResponse(null).headers.get(name) ?? undefined,
  watch: c => watchRequest(c.req.raw),
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

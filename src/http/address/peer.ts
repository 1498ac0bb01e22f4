/** The parts of a connection in Node that say where it comes from; over HTTP/2 they are those of the session. */
interface NodeSocket {
  readonly remoteAddress?: string | undefined
  readonly destroyed?: boolean
  /** Set by Node, also when a service hands a connection to the server. */
  readonly server?: { address?(): unknown }
  /** Node's own part of an open connection. */
  readonly _handle?: { readonly getpeername?: unknown } | null
  destroy?(): unknown
}

/** A request of `node:http` or of the compatibility API of `node:http2`. */
export interface FromNode {
  readonly socket?: object | null
}

/**
 * The address of the connection of a request that Node has received: '' if it has none, as over a Unix socket; undefined if its client
 * has gone.
 *
 * A client that resets its connection right after its request leaves the request behind, but the system forgets its address. So a
 * missing address says nothing about the kind of the connection.
 */
export function nodePeer({ socket }: FromNode): string | undefined {
  const connection = socket as NodeSocket | undefined | null
  try {
    const address = connection?.remoteAddress
    if (address) return address
    if (!connection || !isOverTcp(connection)) return ''
    // Node notices the reset when it reads on, which it does not do while nobody reads the body of this request.
    connection.destroy?.()
  } catch {
    // The socket of an HTTP/2 session that has been destroyed throws whatever is asked.
  }
  return undefined
}

function isOverTcp(connection: NodeSocket): boolean {
  const listensOn = connection.server?.address?.()
  if (typeof listensOn === 'string') return false
  if (connection.destroyed || typeof connection._handle?.getpeername === 'function') return true
  // A stream that a service hands to its server as a connection has no such property.
  return Boolean(listensOn) && 'remoteAddress' in connection
}

/** What a server of Bun says of its requests. */
export interface BunServer {
  requestIP(request: Request): { readonly address: string } | null
  /** undefined over a Unix socket. */
  readonly port?: number
}

/**
 * The same for a web platform request, from the address as the runtime reports it, or from the server of Bun, which like Node forgets the addresses of connections that were reset.
 * Some runtimes never report an address.
 */
export function webPeer(
  request: Request,
  reported: string | undefined,
  server?: Partial<BunServer>,
): string | undefined {
  const asks = typeof server?.requestIP === 'function'
  const address = (asks ? server.requestIP?.(request)?.address : undefined) || reported
  if (address) return address
  // Reading the signal is expensive on some servers.
  return (asks && server.port) || request.signal.aborted ? undefined : ''
}

import type { Socket } from 'node:net'

/** The options of a client of postgres, as it has parsed them. */
interface PostgresOptions {
  readonly host?: unknown
  readonly port?: unknown
  readonly path?: unknown
  socket?: unknown
}

const KNOWN = new WeakMap<object, PostgresSockets>()

/**
 * The sockets of a client of postgres, which offers no way to give a connection up. They are opened as it would open
 * them itself, through its option `socket`.
 */
export class PostgresSockets {
  readonly #opened = new Set<Socket>()
  #next = 0

  /** Undefined: the user opens them, or this runtime has none. */
  static of({ options }: { readonly options?: PostgresOptions }): PostgresSockets | undefined {
    const net = globalThis.process?.getBuiltinModule?.('node:net')
    if (options === undefined || net === undefined) return undefined
    const known = KNOWN.get(options)
    if (known !== undefined || options.socket) return known
    const sockets = new PostgresSockets()
    options.socket = (given: PostgresOptions) => sockets.#open(new net.Socket(), given)
    KNOWN.set(options, sockets)
    return sockets
  }

  /** A function that drops the connection of the statement that is sent now, if it has been silent since. */
  watch(): (error: Error) => void {
    const before = new Map([...this.#opened].map(socket => [socket, socket.bytesWritten]))
    let asked: Array<readonly [Socket, bytesRead: number]> = []
    // It is written at the end of this turn of the event loop.
    setImmediate(() =>
      setImmediate(() => {
        asked = [...this.#opened]
          .filter(socket => socket.bytesWritten !== before.get(socket))
          .map(socket => [socket, socket.bytesRead])
      }),
    )
    return error => {
      for (const [socket, bytesRead] of asked) if (socket.bytesRead === bytesRead) socket.destroy(error)
    }
  }

  #open(socket: Socket, { host, port, path }: PostgresOptions): Socket {
    this.#opened.add(socket)
    socket.once('close', () => this.#opened.delete(socket))
    if (typeof path === 'string') return socket.connect(path)
    const [hosts, ports] = [host as string[], port as number[]]
    const place = this.#next++ % ports.length
    socket.connect(ports[place], hosts[place])
    // Where it looks for the name in the server's certificate.
    return Object.assign(socket, { host: hosts[place], port: ports[place] })
  }
}

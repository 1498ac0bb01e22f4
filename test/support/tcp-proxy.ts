import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './free-port.js'

/** One direction of a connection: what goes through arrives in order, however long each piece was held up. */
class Lane {
  #queue: Buffer[] = []
  #lastDue = 0
  /** This connection alone is a hole. */
  isHole = false

  constructor(
    readonly from: Socket,
    readonly to: Socket,
    readonly proxy: TcpProxy,
    readonly count: (bytes: number) => void,
    readonly delayMs: () => number,
  ) {
    from.on('data', piece => this.#take(piece))
  }

  /** Lets go what a hole has held. */
  release(): void {
    const held = this.#queue
    this.#queue = []
    for (const piece of held) this.#give(piece)
  }

  #take(piece: Buffer): void {
    this.count(piece.length)
    const now = performance.now()
    this.#lastDue = Math.max(this.#lastDue, now + this.delayMs())
    this.#queue.push(piece)
    if (this.#lastDue <= now && this.#queue.length === 1) this.#pass()
    // One timer a piece, and each lets the oldest go: timers alone would not keep the order.
    else setTimeout(() => this.#pass(), this.#lastDue - now).unref()
  }

  #pass(): void {
    if (this.proxy.isHole || this.isHole) return
    const piece = this.#queue.shift()
    if (piece) this.#give(piece)
  }

  #give(piece: Buffer): void {
    if (!this.to.destroyed) this.to.write(piece)
  }
}

/** A TCP proxy on loopback before a server, which can do to connections what networks do. */
export class TcpProxy {
  /** How long an answer of the server is held up; asked anew for each piece. */
  delayMs: () => number = () => 0
  /** Connections that were accepted, since the proxy was started. */
  accepted = 0
  /** What clients sent and what they were sent, since the proxy was started. */
  readonly bytes = { up: 0, down: 0 }
  isHole = false
  readonly #sockets = new Set<Socket>()
  readonly #lanes = new Set<Lane>()
  readonly #server: Server
  #port = 0

  private constructor(
    readonly target: number,
    readonly host: string,
  ) {
    this.#server = createServer(client => this.#join(client))
  }

  /** `host`: an address of this machine, like 127.0.0.2. */
  static async start(target: number, host = '127.0.0.1'): Promise<TcpProxy> {
    for (;;) {
      const proxy = new TcpProxy(target, host)
      // None that the system gives to others while the proxy refuses connections.
      proxy.#port = await freePort()
      try {
        await proxy.accept()
        return proxy
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
      }
    }
  }

  get port(): number {
    return this.#port
  }

  /** From now on nothing passes, and nobody is told: connections stay open, new ones are accepted and hear nothing. */
  swallow(): void {
    this.isHole = true
  }

  /** Nothing more passes over the connection that was opened last; others, and new ones, are as they should be. */
  swallowNewest(): void {
    for (const lane of [...this.#lanes].slice(-2)) lane.isHole = true
  }

  /** What was swallowed comes out on the other side after all, as TCP sends again what a network lost. */
  release(): void {
    this.isHole = false
    for (const lane of this.#lanes) lane.release()
  }

  /** As a host without a server: connections are reset, new ones refused, until `accept`. */
  refuse(): Promise<void> {
    return this.stop()
  }

  /** After `refuse`, on the same port. */
  accept(): Promise<void> {
    return new Promise((done, fail) => {
      this.#server.once('error', fail)
      this.#server.listen(this.#port, this.host, done)
    })
  }

  /** Resets every connection. */
  cut(): void {
    for (const socket of this.#sockets) reset(socket)
  }

  async stop(): Promise<void> {
    const closed = new Promise(done => this.#server.close(done))
    this.cut()
    await closed
  }

  #join(client: Socket): void {
    this.accepted++
    const server = connect({ port: this.target, host: '127.0.0.1', noDelay: true })
    client.setNoDelay(true)
    const lanes = [
      new Lane(
        client,
        server,
        this,
        bytes => {
          this.bytes.up += bytes
        },
        () => 0,
      ),
      new Lane(
        server,
        client,
        this,
        bytes => {
          this.bytes.down += bytes
        },
        () => this.delayMs(),
      ),
    ]
    for (const lane of lanes) this.#lanes.add(lane)
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ]) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#sockets.delete(socket)
        for (const lane of lanes) this.#lanes.delete(lane)
        // A hole does not say that the other end has gone.
        if (!this.isHole) other.destroy()
      })
    }
  }
}

/**
 * What is ending already is only closed: libuv does not reset it, and Node then takes the handle for closed, which it
 * never is. The socket stays, and at its end the process spins for ever in waiting for it.
 */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}

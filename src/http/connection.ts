import type { Socket } from 'node:net'

const CONNECTIONS = new WeakMap<Socket, Connection>()

/**
 * The requests of one connection that must learn of its loss. A response that waits behind another one on its connection
 * receives no event itself: Node 20 and 22 emit neither 'finish' nor 'close' for it.
 */
export class Connection {
  static of(socket: Socket): Connection {
    let connection = CONNECTIONS.get(socket)
    if (connection === undefined) {
      connection = new Connection(socket)
      CONNECTIONS.set(socket, connection)
    }
    return connection
  }

  readonly #socket: Socket
  readonly #listeners = new Set<() => void>()

  private constructor(socket: Socket) {
    this.#socket = socket
  }

  /** One listener on the socket serves all: a client may pipeline hundreds of requests, and Node warns from the eleventh listener on. */
  add(lost: () => void): void {
    if (this.#listeners.size === 0) {
      this.#socket.on('close', this.#onClose)
      this.#socket.on('end', this.#onEnd)
    }
    this.#listeners.add(lost)
  }

  remove(lost: () => void): void {
    if (!this.#listeners.delete(lost) || this.#listeners.size > 0) return
    this.#socket.off('close', this.#onClose)
    this.#socket.off('end', this.#onEnd)
  }

  readonly #onClose = (): void => {
    for (const lost of [...this.#listeners]) lost()
  }

  /** The client has closed its half of the connection. Unless the server allows half-open connections, Node has closed the other half by now. */
  readonly #onEnd = (): void => {
    if (!this.#socket.writable) this.#onClose()
  }
}

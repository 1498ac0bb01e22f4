import { connect, type Socket } from 'node:net'

/** A client that writes its requests by hand: several in one write, or none of the answers read. */
export interface RawClient {
  readonly socket: Socket
  /** Sends a GET, or a POST without a body, for each path, all in one write. */
  send(...paths: string[]): void
  /** Everything received so far. */
  readonly received: string
  /** Closes the connection without reading what is left. */
  leave(): void
}

/** Connects to a server of this machine. With `reads: false` nothing is ever read. */
export async function rawClient(port: number, { reads = true } = {}): Promise<RawClient> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  socket.on('error', () => {})
  let received = ''
  if (reads) socket.setEncoding('latin1').on('data', text => (received += text))
  return {
    socket,
    send: (...paths) => void socket.write(paths.map(path => `GET ${path} HTTP/1.1\r\nHost: test\r\n\r\n`).join('')),
    get received() {
      return received
    },
    leave: () => void socket.destroy(),
  }
}

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

const REQUEST = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'

/** The statuses of requests on one connection, each sent when the one before was answered. */
export async function statusesInTurn(port: number, count: number): Promise<number[]> {
  const socket = await connected(port)
  const statuses: number[] = []
  for (let i = 0; i < count; i++) {
    socket.write(REQUEST)
    statuses.push(...(await readStatuses(socket, 1)))
  }
  socket.destroy()
  return statuses
}

/** The statuses of requests that arrive in one segment. */
export async function statusesAtOnce(port: number, count: number): Promise<number[]> {
  const socket = await connected(port)
  socket.write(REQUEST.repeat(count))
  const statuses = await readStatuses(socket, count)
  socket.destroy()
  return statuses
}

async function connected(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  return socket
}

/** Reads until so many answers have begun and nothing more comes for a moment. */
async function readStatuses(socket: Socket, count: number): Promise<number[]> {
  let text = ''
  const onData = (data: Buffer) => {
    text += data.toString('latin1')
  }
  socket.on('data', onData)
  const statuses = () => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
  const until = performance.now() + 5000
  while (statuses().length < count) {
    if (performance.now() > until) throw new Error(`${count} requests, but only these answers in 5 s: ${statuses()}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  // The rest of a body must not be taken for the beginning of the next answer.
  await new Promise(resolve => setTimeout(resolve, 20))
  socket.off('data', onData)
  return statuses()
}

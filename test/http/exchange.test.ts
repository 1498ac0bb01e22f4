import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { onEnd, stays } from '../../src/http/exchange.js'

type Handler = (req: IncomingMessage, res: ServerResponse) => void
const closers: Array<() => void> = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

/** A client that has asked, and whose socket is ours to destroy. */
async function ask(handler: Handler): Promise<Socket> {
  const server = createServer(handler)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  socket.resume()
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  closers.push(() => {
    socket.destroy()
    server.closeAllConnections()
    server.close()
  })
  return socket
}

const exchange = () =>
  new Promise<{ res: ServerResponse; socket: Socket }>(resolve => {
    const asked = ask((_, res) => asked.then(socket => resolve({ res, socket })))
  })

const ended = (res: ServerResponse) => new Promise<void>(resolve => onEnd(res, resolve))
const passed = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

describe('the end of a response', () => {
  test('is told once, when it is sent', async () => {
    const { res, socket } = await exchange()
    let calls = 0
    onEnd(res, () => calls++)
    await passed(5)
    expect(calls).toBe(0)
    res.end('x')
    await ended(res)
    socket.destroy()
    await new Promise(resolve => setImmediate(resolve))
    expect(calls).toBe(1)
  })

  test('is told when the client goes before it is sent', async () => {
    const { res, socket } = await exchange()
    const end = ended(res)
    socket.destroy()
    await end
    expect(res.writableFinished).toBe(false)
  })

  test('is told at once when it has been', async () => {
    const { res, socket } = await exchange()
    socket.destroy()
    await ended(res)
    let calls = 0
    onEnd(res, () => calls++)
    expect(calls).toBe(1)
  })

  test('is not told to who does not listen any more, and leaves no listener behind', async () => {
    const { res } = await exchange()
    const listeners = () => res.listenerCount('finish') + res.listenerCount('close')
    const before = listeners()
    let calls = 0
    onEnd(res, () => calls++)()
    expect(listeners()).toBe(before)
    res.end()
    await ended(res)
    expect([calls, listeners()]).toEqual([0, before])
  })
})

describe('a client', () => {
  test('that stays is waited for so long', async () => {
    const { res } = await exchange()
    const before = res.listenerCount('close')
    const startedAt = performance.now()
    expect(await stays(res, 50)).toBe(true)
    // A timer of Node may ring up to a millisecond early.
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(49)
    expect(res.listenerCount('close')).toBe(before)
  })

  test('that goes is not waited for', async () => {
    const { res, socket } = await exchange()
    const staying = stays(res, 3_600_000)
    socket.destroy()
    expect(await staying).toBe(false)
  })

  test('that has gone already does not stay', async () => {
    const { res, socket } = await exchange()
    socket.destroy()
    await ended(res)
    expect(await stays(res, 3_600_000)).toBe(false)
  })

  test('that waits longer than a timer can hold is not answered at once', async () => {
    const { res, socket } = await exchange()
    const staying = stays(res, 2 ** 40)
    let over = false
    void staying.then(() => {
      over = true
    })
    await passed(20)
    expect(over).toBe(false)
    socket.destroy()
    expect(await staying).toBe(false)
  })
})

import { EventEmitter, once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import { WebSocket, WebSocketServer } from 'ws'
import { limitMessages, type MessageLimitOptions } from '../../src/adapters/ws.js'
import { PolicyError } from '../../src/core/errors.js'
import { RateLimiter } from '../../src/index.js'
import { MemoryStore } from '../../src/stores/memory/memory-store.js'
import { ManualClock } from '../../src/testing.js'

/** Sends messages over a real WebSocket; what the server heard, and how the client was closed. */
async function sent(count: number, options: MessageLimitOptions<Buffer>) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  const heard: string[] = []
  server.on('connection', socket => {
    socket.on('message', data => heard.push(String(data)))
    limitMessages(socket, options)
  })
  await once(server, 'listening')
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  await once(client, 'open')
  const closed = once(client, 'close')
  for (let i = 1; i <= count; i++) client.send(`${i}`)
  // The close frame comes behind all messages.
  client.close(4000)
  const [code] = await closed
  for (const socket of server.clients) socket.terminate()
  await new Promise(resolve => server.close(resolve))
  return { heard, code }
}

const frozen = () => new MemoryStore({ clock: new ManualClock(0) })

describe('messages of ws', () => {
  test('over the limit reach no listener', async () => {
    expect(await sent(5, { policy: '3/1m', store: frozen() })).toEqual({ heard: ['1', '2', '3'], code: 4000 })
  })

  test('over the limit close the socket with 1008, and nothing that follows is heard', async () => {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
    const heard: string[] = []
    server.on('connection', socket => {
      limitMessages(socket, { policy: '2/1m', store: frozen(), onLimit: 'close' })
      socket.on('message', data => heard.push(String(data)))
    })
    await once(server, 'listening')
    const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
    await once(client, 'open')
    for (const text of ['1', '2', '3', '4']) client.send(text)
    const [code, reason] = await once(client, 'close')
    expect([code, String(reason), heard]).toEqual([1008, 'Too many messages', ['1', '2']])
    await new Promise(resolve => server.close(resolve))
  })

  test('over the limit are told to a function, with the decision', async () => {
    const told: unknown[] = []
    await sent(3, {
      policy: '2/1m',
      store: frozen(),
      onLimit: ({ retryAfterMs }, data) => told.push([retryAfterMs, String(data)]),
    })
    expect(told).toEqual([[60_000, '3']])
  })
})

describe('messages of any emitter', () => {
  function emitter(options: MessageLimitOptions<string>) {
    const socket = new EventEmitter()
    const heard: unknown[] = []
    socket.on('message', data => heard.push(data))
    socket.on('close', () => heard.push('closed'))
    socket.on('error', error => heard.push(error.message))
    return { socket, heard, end: limitMessages(socket, options) }
  }

  test('cost what a function says, and count by the key that another gives; undefined: not limited', () => {
    const { socket, heard } = emitter({
      policy: '3/1m',
      store: frozen(),
      key: data => (data === 'free' ? undefined : data[0]),
      cost: data => data.length,
    })
    for (const data of ['aa', 'aa', 'bbb', 'free', 'free', 'a']) socket.emit('message', data)
    expect(heard).toEqual(['aa', 'bbb', 'free', 'free', 'a'])
  })

  test('with the same key count together over all sockets; without a key each socket counts separately', () => {
    const name = 'sockets'
    const shared = [1, 2].map(() => emitter({ policy: '1/1m', name, key: 'ann' }))
    const apart = [1, 2].map(() => emitter({ policy: '1/1m', name }))
    for (const { socket } of [...shared, ...apart]) socket.emit('message', 'x')
    expect([...shared, ...apart].map(({ heard }) => heard.length)).toEqual([1, 0, 1, 1])
  })

  test('keep their order, and come before close, while a store is asked', async () => {
    const store = frozen()
    const slow = {
      consume: async (...given: Parameters<MemoryStore['consume']>) => store.consume(...given),
      peek: async (...given: Parameters<MemoryStore['peek']>) => store.peek(...given),
      refund: async (...given: Parameters<MemoryStore['refund']>) => store.refund(...given),
      reset: async (...given: Parameters<MemoryStore['reset']>) => store.reset(...given),
    }
    const { socket, heard } = emitter({ limiter: new RateLimiter({ policy: '3/1m', store: slow }) })
    const closed = once(socket, 'close')
    for (const data of ['1', '2', '3', '4']) socket.emit('message', data)
    socket.emit('close')
    expect(heard).toEqual([])
    await closed
    expect(heard).toEqual(['1', '2', '3', 'closed'])
  })

  test('pass again when the limit has been ended', () => {
    const { socket, heard, end } = emitter({ policy: '1/1m', store: frozen() })
    socket.emit('message', '1')
    socket.emit('message', '2')
    end()
    socket.emit('message', '3')
    expect(heard).toEqual(['1', '3'])
  })

  test('what a function throws is emitted as error', () => {
    const { socket, heard } = emitter({
      policy: '1/1m',
      key: () => {
        throw new Error('boom')
      },
    })
    socket.emit('message', '1')
    expect(heard).toEqual(['boom'])
  })

  test.each<[object, string]>([
    [{ polcy: '1/1m' }, 'limitMessages: unknown option "polcy": did you mean policy?'],
    [{ policy: '1/1m', onLimit: 'ignore' }, "onLimit \"ignore\": expected 'drop', 'close' or a function"],
    [{ policy: '1/1m', onLimit: 'close' }, 'limitMessages: socket'],
    [{ limiter: new RateLimiter({ policy: '1/1m' }), policy: '1/1m' }, 'given both limiter and policy'],
  ])('wrong options are refused: %j', (options, message) => {
    const limit = () => limitMessages(new EventEmitter(), options)
    expect(limit).toThrow(PolicyError)
    expect(limit).toThrow(message)
  })
})

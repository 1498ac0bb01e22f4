import { EventEmitter, once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { WebSocket, WebSocketServer } from 'ws'
import { limitMessages, type MessageLimitOptions } from '../../../src/http/adapters/ws.js'
import { RateLimiter, RedisStore } from '../../../src/index.js'
import type { Decision } from '../../../src/limiter/core/decision.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
import { runChild } from '../../support/child.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

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
/** A store that answers later. */
const slow = (store: MemoryStore) => ({
  consume: async (...given: Parameters<MemoryStore['consume']>) => store.consume(...given),
  peek: async (...given: Parameters<MemoryStore['peek']>) => store.peek(...given),
  refund: async (...given: Parameters<MemoryStore['refund']>) => store.refund(...given),
  reset: async (...given: Parameters<MemoryStore['reset']>) => store.reset(...given),
})

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
    const { socket, heard } = emitter({ limiter: new RateLimiter({ policy: '3/1m', store: slow(frozen()) }) })
    const closed = once(socket, 'close')
    for (const data of ['1', '2', '3', '4']) socket.emit('message', data)
    socket.emit('close')
    expect(heard).toEqual([])
    await closed
    expect(heard).toEqual(['1', '2', '3', 'closed'])
  })

  test('pause a socket that can while 64 of them wait for a store, and let it go on when they are judged', async () => {
    const { socket, heard } = emitter({ limiter: new RateLimiter({ policy: '99/1m', store: slow(frozen()) }) })
    const flow: string[] = []
    const pause = () => flow.push(`paused after ${heard.length}`)
    const resume = () => flow.push(`resumed after ${heard.length}`)
    Object.assign(socket, { pause, resume })
    // The first one is asked for; the others wait.
    for (let i = 0; i < 64; i++) socket.emit('message', `${i}`)
    expect(flow).toEqual([])
    socket.emit('message', '64')
    expect(flow).toEqual(['paused after 0'])
    await eventually('it goes on', async () => flow.length > 1)
    expect(flow).toEqual(['paused after 0', 'resumed after 65'])
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

  const refuse = (_decision: Decision, data: string) => {
    throw new Error(`no JSON: ${data}`)
  }
  test.each<[string, (decision: Decision, data: string) => void]>([
    ['throws', refuse],
    ['rejects', async (decision, data) => refuse(decision, data)],
  ])('an onLimit that %s is emitted as error, and the next messages are limited in their order', async (_, onLimit) => {
    const { socket, heard, end } = emitter({ policy: '1/1m', store: frozen(), onLimit })
    for (const data of ['1', '2', '3']) socket.emit('message', data)
    await new Promise(setImmediate)
    expect(heard).toEqual(['1', 'no JSON: 2', 'no JSON: 3'])
    end()
    socket.emit('message', '4')
    expect(heard.at(-1)).toBe('4')
  })

  test('while a store is asked, an onLimit that throws is emitted as error, in the order of the messages', async () => {
    const { socket, heard } = emitter({
      policy: '1/1m',
      store: slow(frozen()),
      onLimit: refuse,
      cost: data => (data === 'free' ? 0 : 1),
    })
    const closed = new Promise(resolve => socket.once('close', resolve))
    for (const data of ['1', '2', 'free', '3']) socket.emit('message', data)
    socket.emit('close')
    await closed
    expect(heard).toEqual(['1', 'no JSON: 2', 'free', 'no JSON: 3', 'closed'])
  })
})

describe('sockets with equal options share a limiter', () => {
  const redis = testRedis()
  let client: Redis
  beforeAll(async () => {
    client = redis.client()
    await client.ping()
  })

  const sockets = (count: number, options: MessageLimitOptions<string>) =>
    Array.from({ length: count }, () => {
      const socket = new EventEmitter()
      const heard: string[] = []
      socket.on('message', data => heard.push(data))
      return { socket, heard, end: limitMessages(socket, { ...options }) }
    })
  const say = (all: ReturnType<typeof sockets>) => {
    for (const { socket } of all) socket.emit('message', 'x')
  }

  test('over Redis, the messages of one turn share script calls: 1000 sockets, at most 8 calls', async () => {
    const store = new RedisStore(client)
    const all = sockets(1000, { policy: '10/1m', store, deadline: '10s', denyCache: false })
    say(sockets(1, { policy: '10/1m', store, deadline: '10s', denyCache: false }))
    await eventually('the script is loaded', async () => (await client.dbsize()) > 0)
    const send = jest.spyOn(client, 'evalsha')
    // However long the turn takes: a call holds only decisions whose deadlines are less than 50 ms apart.
    const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now())
    say(all)
    clock.mockRestore()
    await eventually('all are heard', async () => all.every(({ heard }) => heard.length === 1))
    expect(send.mock.calls.length).toBeLessThanOrEqual(8)
    send.mockRestore()
    for (const { end } of all) end()
  })

  test('a denial that one socket of a key met is remembered for the others', async () => {
    const store = new RedisStore(client)
    const told: string[] = []
    const onLimit = ({ source }: Decision) => told.push(source)
    const all = sockets(3, { policy: [{ quota: 1, window: '1m' }], store, deadline: '10s', key: 'ann', onLimit })
    say(all.slice(0, 2))
    await eventually('the second is denied', async () => told.length === 1)
    say(all.slice(2))
    say(all.slice(0, 1))
    expect(told).toEqual(['redis', 'deny-cache', 'deny-cache'])
    for (const { end } of all) end()
  })

  test('it is closed when the last of them has ended, and not before; a socket that goes on is limited as before', () => {
    const close = jest.spyOn(RateLimiter.prototype, 'close')
    const store = frozen()
    const [one, two, three] = sockets(3, { policy: '2/1m', store, key: 'ann' })
    one.socket.emit('close')
    one.end()
    two.end()
    two.end()
    expect(close).not.toHaveBeenCalled()
    three.socket.emit('close')
    expect(close).toHaveBeenCalledTimes(1)
    for (let i = 0; i < 3; i++) three.socket.emit('message', `${i}`)
    expect(three.heard).toEqual(['0', '1'])
    three.end()
    expect(close).toHaveBeenCalledTimes(2)
    close.mockRestore()
  })

  test('sockets with other options, another store, observer or policy function have another', () => {
    const stores = [frozen(), frozen()]
    const policy = () => '1/1m'
    const observer = {}
    const options: MessageLimitOptions<string>[] = [
      { policy: '1/1m', store: stores[0] },
      { policy: '1/1m', store: stores[1] },
      { policy: '2/1m', store: stores[0] },
      { policy: '1/1m', store: stores[0], name: 'b' },
      { policy: '1/1m', store: stores[0], observer },
      { policy: '1/1m', store: stores[0], observer: {} },
      { policy, store: stores[0] },
      { policy: () => '1/1m', store: stores[0] },
    ]
    const close = jest.spyOn(RateLimiter.prototype, 'close')
    const all = [...options, ...options].flatMap(one => sockets(1, one))
    for (const { end } of all) end()
    expect(close).toHaveBeenCalledTimes(options.length)
    close.mockRestore()
  })

  test('it is closed when sockets are dropped that never told their end', async () => {
    const { stdout, stderr, code } = await runChild(
      `import { EventEmitter } from 'node:events'
       import { RateLimiter } from './src/index.ts'
       import { limitMessages } from './src/http/adapters/ws.ts'
       let closed = 0
       const close = RateLimiter.prototype.close
       RateLimiter.prototype.close = function () { closed++; return close.call(this) }
       const use = () => {
         for (let i = 0; i < 10; i++) {
           const socket = new EventEmitter()
           limitMessages(socket, { policy: '10/1m' })
           socket.emit('message', 'x')
         }
       }
       use()
       for (let i = 0; i < 100 && closed === 0; i++) {
         await new Promise(resolve => setImmediate(resolve))
         gc()
       }
       console.log(closed)
       process.exit()`,
      { flags: ['--expose-gc'], timeoutMs: 60_000 },
    )
    expect([stdout.trim(), stderr, code]).toEqual(['1', '', 0])
  })

  test('a limiter that was given is never closed', () => {
    const limiter = new RateLimiter({ policy: '1/1m', store: frozen() })
    const close = jest.spyOn(limiter, 'close')
    const [{ socket, end }] = sockets(1, { limiter })
    socket.emit('close')
    end()
    expect(close).not.toHaveBeenCalled()
  })
})

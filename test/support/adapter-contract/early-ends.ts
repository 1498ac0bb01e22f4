import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import type { ResponseEnd } from '../../../src/http/response-watch.js'
import { eventually } from '../eventually.js'
import { type RawClient, rawClient } from '../raw-client.js'
import type { World } from './world.js'

/** Requests whose client does not stay until the end: their cost follows from the result of the handler. */
export function earlyEndsContract(world: World): void {
  const { whole, adapter, limited, serve } = world
  const closers: Array<() => void> = []
  afterEach(() => {
    jest.useRealTimers()
    for (const close of closers.splice(0).reverse()) close()
  })

  let connections = new Set<unknown>()
  /** The server has noticed that all clients have gone. */
  const noticed = () => eventually('the server has noticed', async () => connections.size === 0)

  async function open(app: RequestListener): Promise<() => Promise<RawClient>> {
    const server: Server = createServer(app)
    const open = new Set<unknown>()
    connections = open
    server.on('connection', socket => {
      open.add(socket)
      socket.on('close', () => open.delete(socket))
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    closers.push(() => {
      server.closeAllConnections()
      server.close()
    })
    return async () => {
      const client = await rawClient((server.address() as AddressInfo).port)
      closers.push(() => client.leave())
      return client
    }
  }

  /** Handlers that stay at work until the test lets them go, oldest first. */
  function workers() {
    const waiting: Array<(error?: Error) => void> = []
    return {
      handle: (_: unknown, res: unknown) =>
        new Promise<void>((resolve, reject) =>
          waiting.push(error => {
            if (error) return reject(error)
            adapter.setStatus(res, 401)
            resolve()
          }),
        ),
      atWork: (count: number) => eventually(`${count} at work`, async () => waiting.length === count),
      finish: (error?: Error) => waiting.shift()?.(error),
    }
  }

  const login = (ends: unknown[] = []) =>
    limited({
      policy: '5/15m',
      key: () => 'mallory',
      cost: 0,
      settle: (_, res, end) => {
        ends.push([adapter.status(res), end])
        return adapter.status(res) === 401 ? 1 : 0
      },
    })
  const left = async (limiter: ReturnType<typeof login>) => (await limiter.limiter.peek('mallory', 0)).remaining
  const ABORTED: ResponseEnd = { completed: false, ended: true }

  describe('a client that does not stay', () => {
    test('is charged when the handler has ended the response, by the answer of the handler', async () => {
      const ends: unknown[] = []
      const limiter = login(ends)
      const { handle, atWork, finish } = workers()
      const visit = await open(serve(limiter, { handle }))
      const client = await visit()
      client.send('/')
      await atWork(1)
      client.leave()
      await noticed()
      expect([ends, await left(limiter)]).toEqual([[], 5])
      finish()
      await eventually('it has paid', async () => (await left(limiter)) === 4)
      expect(ends).toEqual([[401, ABORTED]])
    })

    whole.test('cannot try more passwords than one that stays', async () => {
      const limiter = login()
      const { handle, atWork, finish } = workers()
      const visit = await open(serve(limiter, { handle }))
      for (let tried = 1; tried <= 5; tried++) {
        const client = await visit()
        client.send('/')
        await atWork(1)
        client.leave()
        finish()
        await eventually('it has paid', async () => (await left(limiter)) === 5 - tried)
      }
      const client = await visit()
      client.send('/')
      await eventually('it is refused', async () => client.received.startsWith('HTTP/1.1 429'))
      expect(world.handled).toBe(5)
    })

    test('is also charged for an error of the service', async () => {
      const ends: unknown[] = []
      const { handle, atWork, finish } = workers()
      const visit = await open(serve(login(ends), { handle }))
      const client = await visit()
      client.send('/')
      await atWork(1)
      client.leave()
      await noticed()
      finish(new Error('of the service'))
      await eventually('it is settled', async () => ends.length === 1)
      expect(ends).toEqual([[500, ABORTED]])
    })

    whole.test('is charged at least 1 if the handler has not ended the response in 30 s', async () => {
      const ends: unknown[] = []
      const limiter = login(ends)
      const { handle, atWork, finish } = workers()
      const visit = await open(serve(limiter, { handle }))
      const client = await visit()
      client.send('/')
      await atWork(1)
      jest.useFakeTimers({
        doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'Date', 'performance', 'setInterval'],
      })
      client.leave()
      while (connections.size > 0) await new Promise(resolve => setImmediate(resolve))
      jest.advanceTimersByTime(29_999)
      expect(ends).toEqual([])
      jest.advanceTimersByTime(1)
      expect(ends).toEqual([[expect.any(Number), { completed: false, ended: false }]])
      expect(await left(limiter)).toBe(4)
      jest.useRealTimers()
      finish()
      await new Promise(resolve => setImmediate(resolve))
      expect([ends.length, await left(limiter)]).toEqual([1, 4])
    })
  })

  describe('requests in one write', () => {
    whole.test(
      'are charged in the turn in which each is answered, although a slow one before them delays the answers',
      async () => {
        const ends: unknown[] = []
        const limiter = login(ends)
        const slow = workers()
        const visit = await open(
          serve(limiter, {
            handle: (req, res) => (world.handled === 1 ? slow.handle(req, res) : adapter.setStatus(res, 401)),
          }),
        )
        const client = await visit()
        client.send('/slow', ...Array.from({ length: 8 }, () => '/login'))
        await slow.atWork(1)
        await eventually('all others have paid', async () => ends.length === 8)
        expect([await left(limiter), client.received]).toEqual([0, ''])
        const next = await visit()
        next.send('/login')
        await eventually('it is refused', async () => next.received.startsWith('HTTP/1.1 429'))
        slow.finish()
      },
    )

    whole.test('that are dropped together are all charged', async () => {
      const ends: unknown[] = []
      const limiter = login(ends)
      const { handle, atWork, finish } = workers()
      const visit = await open(serve(limiter, { handle }))
      const client = await visit()
      client.send('/a', '/b', '/c')
      await atWork(3)
      client.leave()
      await noticed()
      for (let i = 0; i < 3; i++) finish()
      await eventually('all have paid', async () => (await left(limiter)) === 2)
      expect(ends).toEqual([1, 2, 3].map(() => [401, ABORTED]))
    })
  })
}

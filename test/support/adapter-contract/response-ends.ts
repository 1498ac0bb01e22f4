import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { connect, createServer as createServer2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import type { ResponseEnd } from '../../../src/http/response-watch.js'
import { eventually } from '../eventually.js'
import { rawClient } from '../raw-client.js'
import type { Service, World } from './world.js'

const COMPLETED: ResponseEnd = { completed: true, ended: true }
const ABORTED: ResponseEnd = { completed: false, ended: true }
const EXPIRED: ResponseEnd = { completed: false, ended: false }

/** However a response ends, or never does: each request is settled once. */
export function responseEndsContract(world: World): void {
  const { adapter, whole, limited, serve } = world
  const closers: Array<() => void> = []
  afterEach(() => {
    jest.useRealTimers()
    for (const close of closers.splice(0).reverse()) close()
  })

  /** A service that charges each request when its response has ended. */
  async function open(handle: Service['handle'], over?: 'HTTP/2') {
    const ends: Array<[status: number, end: ResponseEnd]> = []
    const settle = (_: unknown, res: unknown, end: ResponseEnd) => {
      ends.push([adapter.status(res), end])
      return 1
    }
    const limiter = limited({ policy: '10/15m', key: () => 'k', cost: 0, settle })
    const app = serve(limiter, { handle, ...(over && { http2: true }) })
    const server = over ? createServer2(app as never) : createServer(app)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    closers.push(() => {
      if (!over) (server as Server).closeAllConnections()
      server.close()
    })
    const { port } = server.address() as AddressInfo
    const visit = async (options?: { reads?: boolean }) => {
      const client = await rawClient(port, options)
      closers.push(() => client.leave())
      return client
    }
    const paid = async () => 10 - (await limiter.limiter.peek('k', 0)).remaining
    return { ends, port, visit, paid }
  }

  /** Lets so much time pass, second by second, and the server work in between. */
  async function pass(seconds: number, until = () => false): Promise<number> {
    let passed = 0
    while (passed < seconds && !until()) {
      jest.advanceTimersByTime(1000)
      passed++
      await new Promise<void>(resolve => {
        const interval = setInterval(() => {
          clearInterval(interval)
          resolve()
        }, 3)
      })
    }
    return passed
  }
  const fakeTimers = () =>
    jest.useFakeTimers({
      advanceTimers: true,
      doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'Date', 'setInterval'],
    })

  describe('a request is settled once', () => {
    whole.test('if its stream waits behind another response and is dropped with it', async () => {
      fakeTimers()
      let finish = () => {}
      const slow = new Promise<void>(resolve => {
        finish = resolve
      })
      const { ends, visit, paid } = await open(() => (world.handled === 1 ? slow : createReadStream('/dev/zero')))
      const client = await visit()
      client.send('/slow', '/a', '/b', '/c')
      await eventually('all are handled', async () => world.handled === 4)
      client.leave()
      await pass(1)
      finish()
      await pass(Infinity, () => ends.length === 4)
      await pass(90)
      expect([ends.length, await paid()]).toEqual([4, 4])
      for (const [, { completed }] of ends) expect(completed).toBe(false)
    })

    test('30 s after its client took the last byte of a stream that it does not read', async () => {
      fakeTimers()
      const { ends, visit, paid } = await open(() => createReadStream('/dev/zero'))
      ;(await visit({ reads: false })).send('/')
      await eventually('it is handled', async () => world.handled === 1)
      // How long the connection takes bytes by itself depends on the machine.
      expect(await pass(Infinity, () => ends.length > 0)).toBeGreaterThanOrEqual(29)
      await pass(90)
      expect([ends.map(([, end]) => end), await paid()]).toEqual([[EXPIRED], 1])
    })

    test('at once if the body fails after the first piece', async () => {
      // @hono/node-server prints the error.
      const printed = jest.spyOn(console, 'error').mockImplementation(() => {})
      closers.push(() => printed.mockRestore())
      const { ends, visit } = await open(() =>
        Readable.from(
          (async function* () {
            yield Buffer.alloc(10)
            await new Promise(resolve => setImmediate(resolve))
            throw new Error('broken')
          })(),
        ),
      )
      ;(await visit()).send('/')
      await eventually('it is settled', async () => ends.length > 0)
      expect(ends.map(([, end]) => end)).toEqual([ABORTED])
    })

    test('with the status that was sent if the handler throws what is no error', async () => {
      const { ends, visit } = await open(() => {
        throw 'a text'
      })
      const client = await visit()
      client.send('/')
      await eventually('it is settled', async () => ends.length > 0)
      expect(ends).toEqual([[500, COMPLETED]])
      await eventually('it is answered', async () => client.received.startsWith('HTTP/1.1 500'))
    })

    if (!adapter.http1Only)
      whole.test('over HTTP/2 if a HEAD is answered with a stream that never ends', async () => {
        const { ends, port, paid } = await open(() => createReadStream('/dev/zero'), 'HTTP/2')
        const client = connect(`http://127.0.0.1:${port}`)
        closers.push(() => client.destroy())
        for (let asked = 1; asked <= 3; asked++) {
          client.request({ ':path': '/', ':method': 'HEAD' }).on('error', () => {})
          await eventually('it is settled', async () => ends.length === asked)
        }
        expect([ends.map(([, { ended }]) => ended), await paid()]).toEqual([[true, true, true], 3])
      })
  })
}

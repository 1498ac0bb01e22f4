import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { connect as connect2, createServer as createServer2, type Http2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import type { ConcurrencyOptions } from '../../src/http/concurrency/options.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import type { ConcurrencyAdapter } from './concurrency-contract.js'
import { eventually } from './eventually.js'
import { wholeFor } from './everywhere.js'
import { type RawClient, rawClient } from './raw-client.js'

/** Ways in which responses end, or never do, and what becomes of their places, for every framework. */
export function describePlaceEnds(name: string, adapter: ConcurrencyAdapter): void {
  const whole = wholeFor(adapter.whole === true)
  const closers: Array<() => void> = []
  afterEach(() => {
    for (const close of closers.splice(0).reverse()) close()
    jest.restoreAllMocks()
  })

  /** The service: `/quick` is answered at once, `/slow` when the test says so, the others with a stream. */
  function listener(options: Partial<ConcurrencyOptions<unknown, unknown>>, over?: { http2: true }) {
    const limit = adapter.concurrencyLimit({ permits: 1, store: new MemoryStore(), ...options })
    closers.push(() => void limit.close())
    const slow: Array<() => void> = []
    let begun = 0
    const handle = async (url: string): Promise<string | Readable> => {
      if (url !== '/quick') begun++
      if (url === '/slow') await new Promise<void>(resolve => slow.push(resolve))
      if (url === '/endless') return createReadStream('/dev/zero')
      if (url === '/failing') return Readable.from(failing())
      return 'done'
    }
    // Asked of the service: a place may be free again before a request could find it taken.
    const inside = (requests: number) => eventually(`${requests} are inside`, async () => begun === requests)
    return { slow, inside, app: adapter.serve([limit], handle, over) }
  }

  async function* failing() {
    yield Buffer.alloc(10)
    await new Promise(resolve => setImmediate(resolve))
    throw new Error('broken')
  }

  async function listen(server: Server | Http2Server): Promise<number> {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }

  async function open(options: Partial<ConcurrencyOptions<unknown, unknown>>) {
    const { slow, inside, app } = listener(options)
    const server = createServer(app)
    const port = await listen(server)
    closers.push(() => {
      server.closeAllConnections()
      server.close()
    })
    const visit = async (options?: { reads?: boolean }): Promise<RawClient> => {
      const client = await rawClient(port, options)
      closers.push(() => client.leave())
      return client
    }
    const status = async () => (await fetch(`http://127.0.0.1:${port}/quick`)).status
    return {
      slow,
      inside,
      visit,
      status,
      free: () => eventually('a place is free', async () => (await status()) === 200),
    }
  }

  describe(`${name}: the place of a response`, () => {
    test('that nobody reads is free abandonAfter after the last byte was taken', async () => {
      const { inside, visit, free } = await open({ abandonAfter: '150ms' })
      const reader = await visit({ reads: false })
      const askedAt = performance.now()
      reader.send('/endless')
      await inside(1)
      await free()
      expect(performance.now() - askedAt).toBeGreaterThanOrEqual(149)
      expect(reader.socket.destroyed).toBe(false)
    })

    whole.test('that waits behind another one, and is dropped with it, is free', async () => {
      const { slow, inside, visit, status, free } = await open({ permits: 5, abandonAfter: '100ms' })
      const client = await visit()
      client.send('/slow', '/endless', '/endless', '/endless', '/endless')
      await inside(5)
      client.leave()
      for (let others = 1; others <= 5; others++) {
        await free()
        ;(await visit()).send('/slow')
        await inside(5 + others)
      }
      expect(await status()).toBe(503)
      for (const finish of slow) finish()
    })

    whole.test('that fails in the midst of its body is free at once', async () => {
      // @hono/node-server prints the error.
      jest.spyOn(console, 'error').mockImplementation(() => {})
      const { visit, free } = await open({})
      ;(await visit()).send('/failing')
      await free()
    })
  })

  // Express does not serve HTTP/2.
  if (!adapter.http1Only)
    describe(`${name} over HTTP/2: the place of a response`, () => {
      async function open2(options: Partial<ConcurrencyOptions<unknown, unknown>>) {
        const { inside, app } = listener(options, { http2: true })
        const server = createServer2(app as never)
        const url = `http://127.0.0.1:${await listen(server)}`
        closers.push(() => server.close())
        const session = () => {
          const client = connect2(url)
          client.on('error', () => {})
          closers.push(() => client.destroy())
          return client
        }
        const client = session()
        const ask = (path: string, method = 'GET', over = client) => {
          const stream = over.request({ ':path': path, ':method': method })
          stream.on('error', () => {})
          return stream
        }
        const status = async () => {
          const stream = ask('/quick')
          const [fields] = await once(stream, 'response')
          stream.close()
          return fields[':status']
        }
        const free = () => eventually('a place is free', async () => (await status()) === 200)
        return { session, inside, ask, free }
      }

      whole.test('to HEAD is free, although the body that is piped in never ends', async () => {
        const { ask, free } = await open2({})
        for (let i = 0; i < 3; i++) {
          ask('/endless', 'HEAD')
          await free()
        }
      })

      whole.test('that nobody reads is free abandonAfter after the last byte was taken', async () => {
        const { inside, ask, free } = await open2({ abandonAfter: '150ms' })
        const askedAt = performance.now()
        const stream = ask('/endless')
        await inside(1)
        await free()
        expect(performance.now() - askedAt).toBeGreaterThanOrEqual(149)
        expect(stream.destroyed).toBe(false)
      })

      test('whose stream or session its client closes is free', async () => {
        const { session, inside, ask, free } = await open2({ abandonAfter: '100ms' })
        for (const [i, leave] of ['stream', 'session'].entries()) {
          const client = session()
          const stream = ask('/endless', 'GET', client)
          await inside(i + 1)
          if (leave === 'stream') stream.close(8)
          else client.destroy()
          await free()
        }
      })
    })
}

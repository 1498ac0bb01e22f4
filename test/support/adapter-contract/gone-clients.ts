import { type ClientHttp2Session, connect, constants } from 'node:http2'
import { afterEach, describe, expect, test } from '@jest/globals'
import { eventually } from '../eventually.js'
import { type Reached, reached, reachedOverHttp2, resetAtOnce } from '../gone-clients.js'
import { rawClient } from '../raw-client.js'
import type { Options, World } from './world.js'

const LOOPBACK = ['127.0.0.0/8', '::1']

/** What would let a request without an address pass, or count for nobody. */
const LIMITS: Array<[string, Options]> = [
  ['the address as its key', { policy: '1/1m' }],
  ['skip that is true', { policy: '1/1m', skip: () => true }],
  ['a deny list', { policy: '99/1m', deny: LOOPBACK }],
  ['a deny list and a key of the service', { policy: '99/1m', deny: LOOPBACK, key: () => 'mallory' }],
  ['a deny list behind proxies', { policy: '99/1m', deny: LOOPBACK, proxies: ['10.0.0.0/8'] }],
  ['a key that is missing with the address', { policy: '1/1m', key: () => undefined }],
  ['keys of single limits', { policy: { quota: 1, window: '1m', key: () => 'mallory' } }],
  ['skip, asked asynchronously', { policy: '1/1m', skip: async () => false }],
  ['a policy for each request', { policy: () => '1/1m' }],
]

/** Requests over TCP or HTTP/2 whose client has gone before they were judged: they are over. */
export function goneClientsContract(world: World): void {
  const { whole, adapter, limited, serve } = world
  const limits = whole.orFew(LIMITS)
  let service: Reached | undefined
  let session: ClientHttp2Session | undefined
  afterEach(async () => {
    session?.destroy()
    await service?.stop()
    service = session = undefined
  })
  const nothingDone = () => {
    expect([world.handled, world.store.size]).toEqual([0, 0])
    expect(world.warned.texts).toEqual([])
  }

  describe('a client that has gone', () => {
    test.each(limits)('by a reset right after its request reaches no handler past %s', async (_, options) => {
      service = await reached(serve(limited(options)))
      resetAtOnce(service.port, 40)
      await eventually('all have come', async () => service?.requests === 40)
      await eventually('all are closed', async () => service?.open === 0)
      nothingDone()
    })

    test('with a body that nobody reads keeps no connection open', async () => {
      service = await reached(serve(limited({ deny: LOOPBACK })))
      const begin = 'POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 9000000\r\n\r\n'
      resetAtOnce(service.port, 4, begin + 'x'.repeat(200_000))
      await eventually('all have come', async () => service?.requests === 4)
      await eventually('all are closed', async () => service?.open === 0)
      nothingDone()
    })

    test.each(limits)(
      'while something asynchronous ran before the limiter reaches no handler past %s',
      async (_, options) => {
        service = await reached(serve(limited(options)), true)
        for (let i = 0; i < 3; i++) {
          const client = await rawClient(service.port)
          client.send('/')
          await eventually('it has come', async () => service?.requests === i + 1)
          client.leave()
        }
        await eventually('all are closed', async () => service?.open === 0)
        await new Promise(resolve => setImmediate(resolve))
        nothingDone()
      },
    )

    if (!adapter.http1Only)
      test.each(limits)('over HTTP/2 reaches no handler past %s', async (_, options) => {
        service = await reachedOverHttp2(serve(limited(options), { http2: true }))
        for (const leave of ['reset', 'destroy'] as const) {
          session = connect(`http://127.0.0.1:${service.port}`)
          session.on('error', () => {})
          const before = service.requests
          const streams = [1, 2].map(() => session!.request({ 'x-late': 'yes' }).on('error', () => {}))
          await eventually('both have come', async () => service?.requests === before + 2)
          if (leave === 'destroy') session.destroy()
          else for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL)
          await eventually('they have gone', async () => streams.every(stream => stream.closed))
          session.destroy()
          await eventually('all are closed', async () => service?.open === 0)
        }
        await new Promise(resolve => setImmediate(resolve))
        nothingDone()
      })

    test('and has an address is judged by it', async () => {
      const denied = limited({ deny: LOOPBACK })
      service = await reached(serve(denied))
      const client = await rawClient(service.port)
      client.send('/')
      await eventually('it is refused', async () => client.received.startsWith('HTTP/1.1 403'))
      client.leave()
    })
  })
}

import { createReadStream } from 'node:fs'
import { connect } from 'node:http2'
import { Readable } from 'node:stream'
import { afterEach, expect, jest, test } from '@jest/globals'
import type { ResponseEnd } from '../../../src/http/response-watch.js'
import { eventually } from '../eventually.js'
import type { Service, World } from './world.js'

const COMPLETED: ResponseEnd = { completed: true, ended: true }
const ABORTED: ResponseEnd = { completed: false, ended: true }
const EXPIRED: ResponseEnd = { completed: false, ended: false }

/**
 * That an adapter hears of the end of its requests, whose result is then settled: once, with the status of the handler.
 * Which ends there are is tested in test/http/node-response and test/http/web-response.
 */
export function endsContract(world: World): void {
  const { adapter, limited, serve } = world
  afterEach(() => void jest.useRealTimers())

  /** A service that charges each request when its response has ended. */
  async function open(handle: Service['handle'], over?: 'HTTP/2') {
    const ends: Array<[status: number, end: ResponseEnd]> = []
    const settle = (_: unknown, res: unknown, end: ResponseEnd) => {
      ends.push([adapter.status(res), end])
      return 1
    }
    const limiter = limited({ policy: '10/15m', key: () => 'k', cost: 0, settle })
    const paid = async () => 10 - (await limiter.limiter.peek('k', 0)).remaining
    return { ends, paid, ...(await world.listen(serve(limiter, { handle, ...(over && { http2: true }) }), over)) }
  }

  test.each<[string, (res: unknown) => void, number]>([
    ['has answered', res => adapter.setStatus(res, 401), 401],
    [
      'has failed',
      () => {
        throw new Error('of the service')
      },
      500,
    ],
    [
      'has thrown what is no error',
      () => {
        throw 'a text'
      },
      500,
    ],
  ])('a request is settled when its handler %s, also after its client has gone', async (_, end, status) => {
    for (const stays of [true, false]) {
      let finish: (() => void) | undefined
      const { ends, paid, visit, left } = await open(async (_, res) => {
        await new Promise<void>(resolve => {
          finish = resolve
        })
        end(res)
      })
      const client = await visit()
      client.send('/')
      await eventually('it is at work', async () => finish !== undefined)
      if (!stays) {
        client.leave()
        await left()
      }
      expect(ends).toEqual([])
      finish?.()
      await eventually('it is settled', async () => ends.length > 0)
      expect([ends, await paid()]).toEqual([[[status, stays ? COMPLETED : ABORTED]], stays ? 1 : 2])
    }
  })

  test('a request is settled 30 s after its client took the last byte of a stream that it does not read', async () => {
    jest.useFakeTimers({
      advanceTimers: true,
      doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'Date', 'setInterval'],
    })
    const { ends, paid, visit } = await open(() => createReadStream('/dev/zero'))
    ;(await visit({ reads: false })).send('/')
    await eventually('it is handled', async () => world.handled === 1)
    let seconds = 0
    /** Lets seconds pass, and the server work in between. */
    const pass = async (until: () => boolean) => {
      for (; !until(); seconds++) {
        jest.advanceTimersByTime(1000)
        await new Promise<void>(resolve => {
          const interval = setInterval(() => {
            clearInterval(interval)
            resolve()
          }, 3)
        })
      }
    }
    await pass(() => ends.length > 0)
    // How long the connection takes bytes by itself depends on the machine.
    expect(seconds).toBeGreaterThanOrEqual(29)
    const settledAt = seconds
    await pass(() => seconds >= settledAt + 90)
    expect([ends.map(([, end]) => end), await paid()]).toEqual([[EXPIRED], 1])
  })

  test('a request is settled at once if its body fails after the first piece', async () => {
    // @hono/node-server prints the error.
    const printed = jest.spyOn(console, 'error').mockImplementation(() => {})
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
    printed.mockRestore()
  })

  if (!adapter.http1Only)
    test('over HTTP/2 requests are limited, told, refused and settled alike', async () => {
      const settled: unknown[] = []
      const limiter = limited({ policy: '1/1m', settle: (_, res, end) => settled.push([adapter.status(res), end]) })
      const { port } = await world.listen(serve(limiter, { http2: true }), 'HTTP/2')
      const client = connect(`http://127.0.0.1:${port}`)
      const get = () =>
        new Promise<unknown[]>((resolve, reject) => {
          const stream = client.request({ ':path': '/' }).setEncoding('utf8').on('error', reject)
          stream.on('response', fields =>
            stream.toArray().then(pieces => {
              resolve([fields[':status'], fields.ratelimit, fields['retry-after'], pieces.join('')])
            }, reject),
          )
        })
      const decision = expect.stringMatching(/"allowed":true,.*"remaining":0/)
      expect(await get()).toEqual([200, '"1-per-1m";r=0;t=60', undefined, decision])
      const refusal = 'Too many requests: try again in 60 seconds.\n'
      expect(await get()).toEqual([429, '"1-per-1m";r=0;t=60', '60', refusal])
      expect(settled).toEqual([[200, COMPLETED]])
      client.destroy()
    })
}

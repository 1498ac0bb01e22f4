import { describe, expect, test } from '@jest/globals'
import { StoreError } from '../../../src/limiter/core/errors.js'
import type { Options, World } from './world.js'

/** Deferral of requests over the limit. */
export function deferringContract(world: World): void {
  const { whole, limited, serve, get, statuses, user } = world

  /** A queue that records its messages and accepts a given number of them. */
  function queueOf(room: number) {
    const pushed: Array<{ payload: unknown; delay: number }> = []
    return {
      pushed,
      async push(payload: unknown, { delay }: { delay: number }) {
        if (pushed.length === room) return null
        pushed.push({ payload, delay })
        return `id-${pushed.length}`
      },
    }
  }

  describe('a request over the limit', () => {
    test('may be deferred: it is queued until it would be allowed, and answered 202 with its id', async () => {
      const queue = queueOf(9)
      const defer = { queue, message: async (req: unknown) => ({ for: user(req) }) }
      const app = serve(limited({ policy: '1/1m', defer }))
      expect(await statuses(app, 1, { 'x-user': 'ann' })).toEqual([200])
      world.clock.advance(10_000)
      const answer = await get(app, { 'x-user': 'bob' })
      expect([answer.status, answer.body]).toEqual([202, { id: 'id-1' }])
      expect(answer.headers).toMatchObject({ 'cache-control': 'no-store', 'x-ratelimit-remaining': '0' })
      expect(answer.headers).not.toHaveProperty('retry-after')
      expect(answer.headers).not.toHaveProperty('location')
      expect(queue.pushed).toEqual([{ payload: { for: 'bob' }, delay: 50_000 }])
      expect(world.handled).toBe(1)
    })

    whole.test('gets an address at which its result can be asked for', async () => {
      const defer = { queue: queueOf(9), message: () => 'x', location: (id: string) => `/jobs/${id}` }
      const answer = await get(serve(limited({ policy: '0/1m;5/1h', cost: 1, defer })))
      // What can never fit is not done later either.
      expect(answer.status).toBe(429)
      const app = serve(limited({ policy: '1/1m', defer }))
      await get(app)
      expect((await get(app)).headers.location).toBe('/jobs/id-1')
    })

    whole.test('is refused when the queue is full, fails or does not answer', async () => {
      const failing = { push: () => Promise.reject(new StoreError('no Redis')) }
      const silent = { push: () => new Promise<null>(() => {}) }
      for (const queue of [queueOf(0), failing, silent]) {
        const defer = { queue, message: () => 'x', timeout: 20 }
        const app = serve(limited({ policy: '1/1m', name: `queue ${world.handled}`, defer }))
        await get(app)
        const answer = await get(app)
        expect([answer.status, answer.headers['retry-after']]).toEqual([429, '60'])
      }
    })

    whole.test('waits for no message of its key once the limit allows it again', async () => {
      const queue = queueOf(99)
      const app = serve(limited({ policy: '2/1m', defer: { queue, message: () => 'x' } }))
      expect(await statuses(app, 4)).toEqual([200, 200, 202, 202])
      expect(queue.pushed.map(({ delay }) => delay)).toEqual([60_000, 60_000])
      world.clock.advance(60_000)
      expect(await statuses(app, 3)).toEqual([200, 200, 202])
    })

    whole.test('is not deferred while its key is blocked', async () => {
      const defer = { queue: queueOf(9), message: () => 'x' }
      const app = serve(limited({ policy: '1/1m', block: { after: 2, for: '1h' }, defer }))
      expect(await statuses(app, 4)).toEqual([200, 202, 429, 429])
    })

    test('passes errors of the functions `message` and `push` to the framework', async () => {
      const failing = (text: string) => () => {
        throw new TypeError(text)
      }
      for (const defer of [
        { queue: queueOf(9), message: failing('no body') },
        { queue: { push: failing('no queue') }, message: () => 'x' },
      ]) {
        const app = serve(limited({ policy: '1/1m', name: `mistake ${world.handled}`, defer }))
        await get(app)
        const answer = await get(app)
        expect([answer.status, answer.body.message]).toEqual([500, expect.stringMatching(/^no (body|queue)$/)])
      }
    })

    whole.test('is not put into an object that is no queue', () => {
      for (const defer of [{}, 5, { queue: {}, message: () => 1 }, { queue: queueOf(1) }]) {
        expect(() => limited({ policy: '1/1m', defer } as unknown as Options)).toThrow('expected { queue, message }')
      }
    })
  })
}

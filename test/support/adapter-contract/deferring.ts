import { describe, expect, test } from '@jest/globals'
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

    whole.test('is refused when the queue is full, fails, throws or does not answer', async () => {
      const failing = { push: () => Promise.reject(new Error('no Redis')) }
      const throwing = {
        push: () => {
          throw new Error('closed')
        },
      }
      const silent = { push: () => new Promise<null>(() => {}) }
      for (const queue of [queueOf(0), failing, throwing, silent]) {
        const defer = { queue, message: () => 'x', timeout: 20 }
        const app = serve(limited({ policy: '1/1m', name: `queue ${world.handled}`, defer }))
        await get(app)
        const answer = await get(app)
        expect([answer.status, answer.headers['retry-after']]).toEqual([429, '60'])
      }
    })

    whole.test(
      'leaves at the rate of the policy: each is due when the policy allows it behind those ahead',
      async () => {
        const queue = queueOf(99)
        const app = serve(limited({ policy: '3/1m', defer: { queue, message: () => 'x' } }))
        expect(await statuses(app, 2)).toEqual([200, 200])
        world.clock.advance(10_000)
        expect(await statuses(app, 1)).toEqual([200])
        world.clock.advance(10_000)
        expect(await statuses(app, 7)).toEqual(new Array(7).fill(202))
        expect(queue.pushed.map(({ delay }) => delay)).toEqual([40, 40, 50, 100, 100, 110, 160].map(s => s * 1000))
      },
    )

    whole.test('is deferred behind the waiting messages of its key, although the limit would allow it', async () => {
      const queue = queueOf(99)
      const app = serve(limited({ policy: '1/1m', defer: { queue, message: () => 'x' } }))
      expect(await statuses(app, 3)).toEqual([200, 202, 202])
      world.clock.advance(90_000)
      // One message left at 60 s, the other leaves at 120 s.
      expect(await statuses(app, 1)).toEqual([202])
      expect(queue.pushed.map(({ delay }) => delay)).toEqual([60_000, 120_000, 90_000])
      world.clock.advance(90_000)
      expect(await statuses(app, 1)).toEqual([202])
      world.clock.advance(120_000)
      expect(await statuses(app, 2)).toEqual([200, 202])
      expect(queue.pushed.slice(3).map(({ delay }) => delay)).toEqual([60_000, 60_000])
      expect(await statuses(app, 1, { 'x-user': 'nobody waits for this one' })).toEqual([202])
    })

    whole.test('is refused while maxPerKey messages of its key wait', async () => {
      const queue = queueOf(999)
      const defer = { queue, message: () => 'x', maxPerKey: 2 }
      const app = serve(limited({ policy: '1/1m', key: user, defer }))
      const ann = { 'x-user': 'ann' }
      expect(await statuses(app, 4, ann)).toEqual([200, 202, 202, 429])
      const refused = await get(app, ann)
      expect([refused.status, refused.headers['retry-after']]).toEqual([429, '180'])
      expect(await statuses(app, 2, { 'x-user': 'bob' })).toEqual([200, 202])
      world.clock.advance(60_000)
      expect(await statuses(app, 2, ann)).toEqual([202, 429])
    })

    whole.test('is refused by default while a hundred messages wait', async () => {
      const app = serve(limited({ policy: '1/1m', defer: { queue: queueOf(999), message: () => 'x' } }))
      const all = await statuses(app, 102)
      expect(all.filter(status => status === 202)).toHaveLength(100)
      expect(all.at(-1)).toBe(429)
    })

    whole.test('frees the moment of a message that the queue did not accept', async () => {
      const queue = queueOf(1)
      const app = serve(limited({ policy: '1/1m', defer: { queue, message: () => 'x' } }))
      expect(await statuses(app, 4)).toEqual([200, 202, 429, 429])
      queue.pushed.length = 0
      expect(await statuses(app, 1)).toEqual([202])
      expect(queue.pushed).toEqual([{ payload: 'x', delay: 120_000 }])
    })

    whole.test('is not deferred while its key is blocked', async () => {
      const defer = { queue: queueOf(9), message: () => 'x' }
      const app = serve(limited({ policy: '1/1m', block: { after: 2, for: '1h' }, defer }))
      expect(await statuses(app, 4)).toEqual([200, 202, 429, 429])
    })

    test('passes errors of the function `message` to the framework', async () => {
      const message = () => {
        throw new TypeError('no body')
      }
      const app = serve(limited({ policy: '1/1m', defer: { queue: queueOf(9), message } }))
      await get(app)
      const answer = await get(app)
      expect([answer.status, answer.body.message]).toEqual([500, 'no body'])
    })

    whole.test('is not put into an object that is no queue', () => {
      for (const defer of [{}, 5, { queue: {}, message: () => 1 }, { queue: queueOf(1) }]) {
        expect(() => limited({ policy: '1/1m', defer } as unknown as Options)).toThrow('expected { queue, message }')
      }
      for (const maxPerKey of [0, 1.5, -1, '5', Number.POSITIVE_INFINITY]) {
        const defer = { queue: queueOf(1), message: () => 1, maxPerKey } as Options['defer']
        expect(() => limited({ policy: '1/1m', defer })).toThrow('expected an integer ≥ 1, like 100')
      }
    })
  })
}

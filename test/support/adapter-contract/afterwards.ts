import { createServer, get as httpGet, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { eventually } from '../eventually.js'
import type { World } from './world.js'

/** A client that has asked and can leave. */
interface Visitor {
  /** The status of the answer; undefined if it left before. */
  readonly status: Promise<number | undefined>
  leave(): void
}

/** Costs that are known only after the response, and requests that wait. */
export function afterwardsContract(world: World): void {
  const { whole, adapter, limited, serve, get, statuses, user } = world
  const servers: Server[] = []
  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections()
      server.close()
    }
  })

  /** Serves, for clients that do not wait for each other. */
  async function open(app: RequestListener): Promise<(headers?: Record<string, string>) => Visitor> {
    const server = createServer(app)
    servers.push(server)
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    return headers => {
      const request = httpGet({
        port: (server.address() as AddressInfo).port,
        host: '127.0.0.1',
        headers,
        agent: false,
      })
      const status = new Promise<number | undefined>(resolve => {
        request.on('error', () => resolve(undefined))
        request.on('response', response => {
          response.resume()
          response.on('end', () => resolve(response.statusCode))
        })
      })
      return { status, leave: () => void request.destroy() }
    }
  }

  /** All requests in the service wait there until the test releases them. */
  function gate() {
    const waiting: Array<() => void> = []
    return {
      handle: () => new Promise<void>(resolve => waiting.push(resolve)),
      arrived: (count: number) => eventually(`${count} have arrived`, async () => waiting.length === count),
      open() {
        for (const pass of waiting.splice(0)) pass()
      },
    }
  }

  describe('settling', () => {
    const limiterOf = (options = {}) => limited({ policy: '10/1m', key: () => 'k', ...options })

    whole.test.each([
      ['less', 6, 2, 8],
      ['more', 2, 6, 4],
      ['more than fits', 2, 25, 0],
      ['nothing', 6, 0, 10],
    ])('corrects the cost of a request to %s after the answer', async (_, cost, actual, left) => {
      const limiter = limiterOf({ cost, settle: async () => actual })
      const { status, headers } = await get(serve(limiter))
      expect([status, headers['x-ratelimit-remaining']]).toEqual([200, `${10 - cost}`])
      await eventually('it is settled', async () => (await limiter.limiter.peek('k', 0)).remaining === left)
      expect(world.warned.texts).toEqual([])
    })

    test('receives the request and the response', async () => {
      const seen: unknown[] = []
      const settle = (req: unknown, res: unknown) => {
        seen.push([user(req), adapter.status(res)])
        return 1
      }
      const app = serve(limiterOf({ settle }), { handle: (_, res) => adapter.setStatus(res, 418) })
      await get(app, { 'x-user': 'ann' })
      await eventually('it was asked', async () => seen.length > 0)
      expect(seen).toEqual([['ann', 418]])
    })

    whole.test('is not called for requests that are refused or not limited', async () => {
      let asked = 0
      const settle = () => {
        asked++
        return 1
      }
      await statuses(serve(limited({ policy: '0/1m', settle })), 2)
      await get(serve(limited({ key: user, settle })))
      expect(asked).toBe(0)
    })

    whole.test.each([
      [
        'fails',
        () => {
          throw new Error('boom')
        },
      ],
      ['gives what is no cost', () => -1],
      ['gives nothing', () => undefined as unknown as number],
    ])('that %s causes a warning, and the first charge stays', async (_, settle) => {
      const limiter = limiterOf({ cost: 4, settle })
      expect((await get(serve(limiter))).status).toBe(200)
      await eventually('it is warned of', async () => world.warned.texts.length === 1)
      expect(world.warned.codes).toEqual(['SPILLWAY_SETTLE'])
      expect(world.warned.texts[0]).toMatch(
        /^rateLimit: settle failed: (boom|rateLimit: settle gave (-1|undefined): expected an integer ≥ 0)/,
      )
      expect((await limiter.limiter.peek('k', 0)).remaining).toBe(6)
    })
  })

  whole.describe('counting only failed logins, with a cost of 0 that is settled afterwards,', () => {
    const login = () => limited({ policy: '3/1m', cost: 0, settle: (_, res) => (adapter.status(res) === 401 ? 1 : 0) })
    const answerAs = (req: unknown, res: unknown) => {
      if (user(req) === 'wrong') adapter.setStatus(res, 401)
    }

    test('allows any number of correct logins, and refuses after the given number of wrong ones', async () => {
      const limiter = login()
      const app = serve(limiter, { handle: answerAs })
      expect(await statuses(app, 6)).toEqual([200, 200, 200, 200, 200, 200])
      for (let wrong = 1; wrong <= 3; wrong++) {
        expect(await statuses(app, 1, { 'x-user': 'wrong' })).toEqual([401])
        await eventually(
          'it has paid',
          async () => (await limiter.limiter.peek('127.0.0.1', 0)).remaining === 3 - wrong,
        )
      }
      expect(await statuses(app, 2)).toEqual([429, 429])
      world.clock.advance(60_000)
      expect((await get(app)).status).toBe(200)
    })

    test('refuses no innocent request while others are in flight', async () => {
      const door = gate()
      const limiter = login()
      const visit = await open(serve(limiter, { handle: door.handle }))
      const visitors = Array.from({ length: 10 }, () => visit())
      await door.arrived(10)
      door.open()
      expect(await Promise.all(visitors.map(({ status }) => status))).toEqual(new Array(10).fill(200))
      expect((await limiter.limiter.peek('127.0.0.1', 0)).remaining).toBe(3)
    })

    test('charges all wrong logins that were in flight together', async () => {
      const door = gate()
      const limiter = login()
      const handle = async (req: unknown, res: unknown) => {
        await door.handle()
        answerAs(req, res)
      }
      const visit = await open(serve(limiter, { handle }))
      const visitors = Array.from({ length: 6 }, () => visit({ 'x-user': 'wrong' }))
      await door.arrived(6)
      door.open()
      expect(await Promise.all(visitors.map(({ status }) => status))).toEqual(new Array(6).fill(401))
      await eventually('all have paid', async () => (await limiter.limiter.peek('127.0.0.1', 1)).remaining === 0)
      // Six were spent where three fit: half of them must expire before one fits again, and all were spent at once.
      expect((await limiter.limiter.peek('127.0.0.1', 1)).retryAfterMs).toBe(60_000)
    })
  })

  describe('a leaky bucket', () => {
    whole.test('passes requests on one after the other, evenly spaced', async () => {
      const handledAt: number[] = []
      const handle = () => {
        handledAt.push(performance.now())
      }
      const limiter = limited({ policy: '20/1s leaky-bucket burst=4' })
      const visit = await open(serve(limiter, { handle }))
      const startedAt = performance.now()
      const all = await Promise.all(Array.from({ length: 5 }, () => visit().status))
      expect(all.sort()).toEqual([200, 200, 200, 200, 429])
      // A timer of Node may ring up to a millisecond early.
      handledAt.forEach((at, i) => {
        expect(at - startedAt).toBeGreaterThanOrEqual(i * 50 - 1)
      })
      expect(handledAt).toHaveLength(4)
    })

    test('gives back the place of a client that goes away while it waits', async () => {
      const limiter = limited({ policy: '2/1h leaky-bucket burst=2', settle: () => 1 })
      const left = async () => (await limiter.limiter.peek('127.0.0.1', 0)).remaining
      const visit = await open(serve(limiter))
      expect(await visit().status).toBe(200)
      const visitor = visit()
      await eventually('it waits', async () => (await left()) === 0)
      expect(await visit().status).toBe(429)
      visitor.leave()
      expect(await visitor.status).toBeUndefined()
      await eventually('its place is free', async () => (await left()) === 1)
      expect(world.handled).toBe(1)
      expect(world.warned.texts).toEqual([])
    })
  })
}

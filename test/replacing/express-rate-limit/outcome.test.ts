import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import type { Express, RequestHandler } from 'express'
import type { Options } from '../../../src/replacing/express-rate-limit/index.js'
import { sameOnBoth, type World } from './world.js'

/** Answers with the status that the client asks for, and tells nothing else. */
const asAsked: RequestHandler = (req, res) => void res.status(Number(req.get('x-status') ?? 200)).end()

/** What is counted of a client after each of these answers. */
async function counted(world: World, options: Partial<Options>, statuses: number[]): Promise<unknown[]> {
  const limiter = world.limiter({ limit: 3, ...options })
  const app = world.serve(limiter, asAsked)
  const seen: unknown[] = []
  for (const status of statuses) {
    const answer = await world.get(app, '192.0.2.1', { 'x-status': String(status) })
    await world.settle()
    const known = await limiter.getKey('192.0.2.1')
    seen.push([answer.status, answer.headers['x-ratelimit-remaining'], known?.totalHits])
  }
  return seen
}

const FAULT = () => {
  throw new Error('a fault of the service')
}
const MIXED = [200, 404, 302, 500, 200, 399, 400, 200, 200, 200, 200]

describe('hits that are given back when the outcome is known', () => {
  test.each<[string, Partial<Options>]>([
    ['nothing', {}],
    ['skipSuccessfulRequests', { skipSuccessfulRequests: true }],
    ['skipFailedRequests, our own 429 too', { skipFailedRequests: true }],
    ['both', { skipSuccessfulRequests: true, skipFailedRequests: true }],
    ['requestWasSuccessful', { skipFailedRequests: true, requestWasSuccessful: (_req, res) => res.statusCode === 404 }],
    [
      'requestWasSuccessful that takes its time',
      { skipSuccessfulRequests: true, requestWasSuccessful: async (_req, res) => res.statusCode === 404 },
    ],
    ['requestWasSuccessful that throws', { skipSuccessfulRequests: true, requestWasSuccessful: FAULT }],
    ['requestWasSuccessful that rejects', { skipFailedRequests: true, requestWasSuccessful: async () => FAULT() }],
    [
      'a handler with a status of its own',
      { skipFailedRequests: true, handler: (_req, res) => void res.status(200).end() },
    ],
  ])('%s', async (_, options) => {
    await sameOnBoth(world => counted(world, options, MIXED))
  })

  test('skipped requests are not counted', async () => {
    await sameOnBoth(world => counted(world, { skipFailedRequests: true, skip: () => true }, [200, 500]))
  })

  test('a request that was counted in a window that has ended is not given back to the next one', async () => {
    const seen = await sameOnBoth(async world => {
      const limiter = world.limiter({ skipSuccessfulRequests: true, windowMs: 1000 })
      let during = async () => {}
      const app = world.serve(limiter, (_req, res) => void during().then(() => res.end()))
      during = async () => {
        during = async () => {}
        world.advance(1000)
        // Another one, in the next window; it is given back by itself.
        await limiter.getKey('192.0.2.1')
      }
      await world.get(app)
      const failing = world.limiter({ skipFailedRequests: true, windowMs: 1000 })
      let late: () => void = () => {}
      const slow = world.serve(failing, (req, res) => {
        if (req.get('x-slow')) late = () => void res.status(500).end()
        else res.end()
      })
      const waits = world.get(slow, '192.0.2.1', { 'x-slow': '1' })
      await world.settle()
      world.advance(1000)
      await world.get(slow)
      late()
      await waits
      await world.settle()
      return (await failing.getKey('192.0.2.1'))?.totalHits
    })
    expect(seen).toEqual({ seen: 1, logged: [] })
  })

  test('a store that fails to give back is reported in the log', async () => {
    await sameOnBoth(async world => {
      const seen: unknown[] = []
      for (const decrement of [async () => FAULT(), FAULT]) {
        const store = { increment: async () => ({ totalHits: 1, resetTime: undefined }), decrement, resetKey() {} }
        const app = world.serve(world.limiter({ store, skipSuccessfulRequests: true }), asAsked)
        seen.push(await world.statuses(1, app))
        await world.settle()
      }
      return seen
    })
  })
})

describe('a response that does not come to its end', () => {
  /** What is counted after a request that ended so. */
  async function countedAfter(world: World, options: Partial<Options>, handle: RequestHandler): Promise<unknown> {
    const limiter = world.limiter({ keyGenerator: () => 'me', ...options })
    let reached = () => {}
    const handled = new Promise<void>(resolve => {
      reached = resolve
    })
    const app = world.serve(limiter, (req, res, next) => {
      handle(req, res, next)
      reached()
    })
    await hangUp(app, handled)
    await world.settle()
    return (await limiter.getKey('me'))?.totalHits
  }

  test.each<[string, Partial<Options>]>([
    ['skipFailedRequests', { skipFailedRequests: true }],
    ['skipSuccessfulRequests', { skipSuccessfulRequests: true }],
    ['both', { skipFailedRequests: true, skipSuccessfulRequests: true }],
  ])('a client that hangs up: %s', async (_, options) => {
    await sameOnBoth(world => countedAfter(world, options, () => {}))
  })

  test.each<[string, Partial<Options>]>([
    ['skipFailedRequests', { skipFailedRequests: true }],
    [
      'skipFailedRequests, with a keyGenerator that takes its time',
      { skipFailedRequests: true, keyGenerator: async () => 'me' },
    ],
  ])('an error of the response: %s', async (_, options) => {
    await sameOnBoth(world =>
      countedAfter(world, options, (_req, res) => {
        res.emit('error', new Error('broken'))
        res.end()
      }),
    )
  })

  /** Sends a request and hangs up when it has come through, answered or not. */
  async function hangUp(app: Express, handled: Promise<void>): Promise<void> {
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await handled
    await new Promise(resolve => setImmediate(resolve))
    socket.destroy()
    await new Promise(resolve => server.close(resolve))
  }
})

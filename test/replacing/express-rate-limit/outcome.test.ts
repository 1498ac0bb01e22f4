import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import type { Express, RequestHandler } from 'express'
import type { Options } from '../../../src/replacing/express-rate-limit/index.js'
import { sameOnBoth, type World } from './world.js'

describe('hits that are given back when the outcome is known', () => {
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

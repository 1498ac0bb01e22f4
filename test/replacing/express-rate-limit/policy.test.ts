import { describe, expect, test } from '@jest/globals'
import express from 'express'
import { MemoryStore as CoreStore } from '../../../src/limiter/memory/memory-store.js'
import {
  MemoryStore,
  type Options,
  type RateLimitOptions,
  rateLimit,
} from '../../../src/replacing/express-rate-limit/index.js'
import { ManualClock } from '../../../src/testing.js'
import { OURS, THEIRS, World } from './world.js'

const create = (options: RateLimitOptions) => {
  const world = new World(OURS, express)
  const limiter = world.limiter(options)
  return { world, limiter, app: world.serve(limiter) }
}

describe('algorithm and policy', () => {
  test('refused requests spend nothing, and report one hit above the limit', async () => {
    const clock = new ManualClock(0)
    const store = new CoreStore({ clock })
    const { world, app } = create({ limit: 2, windowMs: 1000, algorithm: 'sliding-window', store })
    const used = async () => JSON.parse((await world.get(app)).text).rateLimit?.used
    expect([await used(), await used()]).toEqual([1, 2])
    expect((await world.get(app)).status).toBe(429)
    clock.advance(999)
    expect((await world.get(app)).status).toBe(429)
    clock.advance(1)
    expect(await world.statuses(3, app)).toEqual([200, 200, 429])
    expect(world.logged).toEqual([])
  })

  test('several limits are one decision; headers show the strictest', async () => {
    const { world, app } = create({
      policy: '2/1s; 3/1h',
      standardHeaders: 'draft-8',
      store: new CoreStore({ clock: new ManualClock(0) }),
    })
    const answers = await world.times(3, app)
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429])
    expect(answers[2].headers['ratelimit-policy']).toMatch(/^"2-in-1sec"; q=2; w=1; pk=:/)
    expect(answers[2].headers['retry-after']).toBe('1')
  })

  test('policy may be a function', async () => {
    const { world, limiter, app } = create({ policy: async req => (req.get('x-plan') ? '3/1h' : '1/1h') })
    expect(await world.statuses(2, app)).toEqual([200, 429])
    expect((await world.get(app, '192.0.2.1', { 'x-plan': 'pro' })).status).toBe(200)
    expect(() => limiter.resetKey('192.0.2.1')).toThrow('one policy for all requests')
  })

  test('limit may be a function on one count', async () => {
    const limit: Options['limit'] = req => (req.get('x-plan') ? 3 : 1)
    const { world, app } = create({ limit, algorithm: 'sliding-counter', windowMs: 3_600_000 })
    expect(await world.statuses(2, app)).toEqual([200, 429])
    expect((await world.get(app, '192.0.2.1', { 'x-plan': 'pro' })).status).toBe(200)
  })

  test('limit may be a function on one bucket, of which each request sees the same share', async () => {
    const limit: Options['limit'] = req => (req.get('x-plan') ? 8 : 4)
    const { world, app } = create({ limit, algorithm: 'token-bucket', windowMs: 3_600_000 })
    expect(await world.statuses(2, app)).toEqual([200, 200])
    // Half is left: four of eight.
    const pro = async () => (await world.get(app, '192.0.2.1', { 'x-plan': 'pro' })).status
    const statuses: number[] = []
    for (let i = 0; i < 5; i++) statuses.push(await pro())
    expect(statuses).toEqual([200, 200, 200, 200, 429])
  })

  test('failed requests are given back as with express-rate-limit', async () => {
    const { world, limiter } = create({ limit: 2, algorithm: 'sliding-window', skipFailedRequests: true })
    const app = world.serve(limiter, (_req, res) => void res.status(500).end())
    expect(await world.statuses(5, app)).toEqual([500, 500, 500, 500, 500])
    await world.settle()
    expect(await limiter.getKey('192.0.2.1')).toBeUndefined()
  })

  test('a request is given back to the longer limit, too, when the window of the shorter one has ended', async () => {
    const { world, limiter } = create({ policy: '1/10ms; 3/1h', skipSuccessfulRequests: true })
    const app = world.serve(limiter, (_req, res) => void setTimeout(() => res.end(), 20))
    expect(await world.statuses(4, app)).toEqual([200, 200, 200, 200])
    await world.settle()
    expect(await limiter.getKey('192.0.2.1')).toBeUndefined()
  })

  test('a leaky bucket holds requests back until they may leave', async () => {
    const { world, app } = create({ limit: 2, windowMs: 2000, algorithm: 'leaky-bucket' })
    const begun = performance.now()
    const answers = await Promise.all([world.get(app), world.get(app), world.get(app)])
    expect(performance.now() - begun).toBeGreaterThanOrEqual(999)
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 429])
  })

  test('fixed-window by name counts as express-rate-limit does', async () => {
    const [named, theirs] = [create({ limit: 1, algorithm: 'fixed-window' }), new World(THEIRS, express)] as const
    const plain = theirs.serve(theirs.limiter({ limit: 1 }))
    const used = async (world: World, app: typeof plain) => (await world.times(3, app)).map(({ status }) => status)
    expect(await used(named.world, named.app)).toEqual(await used(theirs, plain))
    expect(await named.limiter.getKey('192.0.2.1')).toMatchObject({ totalHits: 3 })
  })

  test.each<[string, Partial<Options>, RegExp]>([
    ['an unknown algorithm', { algorithm: 'magic' as never }, /unknown algorithm "magic"/],
    ['policy and limit', { policy: '1/1s', limit: 5 }, /given both policy and limit/],
    ['policy and windowMs', { policy: '1/1s', windowMs: 5 }, /given both policy and windowMs/],
    ['a policy that means nothing', { policy: 'often' }, /limit "often": expected/],
    ['a fractional limit', { limit: 1.5, algorithm: 'token-bucket' }, /quota 1.5/],
    [
      'a window that is no duration',
      { windowMs: 'abc' as never, algorithm: 'sliding-counter' },
      /duration "abc": expected/,
    ],
    [
      'a store that counts hits only',
      {
        algorithm: 'sliding-window',
        store: { increment: () => ({ totalHits: 1, resetTime: undefined }), decrement() {}, resetKey() {} },
      },
      /counts fixed windows only, given sliding-window/,
    ],
  ])('%s throws where the limiter is built', (_, options, message) => {
    expect(() => rateLimit({ validate: false, ...options })).toThrow(message)
  })

  test('a MemoryStore of this module serves other algorithms too', async () => {
    const { world, app } = create({ limit: 1, algorithm: 'sliding-counter', store: new MemoryStore() })
    expect(await world.statuses(2, app)).toEqual([200, 429])
  })
})

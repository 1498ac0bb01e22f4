import { describe, expect, test } from '@jest/globals'
import type { Request, Response } from 'express'
import type { Options } from '../../../src/replacing/express-rate-limit/index.js'
import { sameOnBoth, type World } from './world.js'

/** What so many requests of one client are answered, under options. */
const answers =
  (count: number, options?: Partial<Options>) =>
  async (world: World): Promise<unknown> =>
    world.times(count, world.serve(world.limiter(options)))

const fails = () => {
  throw new Error('a fault of the service')
}
const rejects = async () => fails()

// All options and how they go together, without HTTP: agreement.test.ts.
describe('over HTTP an option acts as with express-rate-limit', () => {
  test.each<[string, Partial<Options> | undefined]>([
    ['no options', undefined],
    ['an option that is undefined', { limit: undefined, windowMs: undefined, store: undefined, message: undefined }],
    ['store null', { limit: 2, store: null as never }],
    ['limit, a function', { limit: req => (req.get('x-plan') ? 9 : 1) }],
    ['message, a text', { limit: 1, message: 'slow down' }],
    ['message, an object', { limit: 1, message: { error: 'slow down', code: 7 } }],
    ['message, a function', { limit: 1, message: (_req: Request, res: Response) => `slow down: ${res.statusCode}` }],
    [
      'message, a function that answers by itself',
      { limit: 1, message: (_req: Request, res: Response) => res.end('so') },
    ],
    ['statusCode', { limit: 1, statusCode: 503 }],
    ['handler that rejects', { limit: 1, handler: rejects }],
    ['handler, told of the options', { limit: 1, handler: (_req, res, _next, used) => void res.json(shown(used)) }],
    ['standardHeaders draft-6', { limit: 1, standardHeaders: 'draft-6', windowMs: 1500 }],
    ['standardHeaders draft-8', { limit: 1, standardHeaders: 'draft-8' }],
    ['keyGenerator that throws', { keyGenerator: fails }],
    ['keyGenerator that gives a number', { limit: 1, keyGenerator: () => 42 as never }],
    ['skip that takes its time', { limit: 1, skip: async () => true }],
    ['requestPropertyName', { limit: 1, requestPropertyName: 'other' }],
  ])('%s', async (_, options) => {
    await sameOnBoth(answers(3, options))
  })

  test('the options given are not changed', async () => {
    await sameOnBoth(async world => {
      const options = Object.freeze({
        max: 1,
        headers: false,
        standardHeaders: true,
        validate: Object.freeze({ ip: false }),
      })
      return world.times(2, world.serve(world.limiter(options)))
    })
  })

  test('resetKey forgets a key at once, getKey returns its count', async () => {
    const seen = await sameOnBoth(async world => {
      const limiter = world.limiter({ limit: 1 })
      const app = world.serve(limiter)
      const before = [
        await limiter.getKey('192.0.2.1'),
        await world.statuses(2, app),
        await limiter.getKey('192.0.2.1'),
      ]
      limiter.resetKey('192.0.2.1')
      const after = [await limiter.getKey('192.0.2.1'), await world.statuses(2, app)]
      world.advance(60_000)
      return [before.map(copy), after, await limiter.getKey('192.0.2.1')]
    })
    expect(JSON.stringify(seen)).toContain('"totalHits":2')
  })
})

describe('the middleware', () => {
  test('resolves after its work, whatever the result', async () => {
    await sameOnBoth(async world => {
      const seen: unknown[] = []
      const call = async (options: Partial<Options>) => {
        const limiter = world.limiter({ keyGenerator: () => 'me', ...options })
        const res = { setHeader() {}, status() {}, send: (body: string) => seen.push(body), headersSent: false }
        const given = await limiter({} as Request, res as never, (error?: unknown) => seen.push(error ?? 'next'))
        seen.push(given, '—')
      }
      await call({})
      await call({ limit: 0 })
      await call({ limit: 0, message: () => world.settle().then(() => 'late') })
      await call({ skip: () => world.settle().then(() => true) })
      await call({ handler: fails, limit: 0 })
      await call({ keyGenerator: rejects })
      return seen.map(String)
    })
  })

  test('leaves an object on the request that can be read, printed and compared like a plain object', async () => {
    await sameOnBoth(async world => {
      const limiter = world.limiter({ keyGenerator: () => 'me' })
      const req = {} as Record<string, Record<string, unknown>>
      const res = { setHeader() {}, headersSent: false }
      await limiter(req as never, res as never, () => {})
      const info = req.rateLimit
      const { resetTime } = info as { resetTime: Date }
      const kind = Object.getPrototypeOf(info) === Object.prototype
      return [
        Object.keys(req),
        Object.keys(info),
        info.current,
        Object.hasOwn(info, 'current'),
        kind,
        resetTime.getTime(),
      ]
    })
  })
})

function copy(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value))
}

/** What is comparable of the options that a handler is told. */
function shown(options: Options): unknown {
  const { store, validate, ...rest } = options
  return { names: Object.keys(options).sort(), store: store.constructor.name, ...rest }
}

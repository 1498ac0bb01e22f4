import { describe, expect, test } from '@jest/globals'
import type { Request, Response } from 'express'
import type { Options } from '../../../src/replacing/express-rate-limit/index.js'
import { sameOnBoth, type World } from './world.js'

/** What so many requests of one client are answered, under options. */
const answers =
  (count: number, options?: Partial<Options>) =>
  async (world: World): Promise<unknown> =>
    world.times(count, world.serve(world.limiter(options)))

const byUser = (req: Request) => req.get('x-user') ?? 'nobody'
const fails = () => {
  throw new Error('a fault of the service')
}
const rejects = async () => fails()

describe('each option acts as with express-rate-limit', () => {
  test.each<[string, Partial<Options> | undefined]>([
    ['no options', undefined],
    ['an option that is undefined', { limit: undefined, windowMs: undefined, store: undefined, message: undefined }],
    ['store null', { limit: 2, store: null as never }],
    ['limit', { limit: 2 }],
    ['limit 0', { limit: 0 }],
    ['limit, a function', { limit: req => (req.get('x-plan') ? 9 : 1) }],
    ['limit, a function that takes its time', { limit: async () => 2 }],
    ['limit, a function that throws', { limit: fails }],
    ['max', { max: 2 }],
    ['max 0', { max: 0 }],
    ['limit and max', { limit: 3, max: 1 }],
    ['message, a text', { limit: 1, message: 'slow down' }],
    ['message, an object', { limit: 1, message: { error: 'slow down', code: 7 } }],
    ['message, a function', { limit: 1, message: (_req: Request, res: Response) => `slow down: ${res.statusCode}` }],
    ['message, a function that takes its time', { limit: 1, message: async () => ({ error: 'slow down' }) }],
    ['message, a function that throws', { limit: 1, message: fails }],
    [
      'message, a function that answers by itself',
      { limit: 1, message: (_req: Request, res: Response) => res.end('so') },
    ],
    ['statusCode', { limit: 1, statusCode: 503 }],
    ['handler', { limit: 1, handler: (req, res) => void res.status(418).json({ key: req.ip }) }],
    ['handler that passes the request on', { limit: 1, handler: (_req, _res, next) => next() }],
    ['handler that throws', { limit: 1, handler: fails }],
    ['handler that rejects', { limit: 1, handler: rejects }],
    ['handler, told of the options', { limit: 1, handler: (_req, res, _next, used) => void res.json(shown(used)) }],
    ['legacyHeaders false', { limit: 1, legacyHeaders: false }],
    ['headers false', { limit: 1, headers: false }],
    ['headers false, legacyHeaders true', { limit: 1, headers: false, legacyHeaders: true }],
    ['standardHeaders true', { limit: 1, standardHeaders: true }],
    ['standardHeaders draft-6', { limit: 1, standardHeaders: 'draft-6', windowMs: 1500 }],
    ['standardHeaders draft-7', { limit: 1, standardHeaders: 'draft-7', legacyHeaders: false }],
    ['standardHeaders draft-8', { limit: 1, standardHeaders: 'draft-8' }],
    ['standardHeaders of an unknown draft', { limit: 1, standardHeaders: 'draft-5' as never }],
    [
      'standardHeaders of an unknown draft, no others',
      { limit: 1, standardHeaders: 'x' as never, legacyHeaders: false },
    ],
    ['identifier, a text', { limit: 1, standardHeaders: 'draft-8', identifier: 'login' }],
    ['identifier, a function', { standardHeaders: 'draft-8', identifier: req => `for ${req.ip}` }],
    ['identifier, a function that takes its time', { standardHeaders: 'draft-8', identifier: async () => 'later' }],
    ['retryAfter', { limit: 1, retryAfter: 7 }],
    ['retryAfter, a function', { limit: 1, retryAfter: async () => 8 }],
    ['retryAfter without headers', { limit: 1, retryAfter: 7, legacyHeaders: false }],
    ['keyGenerator', { limit: 1, keyGenerator: byUser }],
    ['keyGenerator that takes its time', { limit: 1, keyGenerator: async req => byUser(req) }],
    ['keyGenerator that throws', { keyGenerator: fails }],
    ['keyGenerator that rejects', { keyGenerator: rejects }],
    ['keyGenerator that gives a number', { limit: 1, keyGenerator: () => 42 as never }],
    ['skip', { limit: 1, skip: () => true }],
    ['skip that takes its time', { limit: 1, skip: async () => true }],
    ['skip, not this one', { limit: 1, skip: async () => false }],
    ['skip that throws', { skip: fails }],
    ['skip that rejects', { skip: rejects }],
    ['requestPropertyName', { limit: 1, requestPropertyName: 'other' }],
    ['requestPropertyName and an identifier', { requestPropertyName: 'other', standardHeaders: 'draft-8' }],
  ])('%s', async (_, options) => {
    await sameOnBoth(answers(3, options))
  })

  test.each([1000, 5000, 60_000, 90_000, 3_600_000, 7_200_000, 86_400_000, 172_800_000])(
    'windowMs %i, and the name of its policy',
    async windowMs => {
      await sameOnBoth(async world => {
        const app = world.serve(world.limiter({ windowMs, limit: 1, standardHeaders: 'draft-8' }))
        const first = await world.times(2, app)
        world.advance(windowMs - 1)
        const last = await world.times(1, app)
        world.advance(1)
        return [first, last, await world.times(2, app)]
      })
    },
  )

  test('requests of several clients', async () => {
    await sameOnBoth(async world => {
      const app = world.serve(world.limiter({ limit: 1 }))
      const from = [
        '192.0.2.1',
        '192.0.2.2',
        '2001:db8:1:100::1',
        '2001:db8:1:1ff::2',
        '2001:db8:1:200::1',
        '::ffff:192.0.2.2',
      ]
      const seen = []
      for (const address of from) seen.push(await world.get(app, address))
      return seen
    })
  })

  test.each<[string, Options['ipv6Subnet']]>([
    ['64', 64],
    ['32', 32],
    ['false', false],
    ['a function', req => (req.get('x-user') ? 48 : 64)],
    ['a function that takes its time', async () => 60],
    ['a function that gives what is out of range', () => 20],
    ['out of range', 128],
  ])('ipv6Subnet %s', async (_, ipv6Subnet) => {
    await sameOnBoth(async world => {
      const app = world.serve(world.limiter({ ipv6Subnet }))
      return [await world.get(app, '2001:DB8:1:2345::1'), await world.get(app, '192.0.2.1')]
    })
  })

  test('two limiters on one request each set their own fields', async () => {
    await sameOnBoth(async world => {
      const one = world.limiter({ limit: 3, standardHeaders: 'draft-8' })
      const two = world.limiter({ limit: 2, windowMs: 5000, standardHeaders: 'draft-8', requestPropertyName: 'other' })
      return world.times(3, world.serve([one, two, world.limiter({ limit: 9, standardHeaders: 'draft-8' })]))
    })
  })

  test('a response that has begun is left alone', async () => {
    await sameOnBoth(async world => {
      const early: Parameters<World['serve']>[1] = (_req, res, next) => {
        res.write('begun;')
        next()
      }
      const limiter = world.limiter({
        limit: 1,
        standardHeaders: 'draft-8',
        message: () => '',
        handler: (_q, r) => void r.end('no'),
      })
      return world.times(
        2,
        world.serve([early, limiter], (_req, res) => void res.end('yes')),
      )
    })
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

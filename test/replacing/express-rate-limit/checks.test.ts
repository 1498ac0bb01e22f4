import { describe, expect, test } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import type { Options } from '../../../src/replacing/express-rate-limit/index.js'
import { OURS, sameOnBoth, World } from './world.js'

/** Codes of all that was logged by a limiter and a few requests to it. */
const codes =
  (options: Record<string, unknown>, headers: Record<string, string> = {}, trust: unknown = 1) =>
  async (world: World): Promise<unknown> => {
    const app = world.serve(world.limiter(options as Partial<Options>))
    app.set('trust proxy', trust)
    const seen = []
    for (let i = 0; i < 2; i++) seen.push((await world.get(app, '192.0.2.1', headers)).status)
    return seen
  }

class Other {
  increment = async () => ({ totalHits: 0.5, resetTime: undefined })
  async decrement() {}
  async resetKey() {}
}

describe('checks find what those of express-rate-limit find, log it once, and block no request', () => {
  test.each<[code: string, Record<string, unknown>, headers?: Record<string, string>, trust?: unknown]>([
    ['ERR_ERL_PERMISSIVE_TRUST_PROXY', {}, {}, true],
    ['ERR_ERL_UNEXPECTED_X_FORWARDED_FOR', {}, {}, false],
    ['ERR_ERL_FORWARDED_HEADER', {}, { Forwarded: 'for=192.0.2.9', 'X-Forwarded-For': '' }, false],
    ['ERR_ERL_INVALID_IP_ADDRESS', {}, { 'X-Forwarded-For': '192.0.2.1:443' }],
    ['ERR_ERL_INVALID_HITS', { store: new Other() }],
    ['WRN_ERL_MAX_ZERO', { limit: 0 }],
    ['ERR_ERL_HEADERS_NO_RESET', { standardHeaders: 'draft-7', store: new Other() }],
    ['ERR_ERL_HEADERS_NO_RESET', { standardHeaders: 'draft-8', store: new Other() }],
    ['ERR_ERL_UNKNOWN_OPTION', { limits: 5 }],
    ['ERR_ERL_IPV6_SUBNET', { ipv6Subnet: 31 }],
    ['ERR_ERL_IPV6_SUBNET', { ipv6Subnet: 56.5, validate: { ipv6Subnet: true, default: false } }],
    ['ERR_ERL_IPV6SUBNET_OR_KEYGENERATOR', { ipv6Subnet: 64, keyGenerator: () => 'me' }],
    ['ERR_ERL_KEY_GEN_IPV6', { keyGenerator: (req: { ip: string }) => req.ip }],
    ['ERR_ERL_WINDOW_MS', { windowMs: 0.5 }],
  ])('%s', async (...[code, options, headers, trust]) => {
    const seen = await sameOnBoth(codes(options, headers, trust))
    expect(JSON.stringify(seen)).toContain(code)
  })

  test.each<[string, Record<string, unknown>]>([
    ['ERR_ERL_WINDOW_MS, a text', { windowMs: '1000' }],
    ['ERR_ERL_WINDOW_MS, no number', { windowMs: Number.NaN }],
    ['ERR_ERL_WINDOW_MS, without an end', { windowMs: Number.POSITIVE_INFINITY }],
  ])('%s', async (_, options) => {
    // Only what is said: what express-rate-limit then does depends on how fast its timer runs.
    const seen = await sameOnBoth(world => void world.limiter(options as Partial<Options>))
    expect(JSON.stringify(seen)).toContain('ERR_ERL_WINDOW_MS')
  })

  test.each<[string, Record<string, unknown>]>([
    ['delayMs of express-slow-down is tolerated', { delayMs: 5 }],
    ['validate false', { validate: false, limits: 5, limit: 0, standardHeaders: 'draft-1', windowMs: 0.5 }],
    ['validate by name', { validate: { knownOptions: false }, limits: 5, limit: 0 }],
    ['validate by default', { validate: { default: false, limit: true }, limits: 5, limit: 0 }],
    ['a generator that uses ipKeyGenerator', { keyGenerator: new Function('req', 'return req.ip // ipKeyGenerator') }],
    ['ipv6Subnet false', { ipv6Subnet: false }],
  ])('%s', async (_, options) => {
    await sameOnBoth(codes(options))
  })

  test('a window that is too long for a timer is none of ours', () => {
    const world = new World(OURS, express)
    world.limiter({ windowMs: 2 ** 31 })
    expect(world.logged).toEqual([])
  })

  test('ERR_ERL_UNDEFINED_IP_ADDRESS', async () => {
    const seen = await sameOnBoth(async world => {
      const app = { get: () => false }
      const passed: unknown[] = []
      const req = { headers: {}, app }
      await world.limiter()(req as never, { setHeader() {} } as never, (...args) => passed.push(args.length))
      return passed
    })
    expect(JSON.stringify(seen)).toContain('ERR_ERL_UNDEFINED_IP_ADDRESS')
  })

  test('ERR_ERL_STORE_REUSE', async () => {
    await sameOnBoth(world => {
      const store = new world.MemoryStore()
      world.limiter({ store })
      world.limiter({ store })
      const remote = Object.assign(new Other(), { localKeys: false })
      world.limiter({ store: remote })
      world.limiter({ store: remote })
    })
  })

  test('ERR_ERL_DOUBLE_COUNT', async () => {
    await sameOnBoth(async world => {
      const twice = world.limiter()
      const seen = [await world.statuses(2, world.serve([twice, twice]))]
      // Stores that may share their counts: the same key, and keys told apart by a prefix.
      const shared = (prefix?: string) => world.limiter({ store: Object.assign(new Other(), { prefix }) })
      seen.push(await world.statuses(1, world.serve([shared(), shared()])))
      seen.push(await world.statuses(1, world.serve([shared('a'), shared('b')])))
      return seen
    })
  })

  test('ERR_ERL_CREATED_IN_REQUEST_HANDLER', async () => {
    const seen = await sameOnBoth(async world => {
      const create: RequestHandler = (req, res, next) => void world.limiter()(req, res, next)
      const remote: RequestHandler = (req, res, next) => void world.limiter({ store: new Other() })(req, res, next)
      return [await world.statuses(1, world.serve(create)), await world.statuses(1, world.serve(remote))]
    })
    expect(JSON.stringify(seen).match(/ERR_ERL_CREATED_IN_REQUEST_HANDLER/g)).toHaveLength(2)
  })

  test('errors carry where to read on, and go to the console unless a logger is given', async () => {
    await sameOnBoth(async world => {
      const logged: unknown[] = []
      const { error, warn } = console
      console.error = (...args) => logged.push('error', ...args)
      console.warn = (...args) => logged.push('warn', ...args)
      const failing = () => {
        throw new Error('no database')
      }
      try {
        world.rateLimit({ nonsense: 1 } as never)
        const none = world.rateLimit({ limit: 0, keyGenerator: () => 'me', handler() {} })
        await none({} as never, { setHeader() {} } as never, () => {})
        world.rateLimit({ store: Object.assign(new Other(), { init: failing }) })
      } finally {
        Object.assign(console, { error, warn })
      }
      return logged.map(entry => {
        const { code, help, message } = entry as { code?: string; help?: string; message?: string }
        return [code ?? message ?? String(entry).replace('spillway/', ''), help]
      })
    })
  })

  test.each([
    ['windowMS', 'did you mean windowMs?'],
    ['onLimitReached', 'handler is called for each refusal'],
    ['draft_polli_ratelimit_headers', "expected standardHeaders: 'draft-6'"],
    ['limits', 'did you mean limit?'],
  ])('an unknown option is said by name: %s', (name, hint) => {
    const world = new World(OURS, express)
    const texts: unknown[] = []
    world.rateLimit({ [name]: true, logger: { ...world.logger, error: error => texts.push((error as Error).message) } })
    expect(texts).toEqual([expect.stringContaining(`unknown option "${name}": ${hint}`)])
  })

  test('a wrong logger and a wrong store throw', async () => {
    await sameOnBoth(world => {
      const wrong = [
        { logger: null, validate: false },
        { logger: {} },
        { logger: { error() {} } },
        { logger: 'console' },
        { store: {} },
        { store: { increment() {}, decrement() {} } },
        { store: Object.assign(new Other(), { init: true }) },
        { store: Object.assign(new Other(), { resetAll: 1 }) },
      ]
      return wrong.map(options => {
        try {
          return typeof world.rateLimit(options as never)
        } catch (error) {
          return String(error)
        }
      })
    })
  })
})

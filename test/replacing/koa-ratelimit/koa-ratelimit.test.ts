import { afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import Koa from 'koa'
import theirs from 'koa-ratelimit'
import { createClient } from 'redis'
import ratelimit, { type MiddlewareOptions } from '../../../src/replacing/koa-ratelimit/index.js'
import { randomFrom } from '../../support/random.js'
import { RedisServer } from '../../support/redis-server.js'
import { testRedis } from '../../support/test-redis.js'
import { warnings } from '../../support/warnings.js'
import { both, serviceOf } from './world.js'

const redis = testRedis()
const warned = warnings()
let client: Redis
beforeAll(() => {
  client = redis.client()
})
beforeEach(() => client.flushall())

const create = () => new Koa()
// A busy machine may need longer than 50 ms.
const LASTING: MiddlewareOptions = { duration: 36_000_000, max: 3, deadline: '20s' }
const query = (name: string): NonNullable<MiddlewareOptions['id']> => {
  return ctx => (ctx.query[name] === 'nobody' ? false : String(ctx.query[name] ?? 'me'))
}

describe.each(['memory', 'redis'] as const)('behaves as koa-ratelimit 6 with driver %s', driver => {
  const fresh = async (options: MiddlewareOptions): Promise<MiddlewareOptions> => {
    await client.flushall()
    return { driver, db: driver === 'memory' ? new Map() : client, ...LASTING, ...options }
  }
  const CASES: Record<string, MiddlewareOptions> = {
    'counts, refuses and names its header fields': {},
    'leaves its header fields out': { disableHeader: true },
    'calls its header fields as it is told': { headers: { remaining: 'Left', reset: 'Until', total: 'All' } },
    'calls one header field otherwise': { headers: { total: 'All' } },
    'writes a body and a status of ours': { errorMessage: 'slow down', status: 420 },
    'writes an object': { errorMessage: { error: 'slow down' } },
    'throws a refusal': { throw: true },
    'throws a refusal with a text and a status': { throw: true, errorMessage: 'slow down', status: 503 },
    'counts those who share an id together': { id: () => 'one' },
    'limits nobody who has no id': { id: () => false },
    'takes a number for an id': { id: () => 42 },
    'fails for an id that is empty': { id: () => '' },
    'lets those of the white list pass': { whitelist: async ctx => ctx.query.id === 'a' },
    'refuses those of the black list': { blacklist: async ctx => ctx.query.id === 'a' },
    'keeps apart what has another namespace': { namespace: 'other' },
  }
  test.each(Object.entries(CASES))('%s', async (_, options) => {
    const paths = ['?id=a', '?id=a', '?id=b', '?id=a', '?id=a', '?id=b', '?id=nobody', '?id=a']
    const pairs = await both(async (make, create) => {
      const get = serviceOf(create, make(await fresh({ id: query('id'), ...options })))
      const answers = []
      for (const path of paths) answers.push(await get(`/${path}`))
      return answers
    })
    for (const [expected, seen] of pairs) expect(seen).toEqual(expected)
  })

  test('calls onLimited for each refusal only', async () => {
    const calls = await Promise.all(
      [theirs as typeof ratelimit, ratelimit].map(async (make, i) => {
        const onLimited = jest.fn((ctx: Koa.Context) => ctx.status)
        const get = serviceOf(create, make(await fresh({ id: () => `of-${i}`, onLimited })))
        for (let n = 0; n < 5; n++) await get()
        return onLimited.mock.results.map(({ value }) => value)
      }),
    )
    expect(calls).toEqual([
      [429, 429],
      [429, 429],
    ])
  })

  test('two middlewares over one database count together', async () => {
    const pairs = await both(async (make, create) => {
      const options = await fresh({ id: query('id') })
      const [one, two] = [serviceOf(create, make(options)), serviceOf(create, make({ ...options, max: 3 }))]
      return [await one(), await two(), await one(), await two(), await one()]
    })
    for (const [expected, seen] of pairs) expect(seen).toEqual(expected)
  })

  test('a random mix of ids and limits is answered alike', async () => {
    for (const seed of ['one', 'two', 'three']) {
      const pairs = await both(async (make, create) => {
        const random = randomFrom(seed)
        const options = await fresh({ id: query('id'), max: random.integer(1, 6) })
        const get = serviceOf(create, make(options))
        const answers = []
        for (let n = 0; n < 25; n++) answers.push(await get(`/?id=${random.pick(['a', 'b', 'c'])}`))
        return answers
      })
      for (const [expected, seen] of pairs) expect([seed, seen]).toEqual([seed, expected])
    }
  })

  test('sends a wait of whole seconds, rounded up and at least 1, and a reset that is not too early', async () => {
    const duration = 7_200_900
    const options = await fresh({ id: () => 'me', max: 1, duration })
    const get = serviceOf(create, ratelimit(options))
    const startedAt = Date.now()
    await get()
    const { status, headers, text } = await get()
    const tookMs = Date.now() - startedAt
    expect(status).toBe(429)
    // 7201, unless the machine took 900 ms for two requests.
    expect(headers['retry-after']).toMatch(/^\d+$/)
    expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(Math.ceil((duration - tookMs) / 1000))
    expect(Number(headers['retry-after'])).toBeLessThanOrEqual(7201)
    expect(text).toBe('Rate limit exceeded, retry in 2 hours.')
    expect(headers['x-ratelimit-reset']).toMatch(/^\d+$/)
    expect(Number(headers['x-ratelimit-reset']) * 1000).toBeGreaterThanOrEqual(startedAt + duration)
    expect(Number(headers['x-ratelimit-reset']) * 1000).toBeLessThan(startedAt + tookMs + duration + 1000)
  })

  test('refuses all requests at a limit of 0', async () => {
    const get = serviceOf(create, ratelimit(await fresh({ id: () => 'me', max: 0 })))
    const { status, headers } = await get()
    expect([status, Number(headers['retry-after']) >= 1]).toEqual([429, true])
  })
})

test('in memory the Map is that of koa-ratelimit: each continues the counts of the other', async () => {
  const options: MiddlewareOptions = { ...LASTING, driver: 'memory', db: new Map(), id: () => 'me', max: 4 }
  const [before, after] = [serviceOf(create, theirs(options)), serviceOf(create, ratelimit(options))]
  const left = []
  for (const get of [before, after, before, after, before, after]) {
    const { status, headers } = await get()
    left.push(`${status} ${headers['x-ratelimit-remaining']}`)
  }
  expect(left).toEqual(['200 3', '200 2', '200 1', '200 0', '429 0', '429 0'])
})

describe('in memory', () => {
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance'] })
  })
  afterEach(() => {
    jest.useRealTimers()
  })
  const context = () =>
    ({ set() {}, state: {}, throw() {} }) as unknown as Koa.ParameterizedContext & { status: number }
  const run = async (middleware: Koa.Middleware) => {
    const ctx = context()
    await middleware(ctx as never, async () => {})
    return ctx.status ?? 200
  }

  test('a new window begins exactly at the end of the old one', async () => {
    const middleware = ratelimit({ driver: 'memory', db: new Map(), duration: 1000, max: 1, id: () => 'me' })
    expect([await run(middleware), await run(middleware)]).toEqual([200, 429])
    jest.advanceTimersByTime(999)
    expect(await run(middleware)).toBe(429)
    jest.advanceTimersByTime(1)
    expect(await run(middleware)).toBe(200)
  })

  test('a wait of less than a second is one second in the header, and exact in the text', async () => {
    const middleware = ratelimit({ driver: 'memory', db: new Map(), duration: 400, max: 1, id: () => 'me' })
    await run(middleware)
    jest.advanceTimersByTime(1)
    const ctx = context()
    await middleware(ctx as never, async () => {})
    expect([ctx.status, ctx.body]).toEqual([429, 'Rate limit exceeded, retry in 399 ms.'])
    expect(ctx.state.rateLimit).toMatchObject({ after: 1 })
  })

  test('expired windows leave the Map; other values stay', async () => {
    const db = new Map<string, unknown>([['mine', 'kept']])
    let next = 0
    const middleware = ratelimit({ driver: 'memory', db, duration: 1000, id: () => `${next++}` })
    for (let n = 0; n < 500; n++) await run(middleware)
    expect(db.size).toBe(501)
    jest.advanceTimersByTime(1000)
    for (let n = 0; n < 250; n++) await run(middleware)
    expect(db.size).toBe(251)
    // The sweep spends at most 1 ms a second.
    for (let n = 0; n < 20 && db.size > 1; n++) jest.advanceTimersByTime(1000)
    expect([...db]).toEqual([['mine', 'kept']])
    expect(jest.getTimerCount()).toBe(0)
  })

  test('without a Map of the service it creates its own', async () => {
    const middleware = ratelimit({ driver: 'memory', max: 1, id: () => 'me' })
    expect([await run(middleware), await run(middleware)]).toEqual([200, 429])
  })

  test('clearing the Map forgets all counts', async () => {
    const db = new Map()
    const middleware = ratelimit({ driver: 'memory', db, max: 1, id: () => 'me' })
    await run(middleware)
    db.clear()
    expect(await run(middleware)).toBe(200)
  })
})

describe('on Redis', () => {
  const options = { db: {}, duration: 60_000, max: 100, id: () => 'me', deadline: '5s' }

  test('requests of one moment are all counted, by one command, in keys with a lifetime', async () => {
    const middleware = ratelimit({ ...options, db: client, max: 30 })
    const run = async () => {
      const ctx = { set() {}, state: {} } as unknown as Koa.ParameterizedContext & { status: number }
      await middleware(ctx as never, async () => {})
      return ctx.status ?? 200
    }
    await run()
    await client.config('RESETSTAT')
    const statuses = await Promise.all(Array.from({ length: 40 }, run))
    expect(await client.info('commandstats')).toContain('cmdstat_evalsha:calls=1,')
    expect(statuses.filter(status => status === 200)).toHaveLength(29)
    const keys = await client.keys('*')
    expect(keys).not.toEqual([])
    for (const key of keys) expect([key, (await client.pttl(key)) > 0]).toEqual([key, true])
  })

  test('node-redis works as well', async () => {
    const other = createClient({ url: redis.url })
    await other.connect()
    const get = serviceOf(create, ratelimit({ ...options, db: other, max: 1 }))
    expect([(await get()).status, (await get()).status]).toEqual([200, 429])
    await other.close()
  })

  test('while Redis is away each process limits alone', async () => {
    const lone = await RedisServer.start()
    const get = serviceOf(create, ratelimit({ ...options, db: lone.client(), max: 2 }))
    expect((await get()).status).toBe(200)
    await lone.stop()
    const statuses = []
    for (let n = 0; n < 4; n++) statuses.push((await get()).status)
    expect(statuses).toEqual([200, 200, 429, 429])
    expect(warned.textsOf('SPILLWAY_STORE').length).toBeGreaterThan(0)
  })
})

test('options with which every request of koa-ratelimit fails are refused when the middleware is created', () => {
  const make = (options: object) => () => ratelimit({ driver: 'memory', db: new Map(), ...options })
  expect(make({ driver: 'disk' })).toThrow('koa-ratelimit: driver "disk": expected "redis" or "memory"')
  expect(make({ db: {} })).toThrow('koa-ratelimit: db an object {  }: expected a Map with driver "memory"')
  expect(make({ driver: 'redis', db: undefined })).toThrow(
    'koa-ratelimit: db: client undefined: expected a client of ioredis',
  )
  expect(make({ max: -1 })).toThrow('koa-ratelimit: max -1: expected a whole number ≥ 0, like 100')
  expect(make({ max: 1.5 })).toThrow('koa-ratelimit: max 1.5')
  expect(make({ duration: 0 })).toThrow('koa-ratelimit: duration 0: expected ms > 0, like 60000')
  expect(make({ id: 'me' })).toThrow('koa-ratelimit: id "me": expected a function, like ctx => ctx.ip')
  expect(make({ max: '5', duration: '1000' })).not.toThrow()
})

import { describe, expect, test } from '@jest/globals'
import type { Framework } from '../../../src/http/framework.js'
import type { HttpOptions } from '../../../src/http/rate-limit/options.js'
import { RateLimitGate } from '../../../src/http/rate-limit/rate-limit.js'
import { ResponseWatch } from '../../../src/http/response-watch.js'
import { getOrMake } from '../../../src/limiter/core/maps.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { warnings } from '../../support/warnings.js'

interface Request {
  address?: string
  headers?: Record<string, string>
  gone?: boolean
}
type Response = Record<string, string>

const WATCHES = new WeakMap<object, ResponseWatch>()

const plain: Framework<Request, Response> = {
  name: 'Plain',
  args: (req, res) => [req, res],
  address: req => req.address,
  peer: req => (req.gone ? undefined : (req.address ?? '')),
  trust: () => 'nobody',
  requestHeader: (req, name) => req.headers?.[name],
  watch: res => {
    const watch = getOrMake(
      WATCHES,
      res,
      () => new ResponseWatch(() => ({ gone: true, stuck: false, taken: 0, watch() {}, unwatch() {} })),
    )
    return watch
  },
}

function guard(options: HttpOptions<[req: Request, res: Response]>) {
  return RateLimitGate.of({ store: new MemoryStore({ clock: new ManualClock() }), ...options }, plain)
}

const warned = warnings()

test('a request that is not limited is passed on with nothing to set', async () => {
  for (const options of [{ skip: () => true }, { key: () => undefined }]) {
    expect(await guard(options).answer({}, {})).toEqual({ decision: undefined, fields: {}, refusal: undefined })
  }
})

test('an answer is a decision, fields to set, and perhaps a refusal', async () => {
  const limiter = guard({ policy: '1/1m', headers: ['draft-7'] })
  const passed = await limiter.answer({ address: '203.0.113.7' }, {})
  expect(passed).toMatchObject({
    decision: { allowed: true, key: '203.0.113.7' },
    fields: { 'RateLimit-Policy': '1;w=60', RateLimit: 'limit=1, remaining=0, reset=60' },
    refusal: undefined,
  })
  const refused = await limiter.answer({ address: '203.0.113.7' }, {})
  expect(refused).toMatchObject({
    decision: { allowed: false, retryAfterMs: 60_000 },
    fields: { RateLimit: 'limit=1, remaining=0, reset=60', 'Retry-After': '60', 'Cache-Control': 'no-store' },
    refusal: { status: 429 },
  })
  expect(await refused.refusal?.body()).toMatchObject({ text: 'Too many requests: try again in 60 seconds.\n' })
})

test('functions are called in their order, and only as far as needed', async () => {
  const asked: string[] = []
  const note = <Value>(name: string, value: Value) => {
    return () => {
      asked.push(name)
      return value
    }
  }
  await guard({
    skip: note('skip', false),
    key: note('key', 'a'),
    policy: note('policy', '1/1m'),
    cost: note('cost', 1),
  }).answer({}, {})
  expect(asked.splice(0)).toEqual(['skip', 'key', 'policy', 'cost'])
  await guard({
    skip: note('skip', false),
    key: note('key', undefined),
    limit: note('limit', 1),
    cost: note('cost', 1),
  }).answer({}, {})
  expect(asked.splice(0)).toEqual(['skip', 'key'])
})

describe('without an address', () => {
  test('requests share one count, and one warning says so', async () => {
    const limiter = guard({ policy: '1/1m' })
    expect((await limiter.answer({}, {})).refusal).toBeUndefined()
    expect((await limiter.answer({ address: '' }, {})).refusal?.status).toBe(429)
    expect(warned.codes).toEqual(['SPILLWAY_NO_ADDRESS'])
    expect(warned.texts[0]).toContain('rateLimit({ proxies: 1 })')
  })
})

describe('a client that has gone', () => {
  const GONE = { decision: undefined, fields: {}, refusal: undefined, gone: true }
  const unasked = () => {
    throw new Error('nobody should ask this')
  }

  test('is asked for nothing and counted nowhere, without a warning, and the watch of its response is over', async () => {
    const limiter = guard({ skip: unasked, key: unasked, policy: unasked, cost: unasked, deny: ['10.0.0.0/8'] })
    const res: Response = {}
    expect(await limiter.answer({ gone: true }, res)).toEqual(GONE)
    expect(plain.watch(res, {}).ended).toBe(true)
    expect(warned.texts).toEqual([])
  })

  test.each<[string, HttpOptions<[req: Request, res: Response]>]>([
    ['skip', { policy: '1/1m', skip: async req => leave(req) === '', key: unasked }],
    ['key', { policy: unasked, key: async req => leave(req) }],
    ['the key of a limit', { policy: { quota: 1, window: '1m', key: async req => leave(req) }, cost: unasked }],
    ['policy', { policy: async req => `${leave(req)}/1m`, cost: unasked }],
    ['cost', { policy: '1/1m', cost: async req => Number(leave(req)) }],
  ])('while %s was asked is over then, and costs nothing', async (_, options) => {
    const store = new MemoryStore({ clock: new ManualClock() })
    expect(await guard({ store, ...options }).answer({ address: '203.0.113.7' }, {})).toEqual(GONE)
    expect(store.size).toBe(0)
  })

  const leave = (req: Request) => {
    req.gone = true
    return '1'
  }
})

test('if the policy is a function, header fields show the policy that decided', async () => {
  const plans: Record<string, string> = { rich: '100/1m', poor: '5/1m' }
  const limiter = new RateLimiter({ policy: key => plans[key] })
  const middleware = guard({ limiter, store: undefined, key: req => req.address, headers: ['draft-8'] })
  for (const [address, quota] of [
    ['rich', 100],
    ['poor', 5],
    ['rich', 100],
  ] as const) {
    const { fields } = await middleware.answer({ address }, {})
    expect(fields['RateLimit-Policy']).toBe(`"${quota}-per-1m";q=${quota};w=60`)
    expect(fields.RateLimit).toMatch(`"${quota}-per-1m";r=`)
  }
  expect(() => middleware.answer({ address: 'nobody' }, {})).toThrow(
    'RateLimiter: the policy function returned an invalid policy',
  )
})

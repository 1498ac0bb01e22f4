import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { addressKey, type Peer, type RateLimitOptions, rateLimit } from '../../../src/http/adapters/fetch.js'
import { adapterContract } from '../../support/adapter-contract.js'
import { warnings } from '../../support/warnings.js'
import { fetchAdapter } from './fetch-service.js'

const warned = warnings()

adapterContract('fetch', fetchAdapter)

const ADA = { address: '192.0.2.1' }
const requestOf = (init?: RequestInit) => new Request('https://service.example/', init)

/** Counts the reads of a property, because servers create its value at the first read. */
function watchGetter<Name extends string>(object: Record<Name, unknown>, name: Name, asked: string[]): void {
  const value = object[name]
  Object.defineProperty(object, name, {
    get() {
      asked.push(name)
      return value
    },
  })
}

describe('a limiter of requests and responses', () => {
  test('adds its header fields to what the handler returns, also to a response whose fields cannot be changed', async () => {
    const limit = rateLimit({ policy: '9/1m' })
    const { apply, decision } = await limit(requestOf(), ADA)
    const own = apply(Response.json({ ok: true }, { status: 201, headers: { 'x-own': '1' } }))
    expect([own.status, own.headers.get('x-own'), own.headers.get('ratelimit')]).toEqual([
      201,
      '1',
      '"9-per-1m";r=8;t=60',
    ])
    expect([await own.json(), decision?.remaining]).toEqual([{ ok: true }, 8])
    const away = (await limit(requestOf(), ADA)).apply(Response.redirect('https://other.example/', 303))
    expect([away.status, away.headers.get('location'), away.headers.get('x-ratelimit-remaining')]).toEqual([
      303,
      'https://other.example/',
      '7',
    ])
  })

  test('reads the signal of a request and the body of a response only if the end of the request matters', async () => {
    const limit = rateLimit({ policy: '9/1m' })
    const request = requestOf()
    const response = new Response('hello')
    const asked: string[] = []
    watchGetter(request, 'signal', asked)
    watchGetter(response, 'body', asked)
    const { apply } = await limit(request, ADA)
    expect([apply(response).headers.get('x-ratelimit-remaining'), asked]).toEqual(['8', []])
    const again = await limit(request, ADA)
    expect([again.decision?.remaining, asked]).toEqual([7, []])
  })

  test('gives a handler request and peer, and its Response the status of the refusal, unless it says another', async () => {
    const peer = { ...ADA, port: 4711 }
    const seen: unknown[] = []
    const handler: RateLimitOptions<typeof peer>['handler'] = (request, { port }, { retryAfterMs }) => {
      seen.push(request.method, port, retryAfterMs)
      return new Response('busy', { status: request.method === 'PUT' ? 503 : 200 })
    }
    const limit = rateLimit({ policy: '1/1m', key: (_, { port }) => port, handler })
    await limit(requestOf(), peer)
    const { refusal } = await limit(requestOf(), peer)
    expect([refusal?.status, refusal?.headers.get('retry-after'), await refusal?.text()]).toEqual([429, '60', 'busy'])
    expect((await limit(requestOf({ method: 'PUT' }), peer)).refusal?.status).toBe(503)
    expect(seen).toEqual(['GET', 4711, expect.any(Number), 'PUT', 4711, expect.any(Number)])
    const wrong = rateLimit({ policy: '0/1m', handler: () => 'busy' as unknown as Response })
    await expect(wrong(requestOf(), ADA)).rejects.toThrow(
      'rateLimit: handler returned "busy": expected a Response, like',
    )
  })

  test('refuses a request with a peer that is unknown together with all others of that kind, with a warning', async () => {
    const limit = rateLimit({ policy: '1/1m' })
    expect((await limit(requestOf(), {})).refusal).toBeUndefined()
    expect((await limit(requestOf(), undefined as unknown as Peer)).refusal?.status).toBe(429)
    expect(warned.codes).toEqual(['SPILLWAY_NO_ADDRESS'])
    expect(warned.textsOf('SPILLWAY_NO_ADDRESS')[0]).toContain('Pass who asks, like limit(request, { address })')
  })

  test.each([
    ['a promise', Promise.resolve(new Response('hello'))],
    ['an object { a }', { a: 1 }],
    ['undefined', undefined],
    ['"hello"', 'hello'],
  ])('says what apply was given in place of a response: %s', async (what, given) => {
    const { apply } = await rateLimit({ policy: '9/1m' })(requestOf(), ADA)
    expect(() => apply(given as unknown as Response)).toThrow(
      `apply: given ${what}: expected a Response, like apply(await handler(request))`,
    )
  })

  test('counts a request object that is passed again after its answer as a new request', async () => {
    const limit = rateLimit({ policy: '9/1m' })
    const request = requestOf()
    ;(await limit(request, ADA)).apply(new Response('first'))
    const second = (await limit(request, ADA)).apply(new Response('second'))
    expect(second.headers.get('ratelimit')).toBe('"9-per-1m";r=7;t=60')
  })
})

describe('settle', () => {
  afterEach(() => {
    jest.useRealTimers()
  })
  const asked: unknown[] = []
  const limiterOf = (actual: number) => {
    asked.length = 0
    return rateLimit({
      policy: '9/1m',
      cost: 0,
      settle: (request, response, end) => {
        asked.push([request.method, response.status, end])
        return actual
      },
    })
  }
  const left = async ({ limiter }: ReturnType<typeof limiterOf>) => (await limiter.peek(ADA.address, 0)).remaining

  test('is asked when the body has been read to its end', async () => {
    const limit = limiterOf(3)
    const { apply } = await limit(requestOf({ method: 'POST' }), ADA)
    const response = apply(new Response('done', { status: 201 }))
    expect(asked).toEqual([])
    await response.text()
    expect([asked, await left(limit)]).toEqual([[['POST', 201, { completed: true, ended: true }]], 6])
  })

  test('is asked when the body is cancelled', async () => {
    const limit = limiterOf(2)
    const { apply } = await limit(requestOf(), ADA)
    await apply(new Response('done')).body?.cancel()
    expect([asked, await left(limit)]).toEqual([[['GET', 200, { completed: false, ended: true }]], 7])
  })

  test('is asked at once for an answer to HEAD and for one without a body', async () => {
    const limit = limiterOf(1)
    ;(await limit(requestOf({ method: 'HEAD' }), ADA)).apply(new Response('unread'))
    ;(await limit(requestOf(), ADA)).apply(new Response(null, { status: 204 }))
    expect(asked).toEqual([
      ['HEAD', 200, { completed: true, ended: true }],
      ['GET', 204, { completed: true, ended: true }],
    ])
  })

  test('is asked 30 s after the decision if no response is applied, and then at least 1 is charged', async () => {
    const limit = limiterOf(0)
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'Date', 'performance'] })
    await limit(requestOf(), ADA)
    jest.advanceTimersByTime(29_999)
    expect(asked).toEqual([])
    jest.advanceTimersByTime(1)
    expect([asked, await left(limit)]).toEqual([[['GET', 0, { completed: false, ended: false }]], 8])
  })

  test('of one limiter is asked when another one refuses the request', async () => {
    const limit = limiterOf(1)
    const request = requestOf()
    await limit(request, ADA)
    const { refusal } = await rateLimit({ policy: '0/1m', name: 'other' })(request, ADA)
    expect(refusal?.status).toBe(429)
    expect(asked).toEqual([['GET', 429, { completed: true, ended: true }]])
  })
})

test('a request that was aborted is over before anything is asked if the service knows no address, and counted if it does', async () => {
  const limit = rateLimit({ policy: '1/1m', deny: ['203.0.113.0/24'] })
  const aborted = () => requestOf({ signal: AbortSignal.abort() })
  for (const peer of [{}, { address: '' }, undefined as never]) {
    const { refusal, decision } = await limit(aborted(), peer)
    expect([refusal?.status, decision]).toEqual([499, undefined])
  }
  expect((await limit(aborted(), { address: '203.0.113.7' })).refusal?.status).toBe(403)
  expect((await limit(aborted(), { address: '192.0.2.1' })).decision?.key).toBe('192.0.2.1')
})

test('the server of Bun knows the address, and that a client has gone', async () => {
  const limit = rateLimit({ policy: '9/1m', deny: ['203.0.113.0/24'] })
  const serverOf = (address?: string) => ({ port: 80, requestIP: () => (address === undefined ? null : { address }) })
  const statuses = []
  for (const address of ['203.0.113.7', undefined, '192.0.2.1']) {
    const { refusal, decision } = await limit(requestOf(), { server: serverOf(address) })
    statuses.push(refusal?.status ?? decision?.key)
  }
  expect(statuses).toEqual([403, 499, '192.0.2.1'])
})

test('addressKey gives the key of a peer, also outside of a limiter', () => {
  const byAddress = addressKey({ proxies: 1 })
  const request = requestOf({ headers: { 'x-forwarded-for': '198.51.100.66, 2001:db8::1' } })
  expect([byAddress(request), byAddress(request, {}), addressKey()(requestOf(), ADA)]).toEqual([
    '2001:db8::/56',
    '2001:db8::/56',
    ADA.address,
  ])
})

test('a client that goes away while its request waits gets its unit back', async () => {
  const limit = rateLimit({ policy: '1/1h leaky-bucket burst=2' })
  await limit(requestOf(), ADA)
  const client = new AbortController()
  const waiting = limit(requestOf({ signal: client.signal }), ADA)
  client.abort()
  expect((await waiting).refusal?.status).toBe(499)
  expect((await limit.limiter.peek(ADA.address, 0)).remaining).toBe(1)
})

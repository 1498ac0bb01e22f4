import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { PolicyError, TimeoutError } from '../../src/limiter/core/errors.js'
import { type PoliteOptions, politeFetch } from '../../src/outgoing/index.js'
import { RedisServer } from '../support/redis-server.js'
import { warnings } from '../support/warnings.js'
import { end, withoutHaste } from './timers.js'

const ORIGIN = 'https://api.example.com'
const warned = warnings()

/** A partner that gives these answers in turn, the last one again and again. `at`: when calls arrived. */
function partner(...answers: (() => unknown)[]) {
  const at: number[] = []
  const fetch = (async () => {
    at.push(performance.now())
    return answers[Math.min(at.length, answers.length) - 1]()
  }) as unknown as typeof globalThis.fetch
  return { fetch, at }
}

const answer =
  (status: number, headers: Record<string, string> = {}) =>
  () =>
    new Response('text', { status, headers })
const polite = (fetch: typeof globalThis.fetch, more: PoliteOptions = {}) => politeFetch({ fetch, ...more })
const secondsFrom = (now: number, seconds: number) => String(Math.floor(now / 1000) + seconds)

describe('an answer of another fetch', () => {
  test('whose body is a stream of Node is thrown away before the call is sent again, and no place is lost', async () => {
    const bodies: Readable[] = []
    const refused = () => {
      const body = Readable.from(['text'])
      bodies.push(body)
      return { status: 429, headers: new Headers({ 'retry-after': '0' }), body }
    }
    const { fetch } = partner(refused, answer(200), refused, answer(200), refused, answer(200))
    const call = polite(fetch, { limits: { [ORIGIN]: { concurrency: 2 } }, maxWait: '1s' })
    for (let i = 0; i < 3; i++) expect((await call(ORIGIN)).status).toBe(200)
    expect(bodies.map(({ destroyed }) => destroyed)).toEqual([true, true, true])
  })

  test('whose body cannot be thrown away is sent again all the same', async () => {
    const broken = () => ({
      status: 429,
      headers: new Headers({ 'retry-after': '0' }),
      body: {
        cancel() {
          throw new Error('locked')
        },
      },
    })
    const { fetch } = partner(broken, answer(200))
    expect((await polite(fetch)(ORIGIN)).status).toBe(200)
  })
})

describe('a cost that takes long', () => {
  const limits = (cost: () => Promise<number>) => ({
    [ORIGIN]: { budgets: [{ rate: 10, interval: '10s', name: 'tokens', cost }] },
  })

  test('is not asked for a call that was aborted before', async () => {
    let asked = 0
    const cost = async () => ++asked
    const call = polite(partner(answer(200)).fetch, { limits: limits(cost) })
    await expect(call(ORIGIN, { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough')
    expect(asked).toBe(0)
  })

  test('is not awaited after an abort', async () => {
    const ending = new AbortController()
    const call = polite(partner(answer(200)).fetch, { limits: limits(() => sleep(2000, 1, { ref: false })) })
    setTimeout(() => ending.abort(new Error('enough')), 20)
    const startedAt = performance.now()
    await expect(call(ORIGIN, { signal: ending.signal })).rejects.toThrow('enough')
    expect(performance.now() - startedAt).toBeLessThan(1500)
  })

  test('counts for maxWait', async () => {
    const { fetch, at } = partner(answer(200))
    const call = polite(fetch, { limits: limits(() => sleep(2000, 1, { ref: false })), maxWait: 50 })
    const startedAt = performance.now()
    const error = await call(ORIGIN).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(TimeoutError)
    expect((error as Error).message).toBe(`politeFetch: ${ORIGIN}: cost did not answer within maxWait`)
    expect(performance.now() - startedAt).toBeLessThan(1500)
    await sleep(0)
    expect(at).toEqual([])
  })
})

describe('when units come back', () => {
  withoutHaste()

  test('a reset that has passed says nothing: the wait is 0.5 s', async () => {
    const passed = () =>
      answer(429, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': secondsFrom(Date.now(), -2) })()
    const { fetch, at } = partner(passed, answer(200))
    expect((await end(polite(fetch)(ORIGIN))).status).toBe(200)
    expect(at[1] - at[0]).toBeGreaterThanOrEqual(499)
  })

  test('a date of Retry-After is read by the clock of the answer', async () => {
    // The partner's clock is an hour behind ours.
    const now = Date.now() - 3_600_000
    const headers = {
      date: new Date(now).toUTCString(),
      'retry-after': new Date(now + 1000).toUTCString(),
    }
    const { fetch, at } = partner(answer(429, headers), answer(200))
    expect((await end(polite(fetch)(ORIGIN))).status).toBe(200)
    expect(at[1] - at[0]).toBeGreaterThanOrEqual(999)
  })

  test('a moment of a RateLimit field, too', async () => {
    const now = Date.now() - 3_600_000
    const headers = {
      date: new Date(now).toUTCString(),
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': secondsFrom(now, 1),
    }
    const { fetch, at } = partner(answer(429, headers), answer(200))
    expect((await end(polite(fetch)(ORIGIN))).status).toBe(200)
    expect(at[1] - at[0]).toBeGreaterThanOrEqual(999)
  })
})

describe('a refusal', () => {
  withoutHaste()

  test.each([429, 503])('%p that does not say when delays its own call alone', async status => {
    const { fetch, at } = partner(answer(status), answer(200), answer(200))
    const call = polite(fetch)
    const first = call(ORIGIN)
    await new Promise(setImmediate)
    const startedAt = performance.now()
    expect((await end(call(ORIGIN))).status).toBe(200)
    expect(performance.now() - startedAt).toBeLessThan(400)
    expect((await end(first)).status).toBe(200)
    expect(at[2] - at[0]).toBeGreaterThanOrEqual(499)
  })

  test.each<[string, number, Record<string, string>]>([
    ['403 with Retry-After', 403, { 'retry-after': '1' }],
    ['403 with nothing remaining', 403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1' }],
    ['529', 529, { 'retry-after': '1' }],
  ])(
    '%s is one: it pauses the partner, and the call is sent again, whatever its method',
    async (_, status, headers) => {
      const { fetch, at } = partner(answer(status, headers), answer(200))
      const call = polite(fetch)
      const first = call(ORIGIN, { method: 'POST', body: 'text' })
      await new Promise(setImmediate)
      expect((await end(call(ORIGIN))).status).toBe(200)
      expect((await end(first)).status).toBe(200)
      for (const time of at.slice(1)) expect(time - at[0]).toBeGreaterThanOrEqual(999)
    },
  )

  test('403 alone is none', async () => {
    const { fetch, at } = partner(answer(403))
    expect((await end(polite(fetch)(ORIGIN))).status).toBe(403)
    expect(at).toHaveLength(1)
  })
})

describe('a body that the caller cancels', () => {
  test('ends what settle reads, and the partner stops to send', async () => {
    let sent = 0
    let cancelled = false
    const stream = () =>
      new Response(
        new ReadableStream({
          async pull(controller) {
            await sleep(1)
            if (++sent > 500) controller.close()
            else controller.enqueue(new TextEncoder().encode('part'))
          },
          cancel() {
            cancelled = true
          },
        }),
        { headers: { 'x-id': '7' } },
      )
    let settled: unknown
    const settle = async (response: Response) => {
      settled = await response
        .clone()
        .text()
        .catch((error: Error) => error.name)
      return undefined
    }
    const budgets = [{ rate: 10, interval: '10s', name: 'tokens', settle }]
    const got = await polite(partner(stream).fetch, { limits: { [ORIGIN]: { budgets } } })(ORIGIN)
    expect([got.status, got.headers.get('x-id'), got.ok]).toEqual([200, '7', true])
    const reader = (got.body as ReadableStream<Uint8Array>).getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('part')
    await reader.cancel()
    for (let i = 0; i < 100 && !cancelled; i++) await sleep(1)
    await sleep(5)
    expect([cancelled, settled]).toEqual([true, 'AbortError'])
    expect(sent).toBeLessThan(200)
  })

  test.each([
    ['a cancelled body is no failure of settle', true, 0],
    ['an abort of its own is one', false, 1],
  ])('%s', async (_, cancels, count) => {
    const stream = () => new Response(new ReadableStream({ pull: () => new Promise(() => {}) }))
    const settle = async (response: Response) => {
      if (!cancels) throw new DOMException('its own', 'AbortError')
      await response.clone().text()
      return 1
    }
    const budgets = [{ rate: 10, interval: '10s', name: 'tokens', settle }]
    const got = await polite(partner(stream).fetch, { limits: { [ORIGIN]: { budgets } } })(ORIGIN)
    await got.body?.cancel()
    for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate)
    expect(warned.textsOf('SPILLWAY_SETTLE')).toHaveLength(count)
  })

  test('of a refused call that is sent again, settle reads the whole body', async () => {
    const slow = () => {
      const parts = ['{"used":', '7}']
      const body = new ReadableStream({
        async pull(controller) {
          await new Promise(setImmediate)
          const part = parts.shift()
          if (part === undefined) controller.close()
          else controller.enqueue(new TextEncoder().encode(part))
        },
      })
      return new Response(body, { status: 429, headers: { 'retry-after': '0' } })
    }
    const settled: string[] = []
    const settle = async (response: Response) => {
      settled.push(response.ok ? 'ok' : await response.text().catch((error: Error) => error.name))
      return 1
    }
    const budgets = [{ rate: 10, interval: '10s', name: 'tokens', settle }]
    const { fetch } = partner(slow, answer(200))
    const call = polite(fetch, { limits: { [ORIGIN]: { budgets } } })
    expect((await call(ORIGIN)).status).toBe(200)
    for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate)
    expect(settled.sort()).toEqual(['ok', '{"used":7}'].sort())
  })

  test('a body that is read to its end is the same for both, and the answer keeps its URL', async () => {
    let settled: unknown
    const settle = async (response: Response) => {
      settled = await response.text()
      return 1
    }
    const url = 'data:text/plain,hello'
    const budgets = [{ rate: 10, interval: '10s', name: 'tokens', settle }]
    const call = polite(() => globalThis.fetch(url), { limits: { [ORIGIN]: { budgets } } })
    const got = await call(ORIGIN)
    expect([got.url, got.redirected, got.type, await got.text()]).toEqual([url, false, 'basic', 'hello'])
    await sleep(5)
    expect(settled).toBe('hello')
  })
})

test.each([[[5]], [[null]], [['GET', undefined]]])('retryMethods %j is a PolicyError', methods => {
  expect(() => politeFetch({ retryMethods: methods as string[] })).toThrow(PolicyError)
})

describe('over Redis', () => {
  let redis: RedisServer
  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.stop())

  test('the first call is aborted at once while Redis hangs', async () => {
    const call = polite(partner(answer(200)).fetch, { client: redis.client(), observer: {} })
    redis.pause()
    try {
      const ending = new AbortController()
      setTimeout(() => ending.abort(new Error('enough')), 50)
      const startedAt = performance.now()
      await expect(call(ORIGIN, { signal: ending.signal })).rejects.toThrow('enough')
      expect(performance.now() - startedAt).toBeLessThan(700)
    } finally {
      redis.unpause()
    }
  })

  test('keys begin with the prefix, and two prefixes share nothing', async () => {
    const client = redis.client()
    const limits = { [ORIGIN]: { rate: 1, interval: '10s' } }
    const calls = ['one', 'two'].map(prefix =>
      polite(partner(answer(200)).fetch, { client, limits, prefix, maxWait: 0 }),
    )
    for (const call of calls) expect((await call(ORIGIN)).status).toBe(200)
    await expect(calls[0](ORIGIN)).rejects.toBeInstanceOf(TimeoutError)
    const keys = await client.keys('*')
    expect(keys.filter(key => !/^(one|two):\{outgoing/.test(key))).toEqual([])
    expect(() => politeFetch({ prefix: 'one' })).toThrow(
      'politeFetch: prefix "one": expected a client beside it, like { client, prefix: "shop" }',
    )
  })
})

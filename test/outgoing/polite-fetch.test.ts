import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { TimeoutError } from '../../src/limiter/core/errors.js'
import { politeFetch } from '../../src/outgoing/index.js'
import { type Partner, Partners } from '../../src/outgoing/partner.js'
import { eventually } from '../support/eventually.js'
import { RedisServer } from '../support/redis-server.js'
import { end, timers, withoutHaste } from './timers.js'

const URL_A = 'https://a.example/things'
const A = 'https://a.example'

/** A partner that gives these answers in turn, the last one again and again. */
function answers(...list: readonly Answer[]) {
  const calls: { at: number; input: unknown; init: RequestInit | undefined }[] = []
  const fetch = (async (input, init) => {
    const { status = 200, headers = {}, afterMs = 0 } = list[Math.min(calls.length, list.length - 1)]
    calls.push({ at: performance.now(), input, init })
    if (afterMs > 0) await later(afterMs, init?.signal)
    return new Response(String(calls.length), { status, headers })
  }) as typeof globalThis.fetch
  return { fetch, calls, gap: (i: number) => calls[i].at - calls[i - 1].at }
}

/** Resolves after so long, by fake timers too, which leave those of node:timers/promises alone. */
function later(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => reject(signal.reason))
  })
}

interface Answer {
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly afterMs?: number
}

const timeout = async (call: Promise<unknown>): Promise<TimeoutError> => {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(TimeoutError)
  return error as TimeoutError
}

describe('an answer that asks to wait', () => {
  withoutHaste()

  test('429 with Retry-After: the call is sent again after it, and the caller sees only the last answer', async () => {
    const partner = answers({ status: 429, headers: { 'retry-after': '0.2' } }, {})
    const answer = await end(politeFetch({ fetch: partner.fetch })(URL_A, { method: 'POST', body: 'text' }))
    expect(answer.status).toBe(200)
    expect(await answer.text()).toBe('2')
    expect(partner.gap(1)).toBeGreaterThanOrEqual(199)
    expect(partner.calls[1].init).toEqual({ method: 'POST', body: 'text' })
  })

  test('503 without Retry-After: it is sent again after half a second, then one, with at most 250 ms more', async () => {
    const partner = answers({ status: 503 }, { status: 503 }, {})
    expect((await end(politeFetch({ fetch: partner.fetch })(URL_A))).status).toBe(200)
    expect(partner.gap(1)).toBeGreaterThanOrEqual(499)
    expect(partner.gap(1)).toBeLessThanOrEqual(751)
    expect(partner.gap(2)).toBeGreaterThanOrEqual(999)
    expect(partner.gap(2)).toBeLessThanOrEqual(1251)
  })

  test('the last answer is returned, whatever it is', async () => {
    const partner = answers({ status: 429, headers: { 'retry-after': '0' } })
    const answer = await end(politeFetch({ fetch: partner.fetch, retries: 1 })(URL_A))
    expect([answer.status, await answer.text()]).toEqual([429, '2'])
  })

  test('other calls to that partner wait too, those to others do not', async () => {
    const partner = answers({ status: 429, headers: { 'retry-after': '0.3' } }, {})
    const polite = politeFetch({ fetch: partner.fetch, retries: 0 })
    expect((await polite(URL_A)).status).toBe(429)
    const startedAt = performance.now()
    await end(polite('https://b.example/'))
    expect(performance.now() - startedAt).toBeLessThan(150)
    await end(polite(URL_A))
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(290)
  })

  test('when no unit is left, the next call waits until units come back', async () => {
    const partner = answers({ headers: { ratelimit: '"a";r=0;t=0.25' } }, {})
    const polite = politeFetch({ fetch: partner.fetch })
    await end(polite(URL_A))
    await end(polite(URL_A))
    expect(partner.gap(1)).toBeGreaterThanOrEqual(249)
  })

  test('an answer without remaining units is ignored if our own limits name the partner', async () => {
    const partner = answers({ headers: { ratelimit: '"a";r=0;t=5' } }, {})
    const polite = politeFetch({ fetch: partner.fetch, limits: { [A]: { rate: 10, interval: '1s' } } })
    await end(polite(URL_A))
    await end(polite(URL_A))
    expect(partner.gap(1)).toBeLessThan(200)
  })

  test('a body that cannot be sent again is sent once', async () => {
    const stream = () => new Blob(['text']).stream()
    const cases: [string | Request, RequestInit | undefined][] = [
      [URL_A, { method: 'POST', body: stream(), duplex: 'half' } as RequestInit],
      [new Request(URL_A, { method: 'POST', body: 'text' }), undefined],
    ]
    for (const [input, init] of cases) {
      const partner = answers({ status: 429, headers: { 'retry-after': '0' } })
      expect((await end(politeFetch({ fetch: partner.fetch })(input, init))).status).toBe(429)
      expect(partner.calls).toHaveLength(1)
    }
    for (const body of [undefined, new Uint8Array(2), new URLSearchParams('a=1'), new FormData(), new Blob(['a'])]) {
      const partner = answers({ status: 429, headers: { 'retry-after': '0' } }, {})
      expect((await end(politeFetch({ fetch: partner.fetch })(URL_A, { method: 'POST', body }))).status).toBe(200)
    }
  })
})

describe('maxWait', () => {
  test('a longer wait before sending rejects at once and says when it would have been', async () => {
    const partner = answers({ status: 429, headers: { 'retry-after': '20' } })
    const polite = politeFetch({ fetch: partner.fetch, retries: 0, maxWait: '1s' })
    await polite(URL_A)
    const startedAt = performance.now()
    const { retryAfterMs } = await timeout(polite(URL_A))
    expect(performance.now() - startedAt).toBeLessThan(500)
    expect(retryAfterMs).toBeGreaterThan(19_000)
    expect(retryAfterMs).toBeLessThanOrEqual(20_000)
    expect(partner.calls).toHaveLength(1)
  })

  test('after an answer a longer wait returns that answer', async () => {
    const partner = answers({ status: 429, headers: { 'retry-after': '60' } })
    const answer = await politeFetch({ fetch: partner.fetch })(URL_A)
    expect([answer.status, await answer.text()]).toEqual([429, '1'])
  })

  test('a turn that would come later rejects at once', async () => {
    const partner = answers({})
    const limits = { [A]: { rate: 2, interval: '10s' } }
    const polite = politeFetch({ fetch: partner.fetch, limits, maxWait: '11s' })
    await Promise.all([polite(URL_A), polite(URL_A)])
    const ending = new AbortController()
    const waiting = [1, 2].map(() => polite(URL_A, { signal: ending.signal }))
    const { retryAfterMs } = await timeout(polite(URL_A))
    expect(retryAfterMs).toBeGreaterThan(19_000)
    expect(retryAfterMs).toBeLessThanOrEqual(20_250)
    ending.abort()
    await Promise.allSettled(waiting)
  })
})

describe('a signal', () => {
  const reason = new Error('enough')
  const aborted = (call: (signal: AbortSignal) => Promise<unknown>) => {
    const ending = new AbortController()
    // A while after the call has begun to wait.
    setTimeout(() => ending.abort(reason), 20)
    return expect(call(ending.signal)).rejects.toBe(reason)
  }

  test('ends the wait for a pause, for a unit, for a place and for the answer', async () => {
    const slow = answers({ afterMs: 200 })
    const paused = answers({ headers: { ratelimit: '"a";r=0;t=10' } })
    const polite = politeFetch({ fetch: paused.fetch })
    await polite(URL_A)
    await aborted(signal => polite(URL_A, { signal }))
    await aborted(signal => polite(new Request(URL_A, { signal })))

    const rated = politeFetch({ fetch: answers({}).fetch, limits: { [A]: { rate: 1, interval: '10s' } } })
    await rated(URL_A)
    await aborted(signal => rated(URL_A, { signal }))

    const limits = { [A]: { rate: 100, interval: '1s', concurrency: 1 } }
    const crowded = politeFetch({ fetch: slow.fetch, limits })
    const first = crowded(URL_A)
    await aborted(signal => crowded(URL_A, { signal }))
    await first

    await aborted(signal => politeFetch({ fetch: slow.fetch })(URL_A, { signal }))
  })

  test('that is aborted already ends the call before anything is sent', async () => {
    const partner = answers({})
    await expect(politeFetch({ fetch: partner.fetch })(URL_A, { signal: AbortSignal.abort(reason) })).rejects.toBe(
      reason,
    )
    expect(partner.calls).toHaveLength(0)
  })
})

describe('limits', () => {
  withoutHaste()

  test('a unit is spent until one interval after its answer came, or after a fifth of the interval', async () => {
    const partner = answers({ afterMs: 30 }, { afterMs: 150 }, {})
    const polite = politeFetch({ fetch: partner.fetch, limits: { [A]: { rate: 1, interval: 300 } } })
    await end(Promise.all([polite(URL_A), polite(URL_A), polite(URL_A)]))
    expect(partner.gap(1)).toBeGreaterThanOrEqual(329)
    expect(partner.gap(1)).toBeLessThan(360)
    expect(partner.gap(2)).toBeGreaterThanOrEqual(360)
    expect(partner.gap(2)).toBeLessThan(400)
  })

  test('a call that fails spends its unit, and gives its place back', async () => {
    const failing = (async () => {
      throw new TypeError('fetch failed')
    }) as typeof fetch
    const limits = { [A]: { rate: 2, interval: '10s', concurrency: 1 } }
    const polite = politeFetch({ fetch: failing, limits, maxWait: 0 })
    await expect(polite(URL_A)).rejects.toThrow('fetch failed')
    await expect(polite(URL_A)).rejects.toThrow('fetch failed')
    expect((await timeout(polite(URL_A))).retryAfterMs).toBeGreaterThan(9000)
  })

  test('no more calls than `concurrency` are under way at once', async () => {
    let [now, most] = [0, 0]
    const counting = (async () => {
      most = Math.max(most, ++now)
      await later(5)
      now--
      return new Response()
    }) as typeof fetch
    const polite = politeFetch({ fetch: counting, limits: { [A]: { rate: 100, interval: '1s', concurrency: 3 } } })
    await end(Promise.all(Array.from({ length: 20 }, () => polite(URL_A))))
    expect(most).toBe(3)
  })

  test('`partner` decides which calls belong to one partner', async () => {
    const partner = answers({})
    const polite = politeFetch({
      fetch: partner.fetch,
      partner: url => url.hostname.split('.').slice(-2).join('.'),
      limits: { 'a.example': { rate: 1, interval: '10s' } },
      maxWait: 0,
    })
    await polite('https://one.a.example/')
    await timeout(polite(new URL('https://two.a.example/')))
    await polite('https://b.example/')
  })

  test('the observer is called for each wait', async () => {
    const waited: unknown[] = []
    const partner = answers({ afterMs: 10 })
    const limits = { [A]: { rate: 1, interval: 100, concurrency: 1 } }
    const polite = politeFetch({ fetch: partner.fetch, limits, observer: { waited: event => waited.push(event) } })
    await end(Promise.all([polite(URL_A), polite(URL_A)]))
    const heard = (object: string) => expect.objectContaining({ object, name: A, outcome: 'granted' })
    expect(waited).toEqual([heard('semaphore'), heard('rate'), heard('semaphore'), heard('rate')])
    expect((waited[3] as { waitMs: number }).waitMs).toBeGreaterThan(90)
  })

  test('a URL that is not http is fetched directly', async () => {
    const polite = politeFetch({ limits: { [A]: { rate: 1, interval: '1d' } } })
    expect(await (await polite('data:,hello')).text()).toBe('hello')
    expect(await (await polite('data:,again')).text()).toBe('again')
    await expect(polite('no url')).rejects.toThrow('Failed to parse URL')
  })

  test('a partner without a name is an error', async () => {
    await expect(politeFetch({ partner: () => '' })(URL_A)).rejects.toThrow('politeFetch: partner returned ""')
  })
})

test('a partner without waiting calls is forgotten within 20 s, and the timer ends with the last one', () => {
  jest.useFakeTimers()
  try {
    let idle = false
    const open = () =>
      ({
        get idle() {
          return idle
        },
      }) as unknown as Partner
    const partners = new Partners(open)
    expect(partners.of('a')).toBe(partners.of('a'))
    jest.advanceTimersByTime(20_000)
    expect(partners.size).toBe(1)
    idle = true
    jest.advanceTimersByTime(20_000)
    expect([partners.size, jest.getTimerCount()]).toEqual([0, 0])
  } finally {
    jest.useRealTimers()
  }
})

describe('over Redis', () => {
  let redis: RedisServer
  const cleanups: (() => unknown)[] = []
  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.stop())
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0)) await cleanup()
    await redis.client().flushall()
  })

  // That it is used up: verification/faults/polite-fetch.test.ts.
  test('two processes share the limit of a partner: no interval has more calls', async () => {
    const at: number[] = []
    // The partner counts a call when it leaves, which is the earliest that it can; its answer comes later.
    const counting = (async () => {
      at.push(performance.now())
      await sleep(5)
      return new Response()
    }) as typeof fetch
    const limits = { [A]: { rate: 20, interval: 500, concurrency: 15 } }
    const all = [redis.client(), redis.client()].flatMap(client => {
      const polite = politeFetch({ client, limits, fetch: counting })
      return Array.from({ length: 31 }, () => polite(URL_A))
    })
    await Promise.all(all)
    for (let i = 20; i < at.length; i++) expect(at[i] - at[i - 20]).toBeGreaterThanOrEqual(500)
  })

  test('a pause reaches other processes that have called, almost at once', async () => {
    const refusing = answers({}, { status: 429, headers: { 'retry-after': '20' } })
    const other = answers({})
    const one = politeFetch({ client: redis.client(), fetch: refusing.fetch, maxWait: '1s' })
    const two = politeFetch({ client: redis.client(), fetch: other.fetch, maxWait: '1s' })
    await Promise.all([one(URL_A), two(URL_A)])
    expect((await one(URL_A)).status).toBe(429)
    // As long as the other process may take to be told, in real time.
    await sleep(250)
    expect((await timeout(two(URL_A))).retryAfterMs).toBeGreaterThan(18_000)
    await two('https://b.example/')
  })

  test('a turn that would come after maxWait rejects at once', async () => {
    const limits = { [A]: { rate: 2, interval: '10s' } }
    const polite = politeFetch({ client: redis.client(), fetch: answers({}).fetch, limits, maxWait: '5s' })
    await Promise.all([polite(URL_A), polite(URL_A)])
    const startedAt = performance.now()
    const { retryAfterMs } = await timeout(polite(URL_A))
    expect(performance.now() - startedAt).toBeLessThan(1000)
    expect(retryAfterMs).toBeGreaterThan(9000)
    expect(retryAfterMs).toBeLessThanOrEqual(10_250)
  })

  test('changed limits and lost keys are set again', async () => {
    const call = (rate: number) => {
      const limits = { [A]: { rate, interval: '10s' } }
      return politeFetch({ client: redis.client(), fetch: answers({}).fetch, limits, maxWait: 0 })
    }
    const strict = call(1)
    await strict(URL_A)
    await timeout(strict(URL_A))
    const loose = call(3)
    await loose(URL_A)
    await loose(URL_A)
    await timeout(loose(URL_A))
    await redis.client().flushall()
    await loose(URL_A)
  })

  test('a place that becomes free while Redis does not answer is free for other processes when it does, long before its lease ends', async () => {
    const server = await RedisServer.start()
    cleanups.push(() => server.stop())
    const limits = { [A]: { concurrency: 1 } }
    let answer: (() => void) | undefined
    const slow = (() => new Promise(resolve => (answer = () => resolve(new Response())))) as typeof fetch
    const one = politeFetch({ client: server.client(), limits, fetch: slow, observer: {} })
    const two = politeFetch({ client: server.client(), limits, fetch: answers({}).fetch, maxWait: '15s', observer: {} })
    const first = one(URL_A)
    await eventually('it has left', async () => answer !== undefined)
    server.pause()
    answer?.()
    await first
    // Longer than the deadline of what tells of it.
    await sleep(1500)
    server.unpause()
    expect((await two(URL_A)).status).toBe(200)
  })

  test.each(['stopped', 'killed'])('with Redis %s calls are sent within five seconds, as without Redis', async how => {
    const server = await RedisServer.start()
    cleanups.push(() => server.stop())
    const limits = { [A]: { rate: 3, interval: '20s', concurrency: 2 } }
    const polite = politeFetch({ client: server.client(), fetch: answers({}).fetch, limits, maxWait: '10s' })
    await polite(URL_A)
    const before = timers()
    if (how === 'stopped') server.pause()
    else await server.kill()
    const startedAt = performance.now()
    await Promise.all([polite(URL_A), polite(URL_A)])
    expect(performance.now() - startedAt).toBeLessThan(5000)
    // What was spent over Redis counts here too.
    await timeout(polite(URL_A))
    // Places are given back for five seconds at most, or until Redis answers again; that keeps the process alive. No
    // claim: timers of other files count too.
    if (how === 'stopped') server.unpause()
    else await server.restart()
    await eventually('nothing is left to do', async () => timers() <= before, 6000).catch(() => {})
  })
})

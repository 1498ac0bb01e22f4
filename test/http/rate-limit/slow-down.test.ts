import { EventEmitter, once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import express from 'express'
import { type RateLimitOptions, rateLimit } from '../../../src/http/adapters/express.js'
import { doneWaiting, mayWait, SlowDown, type SlowDownOptions } from '../../../src/http/rate-limit/slow-down.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { eventually } from '../../support/eventually.js'
import { warnings } from '../../support/warnings.js'

const servers: Server[] = []
afterEach(() => {
  jest.useRealTimers()
  for (const server of servers.splice(0)) server.close()
})

describe('the wait', () => {
  const clock = new ManualClock()
  const limited = (policy: string, options: SlowDownOptions) => ({
    limiter: new RateLimiter({ policy, store: new MemoryStore({ clock }) }),
    slow: new SlowDown(options),
  })

  const waits = async (policy: string, count: number, cost = 1) => {
    const slow = new SlowDown({ after: 2, by: '100ms', max: 250 })
    const limiter = new RateLimiter({ policy })
    const all: number[] = []
    for (let i = 0; i < count; i++) all.push(slow.delayMs(await limiter.consume('k', cost)))
    return all
  }

  test('of the n-th unit above `after` is n × `by`, at most `max`', async () => {
    expect(await waits('10/1m', 6)).toEqual([0, 0, 100, 200, 250, 250])
  })

  test('counts units, not requests; with a bucket it counts from its burst', async () => {
    expect(await waits('10/1m', 3, 2)).toEqual([0, 200, 250])
    expect(await waits('10/1h token-bucket burst=20', 4)).toEqual([0, 0, 100, 200])
  })

  test('is the longest of those of all limits, each by its own units', async () => {
    // The second limit has more left all the time, and yet it is the one whose units are above `after`.
    const { limiter, slow } = limited('10/1s; 100/1h', { after: 5, by: '100ms', max: '10s' })
    for (let second = 0; second < 2; second++) {
      for (let i = 0; i < 4; i++) await limiter.consume('k')
      clock.advance(1000)
    }
    expect(slow.delayMs(await limiter.consume('k'))).toBe(400)
  })

  test('is nothing for a request that costs nothing', async () => {
    expect(await waits('10/1m', 3, 0)).toEqual([0, 0, 0])
  })
})

/** A middleware, called by hand: what became of each request. Fake time decides how long they wait. */
async function serve(options: RateLimitOptions): Promise<string> {
  const app = express().use(rateLimit(options))
  app.get('/', (_req, res) => void res.send('done'))
  const server = createServer(app).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const warned = warnings()

describe('slowDown over HTTP', () => {
  test('a refusal because too many wait is no second charge of its request', async () => {
    const earlier = rateLimit({ policy: '100/1m', name: 'other' })
    const slowed = rateLimit({ policy: '10/1m', slowDown: { after: 0, by: '1ms', max: '1s' } })
    const app = express().use(earlier, slowed)
    const server = createServer(app).listen(0, '127.0.0.1')
    servers.push(server)
    await once(server, 'listening')
    let waiting = 0
    while (mayWait()) waiting++
    try {
      const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
      expect(answer.status).toBe(429)
      expect(answer.headers.get('ratelimit')).toMatch(/^"100-per-1m";r=99;t=60, "10-per-1m";r=10;t=\d+$/)
    } finally {
      for (; waiting > 0; waiting--) doneWaiting()
    }
    expect(warned.codes).toEqual([])
  })

  test('makes requests wait and then refuses those above the quota', async () => {
    const url = await serve({ policy: '4/1m', slowDown: { after: 2, by: '60ms', max: '1s' } })
    const took: number[] = []
    const statuses: number[] = []
    for (let i = 0; i < 5; i++) {
      const startedAt = performance.now()
      statuses.push((await fetch(url)).status)
      took.push(performance.now() - startedAt)
    }
    expect(statuses).toEqual([200, 200, 200, 200, 429])
    expect(took[2]).toBeGreaterThanOrEqual(60)
    expect(took[3]).toBeGreaterThanOrEqual(120)
  })

  test('gives back the units of a client that leaves while it waits', async () => {
    const options: RateLimitOptions = { policy: '10/1m', key: () => 'k', slowDown: { after: 0, by: '1h', max: '1h' } }
    const limit = rateLimit(options)
    const server = createServer(express().use(limit)).listen(0, '127.0.0.1')
    servers.push(server)
    await once(server, 'listening')
    const gone = new AbortController()
    const asked = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, { signal: gone.signal })
    asked.catch(() => {})
    await eventually('it waits', async () => (await limit.limiter.peek('k', 0)).remaining === 9)
    gone.abort()
    await eventually('its unit is back', async () => (await limit.limiter.peek('k', 0)).remaining === 10)
  })

  test('delays no request in shadow mode', async () => {
    const url = await serve({ policy: '10/1m', shadow: true, slowDown: { after: 0, by: '1h', max: '1h' } })
    expect((await fetch(url)).status).toBe(200)
  })

  test('refuses and spends nothing when 10 000 requests wait in the process', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'performance'] })
    const limit = rateLimit({ policy: '20000/1m', key: () => 'k', slowDown: { after: 0, by: '30s', max: '30s' } })
    let passed = 0
    let refusal: object = {}
    const statuses: number[] = []
    const request = () => {
      const fields: Record<string, string> = {}
      const res = Object.assign(new EventEmitter(), {
        headersSent: false,
        writableEnded: false,
        statusCode: 200,
        getHeader: () => undefined,
        setHeader: (name: string, value: string) => {
          fields[name] = value
        },
        removeHeader: () => {},
        end(text: string) {
          statuses.push(res.statusCode)
          refusal = { ...JSON.parse(text), fields }
        },
      })
      const req = { headers: { accept: 'application/json' }, socket: {}, app: { get: () => false }, ip: '10.0.0.1' }
      limit(req as never, res as never, () => passed++)
    }
    for (let i = 0; i < 10_003; i++) request()
    await new Promise(resolve => setImmediate(resolve))
    expect(statuses).toEqual([429, 429, 429])
    // It names the limit that would make it wait, and every field tells the same moment.
    expect(refusal).toMatchObject({
      'violated-policies': [limit.limiter.policy[0].name],
      retryAfterMs: 30_000,
      fields: { 'Retry-After': '30', RateLimit: '"20000-per-1m";r=10000;t=30' },
    })
    expect((await limit.limiter.peek('k', 0)).remaining).toBe(10_000)
    jest.advanceTimersByTime(30_000)
    await new Promise(resolve => setImmediate(resolve))
    await new Promise(resolve => setImmediate(resolve))
    expect(passed).toBe(10_000)
  })
})

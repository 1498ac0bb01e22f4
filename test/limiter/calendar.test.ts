import { describe, expect, test } from '@jest/globals'
import { PolicyError } from '../../src/core/errors.js'
import { parsePolicy } from '../../src/core/limit.js'
import { headersFor } from '../../src/http/headers.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { MemoryStore } from '../../src/stores/memory/memory-store.js'
import type { Store } from '../../src/stores/store.js'
import { ManualClock } from '../../src/testing.js'

const at = (text: string) => Date.parse(text)
const DAY = 86_400_000

describe('a policy', () => {
  test('names windows of the calendar, and a time zone', () => {
    expect(parsePolicy('10000/month; 500/day tz=Europe/Berlin')).toEqual([
      {
        name: '10000-per-month',
        quota: 10_000,
        windowMs: 31 * DAY,
        burst: 10_000,
        algorithm: 'fixed-window',
        calendar: { window: 'month', timezone: 'UTC' },
      },
      {
        name: '500-per-day',
        quota: 500,
        windowMs: 25 * 3_600_000,
        burst: 500,
        algorithm: 'fixed-window',
        calendar: { window: 'day', timezone: 'Europe/Berlin' },
      },
    ])
    const options = { quota: 5, window: 'week', timezone: 'Asia/Kolkata', name: 'plan' } as const
    expect(parsePolicy([options, '1/1s'])[0]).toMatchObject({ name: 'plan', calendar: { window: 'week' } })
    expect(parsePolicy('5/hour fixed-window')[0].calendar).toEqual({ window: 'hour', timezone: 'UTC' })
    expect(parsePolicy('5/hour', 'token-bucket')[0].algorithm).toBe('fixed-window')
  })

  test.each<[unknown, string]>([
    ['5/1d tz=Europe/Berlin', 'timezone "Europe/Berlin" with window "1d": expected a window of the calendar'],
    [{ quota: 5, window: '1d', timezone: 'UTC' }, 'expected a window of the calendar (hour, day, week, month, year)'],
    ['5/day tz=Europe/Atlantis', 'timezone "Europe/Atlantis": expected a name of the IANA time zone database'],
    ['5/day sliding-window', 'window "day" with "sliding-window": expected fixed-window'],
    ['5/day burst=2', 'burst 2 with fixed-window'],
    ['5/days', 'duration "days"'],
    ['5/decade', 'like "100/1m" (ms, s, m, h, d) or "500/day"'],
  ])('%j is an error', (policy, message) => {
    expect(() => parsePolicy(policy as string)).toThrow(PolicyError)
    expect(() => parsePolicy(policy as string)).toThrow(message)
  })

  test('needs a store that knows the calendar', () => {
    const store: Store = { consume: () => [], peek: () => [], refund: () => {}, reset: () => {} }
    expect(() => new RateLimiter({ policy: '5/day', store })).toThrow(PolicyError)
    expect(() => new RateLimiter({ policy: '5/day', store })).toThrow('expected a MemoryStore or a RedisStore')
  })
})

describe('in memory', () => {
  const limiterAt = (policy: string, now: string) => {
    const clock = new ManualClock(at(now))
    return { clock, limiter: new RateLimiter({ policy, store: new MemoryStore({ clock }), denyCache: false }) }
  }

  test('counts begin anew at the boundary, and waits end there, in a day of 25 hours too', async () => {
    const { clock, limiter } = limiterAt('2/day tz=Europe/Berlin', '2026-10-24T22:00:00Z')
    expect(await limiter.peek('k', 0)).toMatchObject({ remaining: 2, resetAfterMs: 0 })
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, remaining: 1, resetAfterMs: 25 * 3_600_000 })
    clock.advance(24 * 3_600_000)
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, remaining: 0, resetAfterMs: 3_600_000 })
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, retryAfterMs: 3_600_000 })
    clock.advance(3_599_999)
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, retryAfterMs: 1 })
    clock.advance(1)
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, remaining: 1, resetAfterMs: DAY })
  })

  test('a window that began with the key ends with the calendar', async () => {
    const { clock, limiter } = limiterAt('1/month', '2026-02-27T12:00:00Z')
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, resetAfterMs: 1.5 * DAY })
    clock.advance(1.5 * DAY)
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, resetAfterMs: 31 * DAY })
  })

  test('units are given back in their own window only', async () => {
    const { clock, limiter } = limiterAt('3/hour', '2026-01-01T00:50:00Z')
    const first = await limiter.consume('k', 2)
    clock.advance(5 * 60_000)
    await limiter.settle(first, 1)
    expect((await limiter.peek('k', 0)).remaining).toBe(2)
    const second = await limiter.consume('k', 2)
    clock.advance(5 * 60_000)
    await limiter.consume('k', 3)
    await limiter.settle(second, 0)
    expect((await limiter.peek('k', 0)).remaining).toBe(0)
  })

  test('waiters are granted at the boundary', async () => {
    const { clock, limiter } = limiterAt('1/hour', '2026-01-01T00:30:00Z')
    await limiter.acquire('k')
    const error = await limiter.acquire('k', { timeout: '29m' }).catch(error => error)
    expect(error.retryAfterMs).toBe(30 * 60_000)
    clock.advance(30 * 60_000)
    expect((await limiter.acquire('k')).allowed).toBe(true)
  })

  test('a clock that steps back over a boundary grants nothing more', async () => {
    const { clock, limiter } = limiterAt('1/day', '2026-01-02T00:00:01Z')
    await limiter.consume('k')
    clock.set(at('2026-01-01T23:59:59Z'))
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, retryAfterMs: 1000 })
  })
})

test('header fields leave the length of such a window out', () => {
  const policy = parsePolicy('100/month; 10/1m')
  for (const form of ['draft-8', 'draft-7', 'draft-6'] as const) {
    const verdict = { limit: policy[0], allowed: true, remaining: 5, retryAfterMs: 0, resetAfterMs: 1000, delayMs: 0 }
    const decision = {
      ...verdict,
      key: 'k',
      cost: 1,
      verdicts: [verdict],
      source: 'memory',
      degraded: false,
      shadow: false,
    } as const
    const fields = headersFor([form], policy, { now: () => 0 })(decision)
    expect(fields['RateLimit-Policy']).toBe(
      form === 'draft-8' ? '"100-per-month";q=100, "10-per-1m";q=10;w=60' : '100, 10;w=60',
    )
  }
})

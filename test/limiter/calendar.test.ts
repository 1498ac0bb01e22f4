import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { headersFor } from '../../src/http/headers.js'
import { RedisStore } from '../../src/index.js'
import { Calendar } from '../../src/limiter/core/calendar.js'
import { PolicyError } from '../../src/limiter/core/errors.js'
import { type PolicyInput, parsePolicy } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { randomFrom } from '../support/random.js'
import { RedisServer } from '../support/redis-server.js'
import { testRedis } from '../support/test-redis.js'

const at = (text: string) => Date.parse(text)
const DAY = 86_400_000

describe('a policy', () => {
  test('names windows of the calendar, and a time zone', () => {
    expect(parsePolicy('10000/month calendar; 500/day calendar tz=Europe/Berlin')).toEqual([
      {
        name: '10000-per-calendar-month',
        namedAfter: 10_000,
        quota: 10_000,
        windowMs: 31 * DAY,
        burst: 10_000,
        algorithm: 'fixed-window',
        calendar: { window: 'month', timezone: 'UTC' },
      },
      {
        name: '500-per-calendar-day',
        namedAfter: 500,
        quota: 500,
        windowMs: 25 * 3_600_000,
        burst: 500,
        algorithm: 'fixed-window',
        calendar: { window: 'day', timezone: 'Europe/Berlin' },
      },
    ])
    const options = { quota: 5, calendar: 'week', timezone: 'Asia/Kolkata', name: 'plan' } as const
    expect(parsePolicy([options, '1/1s'])[0]).toMatchObject({ name: 'plan', calendar: { window: 'week' } })
    expect(parsePolicy('5/hours calendar fixed-window')[0].calendar).toEqual({ window: 'hour', timezone: 'UTC' })
    expect(parsePolicy('5/hour calendar', 'token-bucket')[0].algorithm).toBe('fixed-window')
  })

  test("a time zone alone means the calendar's windows", () => {
    expect(parsePolicy('5/day tz=UTC')).toEqual(parsePolicy('5/day calendar'))
    expect(parsePolicy({ quota: 5, calendar: 'day', timezone: 'UTC' })).toEqual(parsePolicy('5/day calendar'))
  })

  test.each<[unknown, string]>([
    ['5/1d tz=Europe/Berlin', 'calendar "1d" and timezone "Europe/Berlin": expected a window of the calendar'],
    ['5/1d calendar', 'calendar "1d": expected a window of the calendar (hour, day, week, month, year)'],
    ['5/minute calendar', 'calendar "minute": expected a window of the calendar'],
    [
      { quota: 5, window: '1d', timezone: 'UTC' },
      'window "1d" with timezone "UTC": expected calendar in place of window',
    ],
    [
      { quota: 5, window: 'day', timezone: 'UTC' },
      'window "day" with timezone "UTC": expected calendar in place of window',
    ],
    [
      { quota: 5, window: 'day', calendar: 'day' },
      'window "day" with calendar "day": expected calendar in place of window',
    ],
    [{ quota: 5, timezone: 'UTC' }, 'like { quota: 500, calendar: "day", timezone: "Europe/Berlin" }'],
    [{ quota: 5, calendar: 'decade' }, 'calendar "decade": expected a window of the calendar'],
    ['5/day tz=Europe/Atlantis', 'timezone "Europe/Atlantis": expected a name of the IANA time zone database'],
    ['5/day calendar sliding-window', 'calendar "day" with "sliding-window": expected fixed-window'],
    ['5/day calendar burst=2', 'burst 2 with fixed-window'],
    ['5/decade', 'like "100/1m" (ms, s, m, h, d), "100/hour"'],
    ['10000/month', 'did you mean "10000/month calendar" or "10000/30d"?'],
    ['1/year', 'did you mean "1/year calendar" or "1/365d"?'],
    [{ quota: 5, window: 'month' }, 'expected calendar: "month" in place of window, or window: "30d"'],
  ])('%j is an error', (policy, message) => {
    expect(() => parsePolicy(policy as string)).toThrow(PolicyError)
    expect(() => parsePolicy(policy as string)).toThrow(message)
  })

  test('needs a store that supports the calendar', () => {
    const store: Store = { consume: () => [], peek: () => [], refund: () => {}, reset: () => {} }
    expect(() => new RateLimiter({ policy: '5/day calendar', store })).toThrow(PolicyError)
    expect(() => new RateLimiter({ policy: '5/day calendar', store })).toThrow('expected a MemoryStore or a RedisStore')
  })
})

describe.each(['memory', 'redis'] as const)('over %s', kind => {
  let redis: RedisServer | undefined
  beforeAll(async () => {
    redis = kind === 'redis' ? await RedisServer.start() : undefined
  })
  afterAll(() => redis?.stop())
  let prefixes = 0
  const limiterAt = (policy: PolicyInput, now: string) => {
    const clock = new ManualClock(at(now))
    const store = redis
      ? new RedisStore(redis.client(), { clock, prefix: `calendar-${prefixes++}` })
      : new MemoryStore({ clock })
    return { clock, limiter: new RateLimiter({ policy, store, denyCache: false, deadline: '5s' }) }
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
    const { clock, limiter } = limiterAt('1/month calendar', '2026-02-27T12:00:00Z')
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, resetAfterMs: 1.5 * DAY })
    clock.advance(1.5 * DAY)
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, resetAfterMs: 31 * DAY })
  })

  test('units are given back in their own window only', async () => {
    const { clock, limiter } = limiterAt('3/hour calendar', '2026-01-01T00:50:00Z')
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
    const { clock, limiter } = limiterAt('1/hour calendar', '2026-01-01T00:30:00Z')
    await limiter.acquire('k')
    const error = await limiter.acquire('k', { timeout: '29m' }).catch(error => error)
    expect(error.retryAfterMs).toBe(30 * 60_000)
    clock.advance(30 * 60_000)
    expect((await limiter.acquire('k')).allowed).toBe(true)
  })

  test('several limits are decided together', async () => {
    const { clock, limiter } = limiterAt('3/day tz=Asia/Kolkata; 2/hour calendar; 100/1m', '2026-01-01T18:00:00Z')
    for (const allowed of [true, true, false]) expect((await limiter.consume('k')).allowed).toBe(allowed)
    expect(await limiter.consume('k')).toMatchObject({
      limit: { name: '2-per-calendar-hour' },
      retryAfterMs: 3_600_000,
    })
    await limiter.charge('k', 1)
    // The day ends in Kolkata at 18:30 UTC.
    expect(await limiter.consume('k')).toMatchObject({ retryAfterMs: 3_600_000 })
    clock.advance(30 * 60_000)
    expect(await limiter.peek('k', 0)).toMatchObject({ limit: { name: '2-per-calendar-hour' }, remaining: 0 })
    await limiter.reset('k')
    expect((await limiter.consume('k')).allowed).toBe(true)
    await limiter.refund('k', 1)
    expect((await limiter.peek('k', 0)).remaining).toBe(2)
  })

  test('a clock that steps back over a boundary grants nothing more', async () => {
    const { clock, limiter } = limiterAt('1/day calendar', '2026-01-02T00:00:01Z')
    await limiter.consume('k')
    clock.set(at('2026-01-01T23:59:59Z'))
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, retryAfterMs: 1000 })
  })
})

test('header fields leave the length of such a window out', () => {
  const policy = parsePolicy('100/month calendar; 10/1m')
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
    const fields = headersFor([form], policy, { now: () => 0 }).of(decision, undefined)
    expect(fields['RateLimit-Policy']).toBe(
      form === 'draft-8' ? '"100-per-calendar-month";q=100, "10-per-1m";q=10;w=60' : '100, 10;w=60',
    )
  }
})

describe('the clock of Redis', () => {
  const redis = testRedis()

  test.each([-DAY, -3_600_000, 3_600_000, DAY, 40 * DAY])(
    'decides, whatever the clock of a process shows (%d ms off)',
    async off => {
      const real = Date.now
      const spy = jest.spyOn(Date, 'now').mockImplementation(() => real() + off)
      try {
        const day = Calendar.of('day', 'UTC')
        for (const verb of ['consume', 'peek', 'acquire', 'charge'] as const) {
          const limiter = new RateLimiter({
            policy: '5/day calendar',
            name: `${verb}${off}`,
            store: new RedisStore(redis.client()),
            deadline: '5s',
          })
          if (verb === 'charge') await limiter.charge('k', 1)
          else await limiter[verb]('k')
          const asked = real()
          const { resetAfterMs, remaining } = await limiter.consume('k')
          const { endAt } = day.spanAt(asked)
          expect(Math.abs(asked + resetAfterMs - endAt)).toBeLessThan(1000)
          expect(remaining).toBe(verb === 'peek' ? 4 : 3)
        }
      } finally {
        spy.mockRestore()
      }
    },
  )

  test('memory and Redis agree on random traffic, boundaries and steps of the clock', async () => {
    const random = randomFrom('calendar')
    for (const policy of [
      '4/hour tz=Australia/Lord_Howe',
      '9/day tz=Europe/Berlin; 30/month tz=America/New_York; 20/1d',
    ]) {
      const clock = new ManualClock(at('2026-04-04T10:00:00Z'))
      const stores = [new MemoryStore({ clock }), new RedisStore(redis.client(), { clock, prefix: policy })]
      const [memory, other] = stores.map(store => new RateLimiter({ policy, store, denyCache: false, deadline: '5s' }))
      for (let i = 0; i < 600; i++) {
        const key = random.pick(['a', 'b'])
        const cost = random.integer(0, 3)
        const verb = random.pick(['consume', 'consume', 'consume', 'peek', 'refund', 'charge', 'reset'] as const)
        const ask = (limiter: RateLimiter) => (verb === 'reset' ? limiter.reset(key) : limiter[verb](key, cost))
        const [ours, theirs] = [await ask(memory), await ask(other)]
        if (ours !== undefined && theirs !== undefined) {
          expect({ i, ...theirs, source: '' }).toEqual({ i, ...ours, source: '' })
        }
        clock.advance(random.pick([0, 1, 1000, 60_000, 1_800_000, 7_200_000, 40_000_000]))
        if (random.integer(1, 8) === 1) clock.set(clock.now() - random.integer(1, 4000))
      }
    }
  }, 60_000)
})

import { describe, expect, test } from '@jest/globals'
import { type Decision, strictest, type Verdict } from '../../../src/limiter/core/decision.js'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import type { Store } from '../../../src/limiter/store.js'

const [first, second, third] = parsePolicy(['10/1s', '20/1m', '30/1h'])
const allowed = (remaining: number, fields: Partial<Verdict> = {}): Verdict => ({
  limit: first,
  allowed: true,
  remaining,
  retryAfterMs: 0,
  resetAfterMs: 100,
  delayMs: 0,
  ...fields,
})
const denied = (retryAfterMs: number, fields: Partial<Verdict> = {}): Verdict => ({
  ...allowed(0),
  allowed: false,
  retryAfterMs,
  ...fields,
})

describe('the strictest verdict', () => {
  test.each<[string, Verdict[], number]>([
    ['is the only one', [allowed(3)], 0],
    ['allowed: is the one with the least remaining', [allowed(3), allowed(1), allowed(2)], 1],
    ['denied: is the one with the longest wait', [denied(10), denied(30), denied(20)], 1],
    ['is a denial before any permission', [allowed(0), denied(1), allowed(0)], 1],
    ['is a denial although a later permission has nothing left', [denied(1), allowed(0)], 0],
    ['is a wait without end before the longest other one', [denied(1e15), denied(Number.POSITIVE_INFINITY)], 1],
    ['is the first one of equals', [allowed(2), allowed(2)], 0],
    ['is the first one of equal denials', [allowed(1), denied(5), denied(5)], 1],
    ['does not look at the time of reset', [allowed(2), allowed(2, { resetAfterMs: 1e9 })], 0],
  ])('%s', (_, verdicts, index) => expect(strictest(verdicts)).toBe(verdicts[index]))
})

describe('a decision', () => {
  /** What a limiter makes of verdicts. */
  const decide = (verdicts: readonly Verdict[], later = false): Promise<Decision> => {
    const answer = () => (later ? Promise.resolve(verdicts) : verdicts)
    const store: Store = { consume: answer, peek: answer, refund() {}, reset() {} }
    const policy = verdicts.map((_, i) => ({ quota: 10, window: 1000 + i }))
    return new RateLimiter({ policy, store }).consume('user:1', 2)
  }

  test('is the strictest verdict with all verdicts behind it, and says who gave the answer', async () => {
    const verdicts = [allowed(3), allowed(1, { limit: second, resetAfterMs: 7 })]
    const expected = {
      limit: second,
      allowed: true,
      remaining: 1,
      retryAfterMs: 0,
      resetAfterMs: 7,
      delayMs: 0,
      key: 'user:1',
      cost: 2,
      verdicts,
      source: 'redis',
      degraded: false,
      shadow: false,
    }
    expect({ ...(await decide(verdicts, true)) }).toEqual(expected)
    expect({ ...(await decide(verdicts)) }).toEqual({ ...expected, source: 'memory' })
  })

  test('can be written as JSON', async () => {
    const text = JSON.stringify(await decide([allowed(3)]))
    expect(JSON.parse(text)).toMatchObject({ allowed: true, remaining: 3, key: 'user:1', verdicts: [{ remaining: 3 }] })
  })

  test('allowed, asks for the longest delay of any of its limits, wherever it stands', async () => {
    const delays = (...ms: number[]) => ms.map((delayMs, i) => allowed(i, { delayMs }))
    expect((await decide(delays(5, 30, 10))).delayMs).toBe(30)
    expect((await decide(delays(5))).delayMs).toBe(5)
  })

  test('denied, asks for no delay', async () => {
    const verdicts = [allowed(5, { delayMs: 30 }), denied(10, { limit: third })]
    expect(await decide(verdicts)).toMatchObject({ allowed: false, limit: third, delayMs: 0 })
  })

  test('says that the key is blocked only if it is', async () => {
    expect('blocked' in (await decide([denied(10)]))).toBe(false)
    expect((await decide([denied(10), denied(20, { blocked: true })])).blocked).toBe(true)
    expect('blocked' in (await decide([denied(30), denied(20, { blocked: true })]))).toBe(false)
  })
})

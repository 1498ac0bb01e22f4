import { describe, expect, test } from '@jest/globals'
import { decide, strictest, type Verdict } from '../src/decision.js'
import { parsePolicy } from '../src/limit.js'

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
  test('is the strictest verdict with all verdicts behind it, and says who gave the answer', () => {
    const verdicts = [allowed(3), allowed(1, { limit: second, resetAfterMs: 7 })]
    expect(decide('user:1', 2, verdicts, 'redis')).toEqual({
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
    })
  })

  test('allowed, asks for the longest delay of any of its limits, wherever it stands', () => {
    const delays = (...ms: number[]) => ms.map((delayMs, i) => allowed(i, { delayMs }))
    expect(decide('k', 1, delays(5, 30, 10), 'memory').delayMs).toBe(30)
    expect(decide('k', 1, delays(5), 'memory').delayMs).toBe(5)
  })

  test('denied, asks for no delay', () => {
    const verdicts = [allowed(5, { delayMs: 30 }), denied(10, { limit: third })]
    expect(decide('k', 1, verdicts, 'memory')).toMatchObject({ allowed: false, limit: third, delayMs: 0 })
  })

  test('of the failure policy is degraded', () => {
    expect(decide('k', 1, [allowed(1)], 'fallback', true)).toMatchObject({ source: 'fallback', degraded: true })
  })
})

import { describe, expect, test } from '@jest/globals'
import type { Fields, Report } from '../../src/http/headers.js'
import { headersFor } from '../../src/http/headers.js'
import { Ledger } from '../../src/http/ledger.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { decisionOf } from '../../src/limiter/settlement.js'
import { ManualClock } from '../../src/testing.js'

/** A limit that reports the given fields; `remaining`: how strict its decision is. */
function limit(fields: Fields, remaining: number, named = true) {
  const policy = parsePolicy('100/1m')
  const verdict = { limit: policy[0], allowed: true, remaining, resetAfterMs: 1000, retryAfterMs: 0, delayMs: 0 }
  const report: Report<Decision> = { names: named ? [] : undefined, of: () => fields }
  return [report, decisionOf('k', 1, [verdict], 'memory')] as const
}

/** What each of several limits of one request tells. */
function told(...limits: ReadonlyArray<ReturnType<typeof limit>>): Fields[] {
  const ledger = Ledger.of({})
  return limits.map(([report, decision]) => ledger.tell(report, decision).fields)
}

describe('after another limit', () => {
  const first = { 'RateLimit-Policy': '"a";q=10;w=1', RateLimit: '"a";r=9;t=1', 'X-RateLimit-Limit': '10' }
  const second = { 'RateLimit-Policy': '"b";q=5;w=1', RateLimit: '"b";r=1;t=1', 'X-RateLimit-Limit': '5' }

  test('lists are extended, and the stricter decision sets the single fields', () => {
    expect(told(limit(first, 9), limit(second, 1))[1]).toEqual({
      'RateLimit-Policy': '"a";q=10;w=1, "b";q=5;w=1',
      RateLimit: '"a";r=9;t=1, "b";r=1;t=1',
      'X-RateLimit-Limit': '5',
    })
  })

  test('a milder decision leaves the single fields as they are', () => {
    expect(told(limit(first, 1), limit(second, 9))[1]).toEqual({
      'RateLimit-Policy': '"a";q=10;w=1, "b";q=5;w=1',
      RateLimit: '"a";r=9;t=1, "b";r=1;t=1',
    })
  })

  test('a field that was not set before is set', () => {
    expect(told(limit(first, 1), limit({ 'RateLimit-Limit': '5' }, 9))[1]).toEqual({ 'RateLimit-Limit': '5' })
  })

  test('the lists of two drafts are not mixed: both fields are those of the stricter decision', () => {
    const other = { 'RateLimit-Policy': '5;w=1', RateLimit: 'limit=5' }
    expect(told(limit(first, 9), limit(other, 1, false))[1]).toEqual(other)
    expect(told(limit(first, 1), limit(other, 9, false))[1]).toEqual({})
    // A third one meets what is on the response now.
    expect(told(limit(first, 9), limit(other, 5, false), limit(second, 1))[2]).toEqual(second)
    expect(told(limit(first, 9), limit(other, 1, false), limit(second, 5))[2]).toEqual({})
  })
})

test('a limit whose name is taken gets another, in all lists, whatever the name contains', () => {
  const name = 'a, "b";q=1 \\'
  const policy = parsePolicy([
    { quota: 10, window: 1000, name },
    { quota: 5, window: 1000, name: `${name}-2` },
  ])
  const verdicts = policy.map(limit => ({
    ...{ limit, allowed: true, remaining: 1, resetAfterMs: 1000, retryAfterMs: 0, delayMs: 0 },
  }))
  const report = headersFor(['draft-8'], policy, new ManualClock())
  const ledger = Ledger.of({})
  ledger.tell(report, decisionOf('k', 1, verdicts, 'memory'))
  const { fields, names } = ledger.tell(report, decisionOf('k', 1, verdicts, 'memory'))
  expect([...(names ?? [])]).toEqual([
    [name, `${name}-3`],
    [`${name}-2`, `${name}-2-2`],
  ])
  const quoted = '"a, \\"b\\";q=1 \\\\'
  const items = ['"', '-2"', '-3"', '-2-2"'].map(end => `${quoted}${end}`)
  const quotas = [10, 5, 10, 5]
  expect(fields['RateLimit-Policy']).toBe(items.map((item, i) => `${item};q=${quotas[i]};w=1`).join(', '))
  expect(fields.RateLimit).toBe(items.map(item => `${item};r=1;t=1`).join(', '))
})

test('a request that is answered a second time starts a new ledger', () => {
  const request = {}
  const ledger = Ledger.of(request)
  expect(Ledger.of(request)).toBe(ledger)
  Ledger.forget(request)
  expect(Ledger.of(request)).not.toBe(ledger)
})

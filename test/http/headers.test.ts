import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { clash, type HeaderForm, headersFor } from '../../src/http/headers.js'
import type { Decision, Verdict } from '../../src/limiter/core/decision.js'
import { type Policy, parsePolicy } from '../../src/limiter/core/limit.js'
import { decisionOf } from '../../src/limiter/settlement.js'
import { ManualClock } from '../../src/testing.js'

const clock = new ManualClock(1_700_000_000_250)

/** What each limit of a policy says: remaining, ms until restored, ms to wait (denied) or none (allowed). */
function decision(
  policy: Policy,
  ...says: Array<[remaining: number, resetAfterMs: number, retryAfterMs?: number]>
): Decision {
  const verdicts = says.map(
    ([remaining, resetAfterMs, retryAfterMs], i): Verdict => ({
      limit: policy[i],
      allowed: retryAfterMs === undefined,
      remaining,
      resetAfterMs,
      retryAfterMs: retryAfterMs ?? 0,
      delayMs: 0,
    }),
  )
  return decisionOf('secret', 1, verdicts, 'memory')
}

function fields(
  form: HeaderForm,
  input: string,
  ...says: Parameters<typeof decision> extends [Policy, ...infer Rest] ? Rest : never
) {
  const policy = parsePolicy(input)
  return headersFor([form], policy, clock).of(decision(policy, ...says), undefined)
}

describe('draft-8', () => {
  test('names the limit, its quota and its window, the remaining units and the time until the reset', () => {
    expect(fields('draft-8', '100/1m', [50, 30_000])).toEqual({
      'RateLimit-Policy': '"100-per-1m";q=100;w=60',
      RateLimit: '"100-per-1m";r=50;t=30',
    })
  })

  test('lists every limit of a policy', () => {
    expect(fields('draft-8', '10/1s;1000/1h', [9, 1000], [400, 1_800_000])).toEqual({
      'RateLimit-Policy': '"10-per-1s";q=10;w=1, "1000-per-1h";q=1000;w=3600',
      RateLimit: '"10-per-1s";r=9;t=1, "1000-per-1h";r=400;t=1800',
    })
  })

  test.each([
    ['5/250ms', [4, 250], '"5-per-250ms";q=5;w=1', '"5-per-250ms";r=4;t=1'],
    ['5/1500ms', [4, 1001], '"5-per-1s500ms";q=5;w=2', '"5-per-1s500ms";r=4;t=2'],
    ['5/1m', [5, 0], '"5-per-1m";q=5;w=60', '"5-per-1m";r=5;t=0'],
  ] as const)('%s: seconds are whole and rounded up', (policy, says, policyText, text) => {
    expect(fields('draft-8', policy, [...says])).toEqual({ 'RateLimit-Policy': policyText, RateLimit: text })
  })

  test('t of a denial is the moment of Retry-After, not that of full restoration', () => {
    expect(fields('draft-8', '100/1m', [0, 60_000, 1200]).RateLimit).toBe('"100-per-1m";r=0;t=2')
  })

  test('t of a request that never fits is the moment of full restoration; with a quota of 0 it is the window', () => {
    const never = Number.POSITIVE_INFINITY
    expect(fields('draft-8', '100/1m', [60, 20_000, never]).RateLimit).toBe('"100-per-1m";r=60;t=20')
    expect(fields('draft-8', '0/1m', [0, 0, never]).RateLimit).toBe('"0-per-1m";r=0;t=60')
  })

  test('a parser of RFC 9651 reads every name of a limit back', () => {
    const name = fc.string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map(code => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 64,
    })
    fc.assert(
      fc.property(fc.uniqueArray(name, { minLength: 1, maxLength: 4 }), names => {
        const policy = parsePolicy(names.map(name => ({ quota: 7, window: '1m', name })))
        const { RateLimit, ...rest } = headersFor(['draft-8'], policy, clock).of(
          decision(policy, ...policy.map((): [number, number] => [3, 5000])),
          undefined,
        )
        expect(namesIn(rest['RateLimit-Policy'])).toEqual(names.map(name => [name, ';q=7;w=60']))
        expect(namesIn(RateLimit)).toEqual(names.map(name => [name, ';r=3;t=5']))
      }),
    )
  })

  test('numbers beyond the fifteen digits of RFC 9651 are cut to them', () => {
    const { RateLimit, ...rest } = fields('draft-8', `${2 ** 53 - 1024}/1m name=huge`, [Number.MAX_SAFE_INTEGER - 1, 1])
    expect(rest['RateLimit-Policy']).toBe('"huge";q=999999999999999;w=60')
    expect(RateLimit).toBe('"huge";r=999999999999999;t=1')
  })
})

describe('draft-7', () => {
  test('shows the strictest limit, and all policies by quota and window', () => {
    expect(fields('draft-7', '10/1s;1000/1h', [9, 900], [400, 1_800_000])).toEqual({
      'RateLimit-Policy': '10;w=1, 1000;w=3600',
      RateLimit: 'limit=10, remaining=9, reset=1',
    })
  })

  test('lists a quota once, because the draft forbids listing it twice', () => {
    expect(fields('draft-7', '10/1s;10/1m', [9, 1000], [9, 60_000])['RateLimit-Policy']).toBe('10;w=1')
  })
})

describe('draft-6', () => {
  test('has a field for each number', () => {
    expect(fields('draft-6', '10/1s;1000/1h', [0, 900, 100], [400, 1_800_000])).toEqual({
      'RateLimit-Policy': '10;w=1, 1000;w=3600',
      'RateLimit-Limit': '10',
      'RateLimit-Remaining': '0',
      'RateLimit-Reset': '1',
    })
  })
})

describe('legacy', () => {
  test('shows the moment of the reset in whole seconds since the epoch, rounded up', () => {
    expect(fields('legacy', '100/1m', [50, 30_000])).toEqual({
      'X-RateLimit-Limit': '100',
      'X-RateLimit-Remaining': '50',
      'X-RateLimit-Reset': '1700000031',
    })
  })
})

test('several forms are sent together', () => {
  const policy = parsePolicy('100/1m')
  const given = headersFor(['draft-8', 'legacy'], policy, clock).of(decision(policy, [99, 60_000]), undefined)
  expect(Object.keys(given)).toEqual([
    'RateLimit-Policy',
    'RateLimit',
    'X-RateLimit-Limit',
    'X-RateLimit-Remaining',
    'X-RateLimit-Reset',
  ])
})

test.each(['open', 'closed'] as const)(
  'when the failure policy says %s, nobody has counted: no numbers are told',
  source => {
    const policy = parsePolicy('100/1m')
    const verdicts = decision(policy, [99, 1000]).verdicts
    for (const form of ['draft-8', 'draft-7', 'draft-6', 'legacy'] as const) {
      const given = headersFor([form], policy, clock).of(decisionOf('secret', 1, verdicts, source, true), undefined)
      expect(Object.keys(given)).toEqual(form === 'legacy' ? [] : ['RateLimit-Policy'])
    }
  },
)

test.each([
  [['draft-8', 'legacy'], false],
  [['draft-7', 'draft-6', 'legacy'], false],
  [['draft-8', 'draft-7'], true],
  [['draft-6', 'draft-8'], true],
] as const)('%j: do they give one field two meanings? %s', (forms, expected) => {
  expect(clash(forms)).toBe(expected)
})

/** Reads a List of Strings (RFC 9651, section 4.2): each with the text of its parameters. */
function namesIn(list: string): Array<[name: string, parameters: string]> {
  const items: Array<[string, string]> = []
  let at = 0
  while (at < list.length) {
    if (list[at++] !== '"') throw new Error(`no string at ${at}: ${list}`)
    let name = ''
    while (list[at] !== '"') {
      if (list[at] === '\\') at++
      name += list[at++]
    }
    const end = list.indexOf(',', ++at)
    const stop = end < 0 ? list.length : end
    items.push([name, list.slice(at, stop)])
    at = stop + 2
  }
  return items
}

describe('a burst above the quota', () => {
  const policy = '10/1m token-bucket burst=100'

  test.each([
    [100, 10],
    [11, 10],
    [10, 10],
    [9, 9],
    [0, 0],
  ])('with %p units left shows %p, never more than the quota', (remaining, told) => {
    expect(fields('draft-8', policy, [remaining, 1000])).toEqual({
      'RateLimit-Policy': '"10-per-1m";q=10;w=60',
      RateLimit: `"10-per-1m";r=${told};t=1`,
    })
    expect(fields('draft-7', policy, [remaining, 1000]).RateLimit).toBe(`limit=10, remaining=${told}, reset=1`)
    expect(fields('draft-6', policy, [remaining, 1000])).toMatchObject({
      'RateLimit-Limit': '10',
      'RateLimit-Remaining': `${told}`,
    })
    expect(fields('legacy', policy, [remaining, 1000])).toMatchObject({
      'X-RateLimit-Limit': '10',
      'X-RateLimit-Remaining': `${told}`,
    })
  })
})

import { describe, expect, test } from '@jest/globals'
import { parseRateLimit, parseRetryAfter, type QuotaInfo } from '../../src/outgoing/index.js'
import { ofCases } from '../support/cases.js'
import { randomFrom } from '../support/random.js'

const NOW = Date.UTC(2026, 10, 22, 12, 0, 0)
const S = NOW / 1000

describe('parseRateLimit reads', () => {
  test.each<[string, Record<string, string | string[]>, QuotaInfo[]]>([
    [
      'draft 8',
      { RateLimit: '"default";r=50;t=30', 'RateLimit-Policy': '"default";q=100;w=60' },
      [{ policy: 'default', limit: 100, remaining: 50, resetAfterMs: 30_000, windowMs: 60_000, form: 'draft-8' }],
    ],
    [
      'draft 10 with two policies, a partition key and units',
      {
        RateLimit: '"burst";r=0;t=1;pk=:cGF5:, "day";r=900',
        'RateLimit-Policy': ['"burst";q=5;w=1;qu="requests"', '"day";q=1000;w=86400'],
      },
      [
        { policy: 'burst', limit: 5, remaining: 0, resetAfterMs: 1000, windowMs: 1000, form: 'draft-8' },
        { policy: 'day', limit: 1000, remaining: 900, windowMs: 86_400_000, form: 'draft-8' },
      ],
    ],
    [
      'a policy alone',
      { 'ratelimit-policy': '"a";q=3;w=1' },
      [{ policy: 'a', limit: 3, windowMs: 1000, form: 'draft-8' }],
    ],
    [
      'a name with quotes and commas',
      { ratelimit: '"a\\", b";r=1' },
      [{ policy: 'a", b', remaining: 1, form: 'draft-8' }],
    ],
    [
      'draft 7',
      { RateLimit: 'limit=100, remaining=50, reset=30', 'RateLimit-Policy': '10;w=1, 100;w=60' },
      [{ limit: 100, remaining: 50, resetAfterMs: 30_000, windowMs: 60_000, form: 'draft-7' }],
    ],
    [
      'draft 6',
      { 'RateLimit-Limit': '100', 'RateLimit-Remaining': '0', 'RateLimit-Reset': '7', 'RateLimit-Policy': '100;w=60' },
      [{ limit: 100, remaining: 0, resetAfterMs: 7000, windowMs: 60_000, form: 'draft-6' }],
    ],
    [
      'draft 6 with policies behind the limit',
      { 'ratelimit-limit': '10, 10;w=1, 50;w=60' },
      [{ limit: 10, windowMs: 1000, form: 'draft-6' }],
    ],
    [
      'the draft after 11',
      { RateLimit: '"default";a=50;w=30', 'RateLimit-Policy': '"default";q=100;w=60' },
      [{ policy: 'default', limit: 100, remaining: 50, resetAfterMs: 30_000, windowMs: 60_000, form: 'draft-8' }],
    ],
    [
      'a policy of draft 7 alone',
      { 'RateLimit-Policy': '100;w=60' },
      [{ limit: 100, windowMs: 60_000, form: 'draft-7' }],
    ],
    [
      'Docker Hub',
      { 'ratelimit-limit': '100;w=21600', 'ratelimit-remaining': '76;w=21600' },
      [{ limit: 100, remaining: 76, windowMs: 21_600_000, form: 'draft-6' }],
    ],
    [
      'GitLab, whose reset is a moment',
      { 'ratelimit-limit': '60', 'ratelimit-remaining': '0', 'ratelimit-reset': String(S + 42) },
      [{ limit: 60, remaining: 0, resetAfterMs: 42_000, form: 'draft-6' }],
    ],
    [
      'a moment in other drafts',
      { ratelimit: `"a";r=0;t=${S + 42}`, 'ratelimit-limit': '60' },
      [
        { policy: 'a', remaining: 0, resetAfterMs: 42_000, form: 'draft-8' },
        { limit: 60, form: 'draft-6' },
      ],
    ],
    [
      'Envoy',
      { 'x-ratelimit-limit': '10, 10;w=1;name="a"', 'x-ratelimit-remaining': '3', 'x-ratelimit-reset': '12' },
      [{ limit: 10, remaining: 3, resetAfterMs: 12_000, windowMs: 1000, form: 'legacy' }],
    ],
    [
      'OpenAI',
      {
        'x-ratelimit-limit-requests': '500',
        'x-ratelimit-remaining-requests': '499',
        'x-ratelimit-reset-requests': '120ms',
        'x-ratelimit-limit-tokens': '200000',
        'x-ratelimit-remaining-tokens': '0',
        'x-ratelimit-reset-tokens': '6m0s',
      },
      [
        { policy: 'requests', limit: 500, remaining: 499, resetAfterMs: 120, form: 'legacy' },
        { policy: 'tokens', limit: 200_000, remaining: 0, resetAfterMs: 360_000, form: 'legacy' },
      ],
    ],
    [
      'Anthropic',
      {
        'anthropic-ratelimit-requests-limit': '50',
        'anthropic-ratelimit-requests-remaining': '49',
        'anthropic-ratelimit-requests-reset': '2026-11-22T12:00:01.5Z',
        'anthropic-ratelimit-input-tokens-remaining': '40000',
      },
      [
        { policy: 'requests', limit: 50, remaining: 49, resetAfterMs: 1500, form: 'legacy' },
        { policy: 'input-tokens', remaining: 40_000, form: 'legacy' },
      ],
    ],
    [
      'GitHub',
      {
        'x-ratelimit-limit': '5000',
        'x-ratelimit-remaining': '4999',
        'x-ratelimit-reset': String(S + 90),
        'x-ratelimit-resource': 'core',
      },
      [{ limit: 5000, remaining: 4999, resetAfterMs: 90_000, form: 'legacy' }],
    ],
    [
      'Discord',
      {
        'X-RateLimit-Limit': '5',
        'X-RateLimit-Remaining': '0',
        'X-RateLimit-Reset': `${S + 470}.123`,
        'X-RateLimit-Reset-After': '64.57',
        'X-RateLimit-Bucket': 'abcd1234',
      },
      [{ limit: 5, remaining: 0, resetAfterMs: 64_570, form: 'legacy' }],
    ],
    [
      'Reddit',
      { 'x-ratelimit-used': '2', 'x-ratelimit-remaining': '598.0', 'x-ratelimit-reset': '417' },
      [{ remaining: 598, resetAfterMs: 417_000, form: 'legacy' }],
    ],
    [
      'Atlassian',
      {
        'X-RateLimit-Limit': '100',
        'X-RateLimit-Remaining': '0',
        'X-RateLimit-Reset': '2026-11-22T12:00:05Z',
        'X-RateLimit-Interval-Seconds': '60',
      },
      [{ limit: 100, remaining: 0, resetAfterMs: 5000, windowMs: 60_000, form: 'legacy' }],
    ],
    [
      'Twitter',
      { 'x-rate-limit-limit': '15', 'x-rate-limit-remaining': '3', 'x-rate-limit-reset': String(S) },
      [{ limit: 15, remaining: 3, resetAfterMs: 0, form: 'legacy' }],
    ],
    ['Shopify', { 'X-Shopify-Shop-Api-Call-Limit': '32/40' }, [{ limit: 40, remaining: 8, form: 'legacy' }]],
    [
      'the newest form first',
      { 'x-ratelimit-limit': '1', ratelimit: '"a";r=1' },
      [
        { policy: 'a', remaining: 1, form: 'draft-8' },
        { limit: 1, form: 'legacy' },
      ],
    ],
  ])('%s', (_, fields, expected) => {
    expect(parseRateLimit(fields, NOW)).toEqual(expected)
    const headers = new Headers()
    for (const [name, value] of Object.entries(fields)) for (const one of [value].flat()) headers.append(name, one)
    expect(parseRateLimit(headers, NOW)).toEqual(expected)
  })

  test.each([
    ['seconds from now', '99999999', 99_999_999_000],
    ['seconds since the epoch', '100000000', 0],
    ['seconds since the epoch, later', String(S + 2), 2000],
    ['a fraction of a second', `${S + 1}.25`, 1250],
    ['ms since the epoch', String(NOW + 250), 250],
    ['the lowest ms since the epoch', '100000000000', 0],
    ['ISO with an offset', '2026-11-22T13:00:01+01:00', 1000],
    ['a date of HTTP', 'Sun, 22 Nov 2026 12:01:00 GMT', 60_000],
    ['a moment that has passed', '2020-01-01T00:00:00Z', 0],
  ])('X-RateLimit-Reset as %s', (_, reset, resetAfterMs) => {
    expect(parseRateLimit({ 'x-ratelimit-reset': reset }, NOW)).toEqual([{ resetAfterMs, form: 'legacy' }])
  })

  test('nothing of what is malformed', () => {
    const malformed: Record<string, string>[] = [
      { ratelimit: '' },
      { ratelimit: '"a' },
      { ratelimit: '"a";r=-1' },
      { ratelimit: '"a";r=1.5' },
      { ratelimit: '"a";t=30' },
      { ratelimit: ';;;,,,===' },
      { ratelimit: '"a";r="8";t=9' },
      { ratelimit: '"a";r=8;t="9"' },
      { 'ratelimit-policy': '100;w="60"' },
      { 'ratelimit-policy': '"a";q=many' },
      { 'x-ratelimit-reset-tokens': '6m 0s', 'anthropic-ratelimit-tokens-limit': 'many' },
      { 'ratelimit-limit': 'ten', 'ratelimit-remaining': '-1' },
      { 'x-ratelimit-limit': 'NaN', 'x-ratelimit-reset': 'soon' },
      { 'x-ratelimit-reset': '99999999999999999999' },
      { 'x-ratelimit-reset': '2026-13-45T99:00:00Z' },
      { 'x-shopify-shop-api-call-limit': '32 of 40' },
    ]
    for (const fields of malformed) expect(parseRateLimit(fields, NOW)).toEqual([])
    expect(parseRateLimit({ ratelimit: '"a";r=x, "b";r=2' }, NOW)).toEqual([
      { policy: 'b', remaining: 2, form: 'draft-8' },
    ])
    expect(parseRateLimit({ ratelimit: '"a";r=1 "b";r=2, "c";r=3' }, NOW)).toEqual([
      { policy: 'c', remaining: 3, form: 'draft-8' },
    ])
  })
})

describe('parseRetryAfter reads', () => {
  test.each([
    ['seconds', '120', 120_000],
    ['no wait', '0', 0],
    ['a fraction', '0.5', 500],
    ['spaces around', ' 3 ', 3000],
    ['more than a number can tell', '9'.repeat(40), Number.MAX_SAFE_INTEGER],
    ['a date', 'Sun, 22 Nov 2026 12:00:30 GMT', 30_000],
    ['a date of RFC 850', 'Sunday, 22-Nov-26 12:00:30 GMT', 30_000],
    ['a date of asctime', 'Sun Nov 22 12:00:30 2026', 30_000],
    ['a date that has passed', 'Sun, 06 Nov 1994 08:49:37 GMT', 0],
  ])('%s', (_, text, wait) => {
    expect(parseRetryAfter({ 'Retry-After': text }, NOW)).toBe(wait)
  })

  test('retry-after-ms, if it is a number, before Retry-After', () => {
    expect(parseRetryAfter({ 'retry-after-ms': '1250', 'retry-after': '2' }, NOW)).toBe(1250)
    expect(parseRetryAfter({ 'Retry-After-Ms': '0.5' }, NOW)).toBe(1)
    expect(parseRetryAfter({ 'retry-after-ms': '-1', 'retry-after': '2' }, NOW)).toBe(2000)
    expect(parseRetryAfter({ 'retry-after-ms': 'soon' }, NOW)).toBeUndefined()
  })

  test('nothing from malformed or absent fields', () => {
    for (const text of ['', '-1', 'soon', '1e3', '1 minute', 'Infinity', '22 Nov', 'Sun, 99 Foo 2026 00:00:00 GMT']) {
      expect(parseRetryAfter({ 'retry-after': text }, NOW)).toBeUndefined()
    }
    expect(parseRetryAfter({}, NOW)).toBeUndefined()
    expect(parseRetryAfter({ 'retry-after': undefined }, NOW)).toBeUndefined()
    expect(parseRetryAfter(new Headers(), NOW)).toBeUndefined()
  })
})

describe('whatever a partner sends', () => {
  const NAMES = [
    'RateLimit',
    'RateLimit-Policy',
    'RateLimit-Limit',
    'RateLimit-Remaining',
    'RateLimit-Reset',
    'X-RateLimit-Limit',
  ]
  const MORE = [
    'X-RateLimit-Remaining',
    'X-RateLimit-Reset',
    'X-RateLimit-Reset-After',
    'X-Shopify-Shop-Api-Call-Limit',
    'Retry-After',
  ]
  const PARTS = [
    '"',
    '\\',
    ';',
    ',',
    '=',
    ' ',
    '\t',
    'r',
    't',
    'q',
    'w',
    'limit',
    'remaining',
    '0',
    '1',
    '9',
    '.',
    '-',
    'e',
    '/',
    ':',
    '*',
    'é',
    '💥',
    '\0',
  ]

  test('parsing never throws, and returns only finite numbers ≥ 0', () => {
    const random = randomFrom('header fields')
    for (let i = 0; i < ofCases(20_000); i++) {
      const fields: Record<string, string> = {}
      for (const name of [...NAMES, ...MORE]) {
        if (random.integer(1, 5) <= 2)
          fields[name] = Array.from({ length: random.integer(0, 19) }, () => random.pick(PARTS)).join('')
      }
      for (const quota of parseRateLimit(fields, NOW)) {
        for (const value of Object.values(quota)) {
          if (typeof value === 'number') expect(Number.isFinite(value) && value >= 0).toBe(true)
        }
      }
      expect(parseRetryAfter(fields, NOW) ?? 0).toBeGreaterThanOrEqual(0)
    }
  })

  test('long text takes time in proportion to its length', () => {
    for (const text of [
      '"'.repeat(200_000),
      '\\"'.repeat(100_000),
      `"a"${' ;'.repeat(100_000)}`,
      `"${'\\\\'.repeat(100_000)}`,
      ','.repeat(200_000),
    ]) {
      // Processor time, not the clock on the wall: this process may have to share its core.
      const before = process.cpuUsage()
      parseRateLimit({ ratelimit: text, 'ratelimit-policy': text, 'x-ratelimit-reset': text }, NOW)
      expect(process.cpuUsage(before).user).toBeLessThan(500_000)
    }
  })

  test('a value that is no header fields gives nothing', () => {
    for (const given of [null, undefined, 1, 'text', [], { get: () => ({}) }, { get: 'x' }] as never[]) {
      expect(parseRateLimit(given)).toEqual([])
      expect(parseRetryAfter(given)).toBeUndefined()
    }
  })
})

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { ALGORITHM_NAMES, type LimitOptions, type PolicyInput, parsePolicy } from '../../../src/limiter/core/limit.js'
import { ofCases } from '../../support/cases.js'

const ALGORITHMS = ALGORITHM_NAMES.join(', ')
const TEXT_FORM = 'expected "<quota>/<duration>", like "100/1m" (ms, s, m, h, d)'

const shape = (policy: PolicyInput) =>
  parsePolicy(policy).map(({ name, quota, windowMs, burst, algorithm }) => [name, quota, windowMs, burst, algorithm])

describe('a policy', () => {
  test.each<[PolicyInput, unknown[][]]>([
    ['100/1m', [['100-per-1m', 100, 60_000, 100, 'sliding-window']]],
    ['100/90s', [['100-per-1m30s', 100, 90_000, 100, 'sliding-window']]],
    ['0/1s', [['0-per-1s', 0, 1000, 0, 'sliding-window']]],
    ['100/1m token-bucket', [['100-per-1m', 100, 60_000, 100, 'token-bucket']]],
    ['100/1m token-bucket burst=20', [['100-per-1m', 100, 60_000, 20, 'token-bucket']]],
    ['100/1m burst=200 leaky-bucket', [['100-per-1m', 100, 60_000, 200, 'leaky-bucket']]],
    ['  100/1m   fixed-window  ', [['100-per-1m', 100, 60_000, 100, 'fixed-window']]],
    ['10/1s sliding-counter name=api', [['api', 10, 1000, 10, 'sliding-counter']]],
    [
      '10/1s; 1000/1h fixed-window',
      [
        ['10-per-1s', 10, 1000, 10, 'sliding-window'],
        ['1000-per-1h', 1000, 3_600_000, 1000, 'fixed-window'],
      ],
    ],
    [{ quota: 5, window: 250 }, [['5-per-250ms', 5, 250, 5, 'sliding-window']]],
    [
      { quota: 5, window: '1d', algorithm: 'token-bucket', burst: 7, name: 'daily' },
      [['daily', 5, 86_400_000, 7, 'token-bucket']],
    ],
    [
      { quota: 5, window: '1s', algorithm: undefined, burst: undefined, name: undefined },
      [['5-per-1s', 5, 1000, 5, 'sliding-window']],
    ],
    [
      ['10/1s; 20/1m', { quota: 30, window: '1h' }],
      [
        ['10-per-1s', 10, 1000, 10, 'sliding-window'],
        ['20-per-1m', 20, 60_000, 20, 'sliding-window'],
        ['30-per-1h', 30, 3_600_000, 30, 'sliding-window'],
      ],
    ],
    [
      { quota: 2 ** 53 - 1024, window: '3650000d', algorithm: 'fixed-window' },
      [['9007199254739968-per-3650000d', 2 ** 53 - 1024, 315_360_000_000_000, 2 ** 53 - 1024, 'fixed-window']],
    ],
  ])('%j is read', (input, expected) => expect(shape(input)).toEqual(expected))

  test.each([
    ['100/second', '100/1s'],
    ['100/minutes', '100/1m'],
    ['100/hour token-bucket burst=5', '100/1h token-bucket burst=5'],
    ['100/day', '100/1d'],
    ['100/weeks', '100/7d'],
  ])('%s is %s: any span of that length', (words, text) => {
    expect(parsePolicy(words)).toEqual(parsePolicy(text))
    const [limit] = parsePolicy(text)
    const [, window] = /\/([a-z]+)/.exec(words) as RegExpExecArray
    const { quota, algorithm, burst } = limit
    expect(parsePolicy({ quota, window, algorithm, ...(limit.burst !== quota && { burst }) })).toEqual([limit])
  })

  test('no other spelling is suggested where none is meant', () => {
    for (const text of ['90 seconds', '100/1m gcra', '100/fortnight', '100/1m/1h', '/1m']) {
      expect(() => parsePolicy(text)).toThrow(/^(?!.*did you mean)/s)
    }
  })

  test.each<[string, unknown, string]>([
    ['another spelling of a unit', '100/min', 'did you mean "100/1m"?'],
    ['a rate in words', '100 per hour', 'did you mean "100/1h"?'],
    ['a rate as nginx writes it, with more words', '10r/s token-bucket', 'did you mean "10/1s token-bucket"?'],
    ['a duration in two words', '1_000 / 15 minutes', 'did you mean "1000/15m"?'],
    ['weeks', '7/2wk', 'did you mean "7/14d"?'],
    ['no quota', '/1m', `limit "/1m": ${TEXT_FORM}`],
    ['no window', '100', `limit "100": ${TEXT_FORM}`],
    ['a space around the slash', '100 / 1m', `limit "100 / 1m": ${TEXT_FORM}`],
    ['an empty text', '', `limit "": ${TEXT_FORM}`],
    ['an empty part', '100/1m;', 'policy "100/1m;": nothing stands on one side of a ";": did you mean "100/1m"?'],
    ['a negative quota in text', '-1/1m', `limit "-1/1m": ${TEXT_FORM}`],
    ['a fraction in text', '1.5/1m', `limit "1.5/1m": ${TEXT_FORM}`],
    ['a second slash', '1/1m/1h', `limit "1/1m/1h": ${TEXT_FORM}`],
    ['an unknown word', '10/1m gcra', `limit "10/1m gcra": unknown word "gcra", expected an algorithm (${ALGORITHMS})`],
    ['two algorithms', '9/1m token-bucket leaky-bucket', 'given "leaky-bucket" after "token-bucket", expected one'],
    ['two bursts', '9/1m token-bucket burst=5 burst=6', 'given "burst=6" after "burst=5", expected one'],
    ['two names', '9/1m name=a name=b', 'given "name=b" after "name=a", expected one'],
    ['two time zones', '9/day calendar tz=UTC tz=Asia/Tokyo', 'given "tz=Asia/Tokyo" after "tz=UTC", expected one'],
    ['the calendar twice', '9/day calendar calendar', 'given "calendar" after "calendar", expected one'],
    ['only a semicolon', ' ; ', 'policy " ; ": nothing stands on one side of a ";", expected a limit, like "100/1m"'],
    [
      'a time zone that is no text',
      { quota: 1, calendar: 'day', timezone: 5 },
      'limit: timezone 5: expected a name of',
    ],
    [
      'a quota that an object inherits',
      Object.create({ quota: 5 }, { window: { value: '1m', enumerable: true } }),
      'limit: quota undefined: expected an integer',
    ],
    ['an empty burst', '10/1m token-bucket burst=', `unknown word "burst="`],
    [
      'a burst that is no number',
      '10/1m token-bucket burst=many',
      'limit: burst NaN: expected an integer ≥ 1, like 20',
    ],
    ['an empty name', '10/1m name=', `unknown word "name="`],
    ['too much quota in text', `${'9'.repeat(20)}/1m`, 'limit: quota 100000000000000000000: expected an integer ≥ 0'],
    [
      'a negative quota',
      { quota: -1, window: '1m' },
      'limit: quota -1: expected an integer ≥ 0 (0 refuses everything), like 100',
    ],
    ['a quota near 2^53', { quota: 2 ** 53 - 1023, window: '1m' }, 'expected at most 9007199254739968 (2^53 - 1024)'],
    [
      'a window of more than 10 000 years',
      { quota: 1, window: '3650001d' },
      'expected at most 3650000d (10 000 years)',
    ],
    ['a fraction', { quota: 1.5, window: '1m' }, 'limit: quota 1.5: expected an integer'],
    ['NaN', { quota: Number.NaN, window: '1m' }, 'limit: quota NaN: expected an integer'],
    [
      'a quota without end',
      { quota: Number.POSITIVE_INFINITY, window: '1m' },
      'limit: quota Infinity: expected an integer',
    ],
    ['a quota in text', { quota: '100', window: '1m' }, 'limit: quota "100": expected an integer'],
    ['a bigint', { quota: 100n, window: '1m' }, 'limit: quota 100n: expected an integer'],
    ['no quota in an object', { window: '1m' }, 'limit: quota undefined: expected an integer'],
    ['no window in an object', { quota: 1 }, 'limit: window: duration undefined: expected whole milliseconds > 0'],
    ['a window of zero', { quota: 1, window: 0 }, 'limit: window: duration 0: expected whole milliseconds > 0'],
    [
      'an unknown algorithm',
      { quota: 1, window: 1, algorithm: 'gcra' },
      `limit: unknown algorithm "gcra", expected one of ${ALGORITHMS}`,
    ],
    [
      'an algorithm in capitals',
      { quota: 1, window: 1, algorithm: 'Token-Bucket' },
      'limit: unknown algorithm "Token-Bucket"',
    ],
    [
      'a property of every object',
      { quota: 1, window: 1, algorithm: 'constructor' },
      'limit: unknown algorithm "constructor"',
    ],
    [
      'an unknown option',
      { quota: 1, window: 1, max: 5 },
      'limit: unknown option "max", expected quota, window, algorithm, burst, name',
    ],
    ['a parsed limit', parsePolicy('1/1s'), 'limit: unknown option "windowMs"'],
    [
      'a burst of zero',
      { quota: 1, window: 1, algorithm: 'token-bucket', burst: 0 },
      'limit: burst 0: expected an integer ≥ 1',
    ],
    [
      'half a burst',
      { quota: 1, window: 1, algorithm: 'leaky-bucket', burst: 1.5 },
      'limit: burst 1.5: expected an integer ≥ 1',
    ],
    [
      'a burst in text',
      { quota: 1, window: 1, algorithm: 'token-bucket', burst: '2' },
      'limit: burst "2": expected an integer ≥ 1',
    ],
    ...(['fixed-window', 'sliding-window', 'sliding-counter'] as const).map((algorithm): [string, unknown, string] => [
      `a burst on ${algorithm}`,
      { quota: 10, window: 1, algorithm, burst: 10 },
      `limit: burst 10 with ${algorithm}: only token-bucket and leaky-bucket have a burst`,
    ]),
    [
      'a burst on the default',
      '10/1m burst=5',
      'limit: burst 5 with sliding-window: only token-bucket and leaky-bucket',
    ],
    [
      'an empty name in an object',
      { quota: 1, window: 1, name: '' },
      'limit: name "": expected 1 to 64 printable ASCII characters',
    ],
    [
      'a name of 65 letters',
      { quota: 1, window: 1, name: 'n'.repeat(65) },
      'expected 1 to 64 printable ASCII characters, like "per-user"',
    ],
    [
      'a name with a new line',
      { quota: 1, window: 1, name: 'a\r\nSet-Cookie: b' },
      String.raw`limit: name "a\r\nSet-Cookie: b": expected`,
    ],
    ['a name with NUL', { quota: 1, window: 1, name: 'a\0' }, String.raw`limit: name "a\u0000": expected`],
    ['a name in Greek', { quota: 1, window: 1, name: 'όριο' }, 'limit: name "όριο": expected'],
    ['a name that is a number', { quota: 1, window: 1, name: 7 }, 'limit: name 7: expected'],
    ['nothing', undefined, 'policy: given undefined, expected text like "100/1m" or { quota: 100, window: "1m" }'],
    ['null', null, 'policy: given null, expected text'],
    ['a number', 100, 'policy: given 100, expected text'],
    ['a function', () => '100/1m', 'policy: given a function, expected text'],
    ['an empty list', [], 'policy: given no limit, expected at least one, like "100/1m"'],
    ['a list in a list', [['100/1m']], 'policy: given an array of 1, expected text'],
    ['a hole in a list', ['100/1m', undefined], 'policy: given undefined, expected text'],
    [
      'the same limit twice',
      '10/1s; 10/1s',
      'policy: two limits are named "10-per-1s": give one a name of its own, like {',
    ],
    ['one name twice', ['1/1s name=a', { quota: 2, window: '1m', name: 'a' }], 'policy: two limits are named "a"'],
    ['one window in two notations', '10/1m; 10/60s', 'policy: two limits are named "10-per-1m"'],
    ['one rate under two algorithms', '10/1s; 10/1s token-bucket', 'policy: two limits are named "10-per-1s"'],
  ])('refuses %s, showing what was given and what is expected', (_, input, message) => {
    const attempt = () => parsePolicy(input as PolicyInput)
    expect(attempt).toThrow(PolicyError)
    expect(attempt).toThrow(message)
  })

  test.each(['sliding-counter', 'token-bucket', 'leaky-bucket'] as const)(
    '%s refuses a shape that would leave the exact integers, and only such a one',
    algorithm => {
      // 2^53 - 1 = 6361 × 69431 × 20394401
      expect(() => parsePolicy({ quota: 6361 * 69431, window: 20394401, algorithm })).not.toThrow()
      const attempt = () => parsePolicy({ quota: 2 ** 26, window: 2 ** 27, algorithm })
      expect(attempt).toThrow(PolicyError)
      expect(attempt).toThrow(
        `limit: 67108864 units × 134217728 ms is more than 2^53, beyond which ${algorithm} could not count exactly: ` +
          'expected a smaller quota or a shorter window, like the same rate per hour',
      )
    },
  )

  test.each(['token-bucket', 'leaky-bucket'] as const)(
    '%s refuses a burst that would leave the exact integers',
    algorithm => {
      expect(() => parsePolicy({ quota: 1, window: 2 ** 27, burst: 2 ** 26, algorithm })).toThrow('67108864 units')
    },
  )

  test('never shows more of a given text than fits on a line, nor control characters', () => {
    const hostile = [
      'x'.repeat(10_000),
      `10/1s ${'\u001b[31m'.repeat(2000)}`,
      '10/1s name=\ud800',
      `10/1s\0\r\n${'\t'.repeat(500)}x`,
      { quota: 1, window: 1, name: '\u001b]0;title\u0007'.repeat(1000) },
      { quota: 1, window: '9'.repeat(10_000) },
      { quota: 1, window: 1, algorithm: '\r\n'.repeat(1000) },
      { quota: 1, window: 1, ['\u001b'.repeat(5000)]: 1 },
      Object.create(null),
      Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`option\n${i}`, i])),
      Array.from({ length: 2 }, () => ({ quota: 1, window: 1, name: '"quoted"' })),
      { quota: { '\u001b[31m': 1, ['k'.repeat(10_000)]: 2 }, window: 1 },
      { quota: Symbol('\r\n'.repeat(1000)), window: 1 },
      { quota: 10n ** 5000n, window: 1 },
      { quota: Object.defineProperty(new (class {})(), 'constructor', { value: { name: '\r\n' } }), window: 1 },
      { quota: new Proxy({}, { get: () => 1 }), window: 1 },
    ]
    for (const input of hostile) {
      const message = messageOf(() => parsePolicy(input as PolicyInput))
      expect(message.length).toBeLessThan(700)
      expect(message).toMatch(/^[^\p{Cc}\p{Cs}]+$/u)
    }
  })

  test('cannot be changed once it is read', () => {
    const policy = parsePolicy('10/1s; 20/1m token-bucket')
    expect(Object.isFrozen(policy)).toBe(true)
    expect(policy.every(Object.isFrozen)).toBe(true)
    const options: LimitOptions = { quota: 10, window: '1s' }
    const [limit] = parsePolicy(options)
    options.quota = 1000
    expect(limit.quota).toBe(10)
  })

  test('is read in time that grows with its length only', () => {
    const before = performance.now()
    expect(() => parsePolicy('1'.repeat(100_000))).toThrow(PolicyError)
    expect(() => parsePolicy(`1/1s ${' '.repeat(100_000)}x`)).toThrow(PolicyError)
    expect(() => parsePolicy(';'.repeat(10_000))).toThrow(PolicyError)
    expect(performance.now() - before).toBeLessThan(1000)
  })

  test('holds a thousand limits', () => {
    const text = Array.from({ length: 1000 }, (_, i) => `${i}/1s`).join(';')
    expect(parsePolicy(text)).toHaveLength(1000)
  })
})

describe('a limit as text', () => {
  test('is the same limit as its options', () => {
    const options = fc.record(
      {
        quota: fc.oneof(fc.nat(5000), fc.nat({ max: 2 ** 53 - 1024 })),
        window: fc.oneof(fc.integer({ min: 1, max: 100_000 }), fc.integer({ min: 1, max: 315_360_000_000_000 })),
        algorithm: fc.constantFrom(...ALGORITHM_NAMES),
        burst: fc.integer({ min: 1, max: 5000 }),
      },
      { requiredKeys: ['quota', 'window', 'algorithm'] },
    )
    let read = 0
    fc.assert(
      fc.property(options, given => {
        let [limit] = [] as ReturnType<typeof parsePolicy>
        try {
          ;[limit] = parsePolicy(given)
        } catch {
          return
        }
        read++
        const burst = given.burst === undefined ? '' : ` burst=${given.burst}`
        expect(parsePolicy(`${given.quota}/${given.window}ms ${given.algorithm}${burst}`)).toEqual([limit])
      }),
      { numRuns: ofCases(2000), seed: 20261122 },
    )
    expect(read).toBeGreaterThan(ofCases(300))
  })
})

function messageOf(action: () => unknown): string {
  try {
    action()
  } catch (error) {
    return (error as Error).message
  }
  throw new Error('expected an error')
}

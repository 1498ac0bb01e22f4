import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { formatDuration, parseDuration, parseDurationOrZero } from '../../../src/limiter/core/duration.js'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { ofCases } from '../../support/cases.js'

describe('a duration', () => {
  test.each([
    [1, 1],
    [60_000, 60_000],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
    ['1ms', 1],
    ['250ms', 250],
    ['1s', 1000],
    ['90s', 90_000],
    ['1m', 60_000],
    ['1h', 3_600_000],
    ['1d', 86_400_000],
    ['1h30m', 5_400_000],
    ['1m1ms', 60_001],
    ['1d2h3m4s5ms', 93_784_005],
    ['0d1s', 1000],
    ['007s', 7000],
    ['9007199254740991ms', Number.MAX_SAFE_INTEGER],
    ['second', 1000],
    ['minute', 60_000],
    ['hours', 3_600_000],
    ['day', 86_400_000],
    ['week', 604_800_000],
  ])('%p is %d ms', (input, ms) => expect(parseDuration(input)).toBe(ms))

  test.each([
    ['zero', 0, '0'],
    ['zero in text', '0s', '"0s"'],
    ['a negative number', -1, '-1'],
    ['a fraction', 0.5, '0.5'],
    ['a fraction in text', '1.5s', '"1.5s"'],
    ['NaN', Number.NaN, 'NaN'],
    ['infinity', Number.POSITIVE_INFINITY, 'Infinity'],
    ['more than 2^53 ms', 2 ** 53, '9007199254740992'],
    ['more than 2^53 ms in text', '9007199254740992ms', '"9007199254740992ms"'],
    ['more than any number holds', `${'9'.repeat(400)}d`, `"${'9'.repeat(60)}…"`],
    ['nothing', '', '""'],
    ['a number without a unit', '1000', '"1000"'],
    ['a unit without a number', 's', '"s"'],
    ['an unknown unit', '1w', '"1w"'],
    ['a word', '1minute', '"1minute"'],
    ['capitals', '1S', '"1S"'],
    ['a space', '1 s', '"1 s"'],
    ['a space around', ' 1s', '" 1s"'],
    ['a new line at the end', '1s\n', String.raw`"1s\n"`],
    ['units from small to large', '30m1h', '"30m1h"'],
    ['a unit twice', '1s1s', '"1s1s"'],
    ['a sign', '-1s', '"-1s"'],
    ['an exponent', '1e3ms', '"1e3ms"'],
    ['digits of another script', '٣s', '"٣s"'],
    ['undefined', undefined, 'undefined'],
    ['null', null, 'null'],
    ['a bigint', 1000n, '1000n'],
    ['a symbol', Symbol('1s'), 'Symbol(1s)'],
    ['an array', ['1s'], 'an array of 1'],
    ['a boxed number', Object(1000), 'an object of class Number'],
  ])('refuses %s, showing what was given and what is expected', (_, input, shown) => {
    const attempt = () => parseDuration(input as string)
    expect(attempt).toThrow(PolicyError)
    expect(attempt).toThrow(
      `duration ${shown}: expected whole milliseconds > 0, or text like "250ms", "1s", "1m", "1h", "1d", "1h30m"`,
    )
  })

  test('may be zero only if that has a meaning, and only as a number', () => {
    expect(parseDurationOrZero(0, 'timeout')).toBe(0)
    expect(parseDurationOrZero('1s', 'timeout')).toBe(1000)
    expect(() => parseDurationOrZero('0s', 'timeout')).toThrow(
      'timeout: duration "0s": expected 0, whole milliseconds > 0, or text',
    )
  })

  test('in text is read back as the same number', () => {
    const anyMs = fc.oneof(
      fc.integer({ min: 1, max: 200_000_000 }),
      fc.maxSafeNat().map(ms => Math.max(1, ms)),
    )
    fc.assert(
      fc.property(anyMs, ms => parseDuration(formatDuration(ms)) === ms),
      { numRuns: ofCases(2000) },
    )
  })

  test.each([
    [1, '1ms'],
    [1000, '1s'],
    [60_000, '1m'],
    [5_400_000, '1h30m'],
    [86_400_000, '1d'],
    [93_784_005, '1d2h3m4s5ms'],
  ])('%d ms is written %s', (ms, text) => expect(formatDuration(ms)).toBe(text))

  test('is read in time that grows with its length only', () => {
    const before = performance.now()
    expect(() => parseDuration('1'.repeat(100_000))).toThrow(PolicyError)
    expect(() => parseDuration(`${'1d'.repeat(50_000)}x`)).toThrow(PolicyError)
    expect(performance.now() - before).toBeLessThan(1000)
  })
})

import { describe, expect, test } from '@jest/globals'
import { parseBackoff } from '../../../src/waiting/queue/backoff.js'
import { warnings } from '../../support/warnings.js'

const warned = warnings()

const delays = (backoff: Parameters<typeof parseBackoff>[0], attempts: readonly number[]) => {
  const backoffMs = parseBackoff(backoff, 'DelayQueue "x"')
  return attempts.map(attempt => backoffMs(attempt, undefined))
}

describe('a backoff', () => {
  test('is the same each time, or doubles up to its maximum, however many attempts there were', () => {
    expect(delays({ type: 'fixed', delay: '2s' }, [1, 2, 50])).toEqual([2000, 2000, 2000])
    expect(delays({ type: 'exponential', delay: 100, max: '1s' }, [1, 2, 3, 4, 5, 5000])).toEqual([
      100, 200, 400, 800, 1000, 1000,
    ])
    expect(delays({ type: 'exponential', delay: 100 }, [5000])[0]).toBeLessThan(Number.MAX_SAFE_INTEGER)
  })

  test('by default doubles from a second up to five minutes, a fifth more or less', () => {
    for (let i = 0; i < 100; i++) {
      const [first, late] = delays(undefined, [1, 30])
      expect(first).toBeGreaterThanOrEqual(800)
      expect(first).toBeLessThanOrEqual(1200)
      expect(late).toBeGreaterThanOrEqual(240_000)
      expect(late).toBeLessThanOrEqual(360_000)
    }
  })

  test('may be a function of the attempt and the error that returns milliseconds', () => {
    const backoffMs = parseBackoff((attempt, error) => (error === 'soon' ? 1.4 : attempt * 10), 'x')
    expect([backoffMs(3, undefined), backoffMs(3, 'soon')]).toEqual([30, 1])
  })

  const FAULTY: ReadonlyArray<readonly [what: string, backoff: () => number, warning: RegExp]> = [
    [
      'throws',
      () => {
        throw new Error('no such table')
      },
      /DelayQueue "x": backoff threw Error: no such table/,
    ],
    [
      'throws nothing that has a text',
      () => {
        throw Object.create(null)
      },
      /backoff threw an error without a text/,
    ],
    ['returns NaN', () => Number.NaN, /backoff returned NaN: expected milliseconds ≥ 0/],
    ['returns less than 0', () => -1, /backoff returned -1/],
    ['returns a promise', (async () => 5) as never, /backoff returned .*: expected milliseconds/],
  ]
  test.each(FAULTY)('that %s is replaced by the default backoff, with one warning a minute', (_, backoff, warning) => {
    const backoffMs = parseBackoff(backoff, 'DelayQueue "x"')
    for (const ms of [backoffMs(1, undefined), backoffMs(1, undefined)]) {
      expect(ms).toBeGreaterThanOrEqual(800)
      expect(ms).toBeLessThanOrEqual(1200)
    }
    expect(warned.codes).toEqual(['SPILLWAY_BACKOFF'])
    expect(warned.texts[0]).toMatch(warning)
  })
})

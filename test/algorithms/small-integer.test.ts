import { expect, test } from '@jest/globals'
import { toSmallInteger } from '../../src/algorithms/algorithm.js'

test('a number without its box is the same number, small or not', () => {
  for (const value of [0, 1, 600_000, -1, 2 ** 31 - 1, 2 ** 31, 2 ** 53, 0.5, 1e300, Number.POSITIVE_INFINITY]) {
    expect(toSmallInteger(value)).toBe(value)
  }
})

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { ceilDiv, floorDiv, toSmallInteger } from '../../../src/limiter/algorithms/algorithm.js'
import { ofCases } from '../../support/cases.js'

const dividend = fc.oneof(
  fc.maxSafeNat(),
  fc.nat(10_000),
  fc.bigInt(1n, 94_906_265n).map(root => Number(root * root)),
)
const divisor = fc.oneof(fc.maxSafeNat(), fc.nat(10_000)).map(b => b + 1 - (b === Number.MAX_SAFE_INTEGER ? 1 : 0))

describe('division of whole numbers', () => {
  test('rounds down and up exactly, up to 2^53', () => {
    fc.assert(
      fc.property(dividend, divisor, (a, b) => {
        const exact = BigInt(a) / BigInt(b)
        expect(floorDiv(a, b)).toBe(Number(exact))
        expect(ceilDiv(a, b)).toBe(Number(exact * BigInt(b) === BigInt(a) ? exact : exact + 1n))
      }),
      { numRuns: ofCases(5000) },
    )
  })

  test('is exact next to a multiple, where a rounded quotient would be whole', () => {
    for (const b of [1, 2, 3, 7, 10, 1000, 59_999, 60_000, 86_400_000, 94_906_265, 94_906_266]) {
      for (const q of [1, 2, Math.floor(Number.MAX_SAFE_INTEGER / b)]) {
        const a = q * b
        expect([floorDiv(a, b), ceilDiv(a, b), floorDiv(a - 1, b), ceilDiv(a - 1, b)]).toEqual([
          q,
          q,
          b === 1 ? q - 1 : q - 1,
          b === 1 ? q - 1 : q,
        ])
      }
    }
  })

  test('of zero is zero, not minus zero', () => {
    expect(floorDiv(0, 5)).toBe(0)
    expect(ceilDiv(0, 5)).toBe(0)
  })
})

test('a number without its box is the same number, small or not', () => {
  for (const value of [0, 1, 600_000, -1, 2 ** 31 - 1, 2 ** 31, 2 ** 53, 0.5, 1e300, Number.POSITIVE_INFINITY]) {
    expect(toSmallInteger(value)).toBe(value)
  }
})

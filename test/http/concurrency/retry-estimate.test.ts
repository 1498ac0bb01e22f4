import { expect, test } from '@jest/globals'
import { RetryEstimate } from '../../../src/http/concurrency/concurrency-limit.js'

test('a place is expected when one of the running requests ends, and later behind other waiters', () => {
  const pace = new RetryEstimate()
  expect(pace.nextFreeMs('x', 1, 0)).toBe(1000)
  pace.took('x', 6000)
  expect(pace.nextFreeMs('x', 1, 0)).toBe(6000)
  expect(pace.nextFreeMs('x', 3, 0)).toBe(2000)
  expect(pace.nextFreeMs('x', 3, 2)).toBe(6000)
  expect(pace.nextFreeMs('y', 1, 0)).toBe(1000)
})

test('durations of old requests are forgotten', () => {
  const pace = new RetryEstimate()
  pace.took('x', 10_000)
  for (let i = 0; i < 60; i++) pace.took('x', 100)
  expect(pace.nextFreeMs('x', 1, 0)).toBeCloseTo(100, 0)
})

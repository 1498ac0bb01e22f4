import { expect } from '@jest/globals'
import type { Verdict } from '../../src/limiter/core/decision.js'
import { hasBurst, type Limit } from '../../src/limiter/core/limit.js'

/**
 * Expects equality in every field. Compares numbers first: `expect` alone would cost more than what is tested a million
 * times.
 */
export function expectSameVerdicts(actual: readonly Verdict[], expected: readonly Verdict[]): void {
  if (actual.length === expected.length && actual.every((verdict, i) => isSame(verdict, expected[i]))) return
  expect(actual).toEqual(expected)
  throw new Error('these verdicts differ in a field that toEqual does not look at')
}

/** As `expect(verdict).toMatchObject(fields)`, for as many times. */
export function expectFields(verdict: Verdict, fields: Partial<Verdict>): void {
  for (const field of Object.keys(fields) as (keyof Verdict)[]) {
    if (!Object.is(verdict[field], fields[field])) expect(verdict).toMatchObject(fields)
  }
}

/** As `expect(actual).toBe(expected)`, for as many times. */
export function expectSame<T>(actual: T, expected: T): void {
  if (!Object.is(actual, expected)) expect(actual).toBe(expected)
}

/** As `expect(actual).toBeLessThanOrEqual(most)`, for as many times. */
export function expectAtMost(actual: number, most: number): void {
  if (!(actual <= most)) expect(actual).toBeLessThanOrEqual(most)
}

/** As `expect(actual).toBeGreaterThan(least)`, for as many times. */
export function expectMore(actual: number, least: number): void {
  if (!(actual > least)) expect(actual).toBeGreaterThan(least)
}

export function expectSameVerdict(actual: Verdict, expected: Verdict): void {
  if (!isSame(actual, expected)) expectSameVerdicts([actual], [expected])
}

/** What is said of a key that was never used, or is again as if never used. */
export function freshVerdict(limit: Limit): Verdict {
  return { limit, allowed: true, remaining: capacityOf(limit), retryAfterMs: 0, resetAfterMs: 0, delayMs: 0 }
}

/** The most that fits at one instant. */
export function capacityOf({ algorithm, quota, burst }: Limit): number {
  return hasBurst(algorithm) && quota > 0 ? burst : quota
}

function isSame(a: Verdict, b: Verdict): boolean {
  return (
    a.limit === b.limit &&
    a.allowed === b.allowed &&
    a.blocked === b.blocked &&
    Object.is(a.remaining, b.remaining) &&
    Object.is(a.retryAfterMs, b.retryAfterMs) &&
    Object.is(a.resetAfterMs, b.resetAfterMs) &&
    Object.is(a.delayMs, b.delayMs)
  )
}

import { expect } from '@jest/globals'
import type { KeyTally, Report, Scene } from './scene.js'

/** How much later than its deadline a decision may come. */
const GRACE_MS = 30

/** The observations of all processes together for each key. */
export function keysOf(reports: readonly Report[]): Map<string, KeyTally> {
  const sums = new Map<string, KeyTally>()
  for (const { keys } of reports) {
    for (const [key, { firstAt, lastAt, asked, redis, fallback, degraded }] of keys) {
      const sum = sums.get(key) ?? { firstAt, lastAt, asked: 0, redis: 0, fallback: 0, degraded: 0 }
      sum.firstAt = Math.min(sum.firstAt, firstAt)
      sum.lastAt = Math.max(sum.lastAt, lastAt)
      sum.asked += asked
      sum.redis += redis
      sum.fallback += fallback
      sum.degraded += degraded
      sums.set(key, sum)
    }
  }
  return sums
}

/**
 * What holds in every fault. No decision comes later than the deadline and 30 ms, but for the time in which its process
 * had no processor. Each key is admitted at most its quota by each `life` of the data in Redis, and at most its share
 * by each process alone: quota × lives + processes × share in all. No rejection is left unhandled.
 */
export function expectKept({ quota, share, deadlineMs }: Scene, reports: readonly Report[], lives = 1): void {
  const late = reports.filter(({ slowestMs }) => slowestMs > deadlineMs + GRACE_MS)
  expect(late.map(({ client, slowestMs, slowestRawMs }) => ({ client, slowestMs, slowestRawMs }))).toEqual([])
  expect(reports.flatMap(({ unhandled }) => unhandled)).toEqual([])
  for (const { client, keys } of reports) {
    const overspent = [...keys].filter(([, { fallback }]) => fallback > share)
    expect({ client, overspent }).toEqual({ client, overspent: [] })
  }
  const keys = [...keysOf(reports)]
  expect(keys.filter(([, { redis }]) => redis > quota * lives)).toEqual([])
  // Else the limit was never put to the test.
  expect(keys.filter(([, { redis }]) => redis >= quota).length).toBeGreaterThan(10)
}

/** Of keys that only Redis decided exactly the quota passed, no more and no less. */
export function expectExact({ quota }: Scene, reports: readonly Report[]): void {
  const whole = [...keysOf(reports)].filter(([, { degraded }]) => degraded === 0)
  expect(whole.filter(([, { asked, redis }]) => redis !== Math.min(asked, quota))).toEqual([])
}

/** Every process must have been affected by the fault; otherwise the test shows nothing. */
export function expectFelt(reports: readonly Report[]): void {
  expect(reports.filter(({ degraded }) => degraded === 0).map(({ client }) => client)).toEqual([])
}

import { describe, expect, test } from '@jest/globals'
import { adaptive, fixed, MIXED, play, type Scenario, summary } from '../../../bench/adaptive/simulation.js'
import { adaptivePermits } from '../../../src/operating/adaptive/index.js'

const SLOTS = 50
const WORK_MS = 20
/** Requests per second. */
const CAPACITY = (SLOTS * 1000) / WORK_MS
const OVERLOAD: Scenario = { seconds: 60, offered: () => 3 * CAPACITY, slots: () => SLOTS, workMs: WORK_MS }

describe('adaptive permits, offered three times what the service can do', () => {
  test('uses at least 95 % of the capacity, with times of at most three times the unloaded one, from 10 s on', () => {
    const { perSecond, p99, meanLimit, swing } = summary(play(OVERLOAD, adaptive()).slice(10))
    expect(perSecond).toBeGreaterThanOrEqual(0.95 * CAPACITY)
    expect(p99).toBeLessThanOrEqual(3 * WORK_MS)
    // Nothing oscillates.
    expect(swing).toBeLessThanOrEqual(Math.max(1, 0.15 * meanLimit))
  })

  test('still keeps times short after ten minutes of it', () => {
    // A smaller service, with little load at first: the limit begins above its capacity.
    const offered = (second: number) => (second < 3 ? 50 : 3 * 500)
    const small = { seconds: 600, offered, slots: () => 10, workMs: WORK_MS }
    const { perSecond, p99 } = summary(play(small, adaptive()).slice(570))
    expect(perSecond).toBeGreaterThanOrEqual(0.95 * 500)
    expect(p99).toBeLessThanOrEqual(3 * WORK_MS)
  })

  test('follows a capacity that drops to a third, and back, within 10 s', () => {
    const slots = (second: number) => (second >= 20 && second < 40 ? 17 : SLOTS)
    const seconds = play({ ...OVERLOAD, slots }, adaptive())
    const dropped = summary(seconds.slice(30, 40))
    expect(dropped.perSecond).toBeGreaterThanOrEqual(0.95 * 17 * 50)
    expect(dropped.p99).toBeLessThanOrEqual(3 * WORK_MS)
    expect(summary(seconds.slice(50)).perSecond).toBeGreaterThanOrEqual(0.95 * CAPACITY)
  })

  test('uses at least 95 % of the capacity also where one request in ten takes eleven times as long', () => {
    const { perSecond } = summary(play({ ...OVERLOAD, spread: MIXED }, adaptive()).slice(10))
    expect(perSecond).toBeGreaterThanOrEqual(0.95 * CAPACITY)
  })
})

test('without a limit times grow without bound', () => {
  const seconds = play({ ...OVERLOAD, seconds: 10, offered: () => 1.2 * CAPACITY }, fixed(Number.POSITIVE_INFINITY))
  for (let i = 1; i < 10; i++) expect(seconds[i].p99).toBeGreaterThan(seconds[i - 1].p99 + 50)
})

test('the limit stays while few requests come', () => {
  const seconds = play({ ...OVERLOAD, offered: () => 0.02 * CAPACITY }, adaptive())
  expect(seconds[59].limit).toBe(20)
})

test('the limit starts at `initial` and stays between `min` and `max`', () => {
  expect(adaptivePermits()).toMatchObject({ limit: 20, inUse: 0 })
  expect(adaptivePermits({ min: 30 }).limit).toBe(30)
  expect(adaptivePermits({ max: 8 }).limit).toBe(8)
  expect(adaptivePermits({ initial: 7 }).limit).toBe(7)
})

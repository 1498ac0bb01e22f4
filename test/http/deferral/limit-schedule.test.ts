import { describe, expect, test } from '@jest/globals'
import { earliestFit, LimitSchedule, stateOf } from '../../../src/http/deferral/limit-schedule.js'
import { type AlgorithmName, parseLimit } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
import { ofCases } from '../../support/cases.js'
import { randomFrom } from '../../support/random.js'
import { START } from '../../support/stories.js'

const ALGORITHMS: AlgorithmName[] = [
  'sliding-window',
  'fixed-window',
  'sliding-counter',
  'token-bucket',
  'leaky-bucket',
]

describe.each(ALGORITHMS)('%s', algorithm => {
  const limit = parseLimit({ quota: 5, window: '1s', algorithm })

  test('a store allows every message at its scheduled moment, and not earlier', () => {
    const random = randomFrom(`schedule ${algorithm}`)
    for (let round = 0; round < ofCases(50); round++) {
      const clock = new ManualClock(START)
      const store = new MemoryStore({ clock })
      const schedule = new LimitSchedule(limit, undefined, [], START)
      let at = START
      for (let i = 0; i < 30; i++) {
        const cost = random.integer(1, 3)
        const fit = earliestFit([schedule], cost, Math.max(at, schedule.lastAt))
        schedule.add({ at: fit.at, dueAt: fit.at + fit.delayMs, cost })
        // A moment earlier the store refuses it, unless it has to stand behind those ahead.
        if (fit.at - 1 >= at) {
          clock.set(fit.at - 1)
          expect(store.peek([{ key: 'k', limit }], cost)[0].allowed).toBe(false)
        }
        clock.set(fit.at)
        const [verdict] = store.consume([{ key: 'k', limit }], cost)
        expect([verdict.allowed, verdict.delayMs]).toEqual([true, fit.delayMs])
        at = fit.at
      }
      store.close()
    }
  })

  test('verdicts reveal the count of a store, and never too few units', () => {
    const random = randomFrom(`derived ${algorithm}`)
    for (let round = 0; round < ofCases(200); round++) {
      const clock = new ManualClock(START)
      const store = new MemoryStore({ clock })
      const charges = [{ key: 'k', limit }]
      for (let i = 0; i < 12; i++) {
        store.consume(charges, random.integer(1, 2))
        clock.advance(random.integer(0, 300))
      }
      const nowMs = clock.now()
      const retries = [1, 2, 3, 4, 5].flatMap(cost => {
        const [{ allowed, retryAfterMs }] = store.peek(charges, cost)
        return allowed ? [] : [{ cost, afterMs: retryAfterMs }]
      })
      const state = stateOf(store.peek(charges, 0)[0], retries, nowMs)
      const schedule = new LimitSchedule(limit, state, [], nowMs)
      for (const cost of [1, 2, 3, 4, 5]) {
        const [{ allowed, retryAfterMs }] = store.peek(charges, cost)
        const { at } = earliestFit([schedule], cost, nowMs)
        const storeMs = allowed ? 0 : retryAfterMs
        if (algorithm === 'sliding-counter') expect(at - nowMs).toBeGreaterThanOrEqual(storeMs)
        else expect(at - nowMs).toBe(storeMs)
      }
      store.close()
    }
  })

  test('a schedule continues unchanged after it was stored and read', () => {
    const schedule = new LimitSchedule(limit, undefined, [], START)
    const again = new LimitSchedule(limit, undefined, [], START)
    let stored = JSON.stringify(again)
    for (let i = 0; i < 40; i++) {
      const nowMs = START + i * 130
      const read = LimitSchedule.parse(limit, JSON.parse(stored), nowMs)
      const { at, delayMs } = earliestFit([schedule], 1, Math.max(nowMs, schedule.lastAt))
      expect(earliestFit([read], 1, Math.max(nowMs, read.lastAt))).toEqual({ at, delayMs })
      for (const one of [schedule, read]) one.add({ at, dueAt: at + delayMs, cost: 1 })
      stored = JSON.stringify(read)
    }
  })
})

test('limits with their own keys are kept together, and a late message of one key delays no other key', () => {
  const perUser = parseLimit({ quota: 1, window: '1h' })
  const service = parseLimit({ quota: 2, window: '1s' })
  const all = new LimitSchedule(service, undefined, [], START)
  const users = Array.from({ length: 6 }, () => new LimitSchedule(perUser, undefined, [], START))
  const place = (user: number) => {
    const schedules = [users[user], all]
    const from = Math.max(START, Math.min(...schedules.map(({ lastAt }) => lastAt)))
    const { at } = earliestFit(schedules, 1, from)
    for (const schedule of schedules) schedule.add({ at, dueAt: at, cost: 1 })
    return at - START
  }
  expect([place(0), place(0)]).toEqual([0, 3_600_000])
  expect([1, 2, 3, 4, 5].map(place)).toEqual([0, 1000, 1000, 2000, 2000])
  // Those that are scheduled keep their moments: the hour is full of two with this one.
  expect(place(1)).toBe(3_600_000)
  expect(place(2)).toBe(3_601_000)
})

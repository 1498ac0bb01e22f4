import { describe, expect, test } from '@jest/globals'
import { parseLimit } from '../../../src/limiter/core/limit.js'
import { forRandom, Run } from '../../support/run.js'
import { randomCost, randomPause } from '../../support/scenario.js'
import { START } from '../../support/stories.js'
import { expectSameVerdict } from '../../support/verdicts.js'

const limitOf = (quota: number, window: number) => parseLimit({ quota, window, algorithm: 'fixed-window' })

describe('fixed-window', () => {
  test('admits as much as an oracle that knows every window', () =>
    forRandom(400, random => {
      const limit = limitOf(random.integer(1, 20), random.integer(1, 200))
      const run = new Run(limit)
      let now = START
      let window = { from: Number.NEGATIVE_INFINITY, spent: 0 }
      for (let i = 0; i < 40; i++) {
        now += randomPause(limit, random, false)
        const cost = randomCost(limit, random)
        if (now >= window.from + limit.windowMs) window = { from: Number.NaN, spent: 0 }
        const allowed = window.spent + cost <= limit.quota
        if (allowed && cost > 0) {
          window = { from: Number.isNaN(window.from) ? now : window.from, spent: window.spent + cost }
        }
        const endsIn = Number.isNaN(window.from) ? 0 : window.from + limit.windowMs - now
        const fitsIn = cost > limit.quota ? Number.POSITIVE_INFINITY : endsIn
        expectSameVerdict(run.consume(now, cost), {
          limit,
          allowed,
          remaining: limit.quota - window.spent,
          retryAfterMs: allowed ? 0 : fitsIn,
          resetAfterMs: endsIn,
          delayMs: 0,
        })
        if (Number.isNaN(window.from)) window.from = Number.NEGATIVE_INFINITY
      }
    }))

  test('admits up to twice its quota in a window across a boundary, and never more', () =>
    forRandom(200, random => {
      const limit = limitOf(random.integer(1, 20), random.integer(1, 200))
      const run = new Run(limit)
      run.live(START, 80, random)
      expect(run.mostWithin(limit.windowMs)).toBeLessThanOrEqual(2 * limit.quota)
    }))

  test('does admit twice its quota: at the end of a window and the start of the next', () => {
    const run = new Run(limitOf(5, 1000))
    run.consume(START, 1)
    run.consume(START + 999, 4)
    run.consume(START + 1000, 5)
    expect(run.mostWithin(1000)).toBe(10 - 1)
    expect(run.mostWithin(1001)).toBe(10)
  })

  test('counts a window of 10 000 years', () => {
    const limit = limitOf(2, 315_360_000_000_000)
    const run = new Run(limit)
    run.consume(START, 2)
    expect(run.consume(START + 1, 1)).toMatchObject({ allowed: false, retryAfterMs: 315_360_000_000_000 - 1 })
  })
})

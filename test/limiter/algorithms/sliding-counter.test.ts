import { describe, expect, test } from '@jest/globals'
import { type Limit, parseLimit } from '../../../src/limiter/core/limit.js'
import { forRandom, Run } from '../../support/run.js'
import { randomCost, randomPause } from '../../support/scenario.js'
import { START } from '../../support/stories.js'
import { expectSameVerdict } from '../../support/verdicts.js'

/**
 * Remembers what was admitted in every cell; weighs it in exact rationals, and tries every ms to find the one at which
 * a cost fits.
 */
class Oracle {
  readonly cells = new Map<number, number>()

  constructor(readonly limit: Limit) {}

  /** The estimate × window, exactly. */
  estimate(now: number): bigint {
    const { windowMs } = this.limit
    const cell = Math.floor(now / windowMs)
    const inCell = (wanted: number) => BigInt(this.cells.get(wanted) ?? 0)
    return inCell(cell) * BigInt(windowMs) + inCell(cell - 1) * BigInt((cell + 1) * windowMs - now)
  }

  fits(now: number, cost: number): boolean {
    const { quota, windowMs } = this.limit
    return this.estimate(now) + BigInt(cost) * BigInt(windowMs) <= BigInt(quota) * BigInt(windowMs)
  }

  consume(now: number, cost: number) {
    const { quota, windowMs } = this.limit
    const allowed = cost === 0 || this.fits(now, cost)
    const cell = Math.floor(now / windowMs)
    if (allowed) this.cells.set(cell, (this.cells.get(cell) ?? 0) + cost)
    const left = (BigInt(quota) * BigInt(windowMs) - this.estimate(now)) / BigInt(windowMs)
    const first = (test: (ms: number) => boolean) => {
      for (let ms = 0; ms <= 2 * windowMs; ms++) if (test(ms)) return ms
      return Number.POSITIVE_INFINITY
    }
    return {
      limit: this.limit,
      allowed,
      remaining: left > 0n ? Number(left) : 0,
      retryAfterMs: allowed ? 0 : first(ms => this.fits(now + ms, cost)),
      resetAfterMs: first(ms => this.estimate(now + ms) === 0n),
      delayMs: 0,
    }
  }
}

const limitOf = (quota: number, window: number) => parseLimit({ quota, window, algorithm: 'sliding-counter' })

describe('sliding-counter', () => {
  test('agrees with an oracle that weighs cells exactly and tries every ms', () =>
    forRandom(200, random => {
      const limit = limitOf(random.integer(1, 20), random.integer(1, 60))
      const run = new Run(limit)
      const oracle = new Oracle(limit)
      let now = START
      for (let i = 0; i < 25; i++) {
        now += randomPause(limit, random, false)
        const cost = randomCost(limit, random)
        expectSameVerdict(run.consume(now, cost), oracle.consume(now, cost))
      }
    }))

  test('never admits more than twice its quota in any span of a window', () =>
    forRandom(200, random => {
      const limit = limitOf(random.integer(1, 20), random.integer(1, 200))
      const run = new Run(limit)
      run.live(START, 80, random)
      expect(run.mostWithin(limit.windowMs)).toBeLessThan(2 * limit.quota)
    }))

  test('admits all requests of even traffic that leaves one unit free', () => {
    const run = new Run(limitOf(11, 1000))
    for (let now = START; now < START + 10_000; now += 100) expect(run.consume(now, 1).allowed).toBe(true)
    expect(run.mostWithin(1000)).toBe(10)
  })

  test('promises a moment inside the cell if the cost fits before its end', () => {
    const run = new Run(limitOf(10, 1000))
    run.consume(START, 10)
    // Half of ten fits half a window into the next cell.
    expect(run.consume(START, 5).retryAfterMs).toBe(1500)
    expect(run.consume(START + 1400, 5).retryAfterMs).toBe(100)
  })

  test('stays exact at the largest shapes', () => {
    const limit = limitOf(6361 * 69431, 20394401)
    const run = new Run(limit)
    const start = 20394401 * 88_000
    expect(run.consume(start, limit.quota)).toMatchObject({ remaining: 0, resetAfterMs: 2 * 20394401 })
    const { retryAfterMs } = run.consume(start, 1)
    const fits = (ms: number) =>
      BigInt(limit.quota) * BigInt(2 * limit.windowMs - ms) <= BigInt(limit.quota - 1) * BigInt(limit.windowMs)
    expect([fits(retryAfterMs - 1), fits(retryAfterMs)]).toEqual([false, true])
  })
})

import { describe, expect, test } from '@jest/globals'
import { measure } from '../../../src/limiter/algorithms/registry.js'
import { refund } from '../../../src/limiter/changes/changes.js'
import { type Limit, parseLimit } from '../../../src/limiter/core/limit.js'
import { forRandom, Run } from '../../support/run.js'
import { randomCost, randomPause } from '../../support/scenario.js'
import { START } from '../../support/stories.js'
import { expectSameVerdict } from '../../support/verdicts.js'

/** Remembers every unit, and when it was spent. */
class Oracle {
  units: number[] = []

  constructor(readonly limit: Limit) {}

  at(now: number): void {
    this.units = this.units.map(at => Math.min(at, now)).filter(at => at + this.limit.windowMs > now)
  }

  consume(now: number, cost: number) {
    this.at(now)
    const { quota, windowMs } = this.limit
    const allowed = cost === 0 || this.units.length + cost <= quota
    if (allowed) for (let i = 0; i < cost; i++) this.units.push(now)
    const newest = this.units.at(-1)
    // When the last of those that are too many expires.
    const tooMany = this.units.length + cost - quota
    const fitsIn = cost > quota ? Number.POSITIVE_INFINITY : this.units[tooMany - 1] + windowMs - now
    return {
      limit: this.limit,
      allowed,
      remaining: Math.max(0, quota - this.units.length),
      retryAfterMs: allowed ? 0 : fitsIn,
      resetAfterMs: newest === undefined ? 0 : newest + windowMs - now,
      delayMs: 0,
    }
  }

  refund(now: number, cost: number): void {
    this.at(now)
    this.units.splice(0, cost)
  }
}

describe('sliding-window', () => {
  test('agrees with an oracle that remembers every unit, with refunds and a clock that runs back', () =>
    forRandom(400, random => {
      const limit = parseLimit({ quota: random.integer(1, 20), window: random.integer(1, 200) })
      const run = new Run(limit)
      const oracle = new Oracle(limit)
      let now = START
      for (let i = 0; i < 50; i++) {
        now += randomPause(limit, random)
        const cost = randomCost(limit, random)
        expectSameVerdict(run.consume(now, cost), oracle.consume(now, cost))
        if (random.integer(0, 4) > 0) continue
        const back = randomCost(limit, random)
        run.refund(now, back)
        oracle.refund(now, back)
      }
    }))

  test('never admits more than its quota in any span of a window', () =>
    forRandom(200, random => {
      const limit = parseLimit({ quota: random.integer(1, 30), window: random.integer(1, 300) })
      const run = new Run(limit)
      run.live(START, 120, random)
      expect(run.mostWithin(limit.windowMs)).toBeLessThanOrEqual(limit.quota)
    }))

  test('under full load admits exactly its quota in every window', () => {
    const limit = parseLimit({ quota: 7, window: 1000 })
    const run = new Run(limit)
    for (let now = START; now < START + 20_000; now += 3) run.consume(now, 1)
    expect(run.mostWithin(1000)).toBe(7)
    expect(run.admitted).toHaveLength(7 * 20)
  })

  test('keeps at most one entry for each ms in which something was spent, and twice as many while it tidies up', () => {
    const limit = parseLimit({ quota: 1000, window: 1000 })
    const run = new Run(limit)
    let longest = 0
    for (let now = START; now < START + 50_000; now++) {
      run.consume(now, 1)
      run.consume(now, 3)
      longest = Math.max(longest, (run.state as { entries: number[] }).entries.length / 2)
    }
    expect(longest).toBeLessThanOrEqual(2 * 250 + 64)
  })

  test('measure spends nothing: the same state gives the same verdict each time', () =>
    forRandom(300, random => {
      const limit = parseLimit({ quota: random.integer(1, 20), window: random.integer(1, 200) })
      const run = new Run(limit)
      const now = run.live(START, 20, random, true)
      const { state } = run
      const later = now + random.integer(0, limit.windowMs)
      const look = () => [1, 2, limit.quota].map(cost => run.peek(later, cost))
      const before = look()
      for (let i = 0; i < 5; i++) {
        const measuredAt = now + random.integer(-300, 300)
        measure(limit, state as never, measuredAt, randomCost(limit, random))
        refund(limit, state as never, measuredAt, randomCost(limit, random))
      }
      expect(look()).toEqual(before)
    }))

  test('still counts exactly after more than 2^53 units in all', () => {
    const most = 2 ** 53 - 1024
    const limit = parseLimit({ quota: most, window: 1000 })
    const run = new Run(limit)
    // Never idle for a window, so that the log never starts anew.
    let now = START
    for (let i = 0; i < 20; i++) {
      expect(run.consume(now, 2 ** 52).allowed).toBe(true)
      // From the second round on, the single unit of the round before still counts.
      expect(run.consume(now + 500, 2 ** 52 - 1025)).toMatchObject({ allowed: true, remaining: i === 0 ? 1 : 0 })
      expect(run.consume(now + 600, 1)).toMatchObject({ allowed: true, remaining: 0 })
      expect(run.consume(now + 700, 1)).toMatchObject({ allowed: false, retryAfterMs: 300 })
      now += 1000
      expect(run.peek(now, 0).remaining).toBe(2 ** 52)
    }
  })
})

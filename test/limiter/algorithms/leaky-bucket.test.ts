import { describe, expect, test } from '@jest/globals'
import { type Limit, parseLimit } from '../../../src/limiter/core/limit.js'
import { forRandom, Run } from '../../support/run.js'
import { randomCost, randomLimit, randomPause } from '../../support/scenario.js'
import { START } from '../../support/stories.js'
import { expectMore, expectSameVerdict } from '../../support/verdicts.js'

/** Knows when the place of the last one is free, in exact rationals: ms × quota. */
class Oracle {
  free: bigint | undefined

  constructor(readonly limit: Limit) {}

  consume(now: number, cost: number) {
    const quota = BigInt(this.limit.quota)
    const window = BigInt(this.limit.windowMs)
    const moment = BigInt(now) * quota
    const ceil = (ms: bigint) => Number((ms + quota - 1n) / quota)
    let free = this.free !== undefined && this.free > moment ? this.free : moment
    const fitsAt = free + (BigInt(cost) - BigInt(this.limit.burst)) * window
    const allowed = cost === 0 || fitsAt <= moment
    const delayMs = allowed && cost > 0 ? ceil(free - moment) : 0
    if (allowed && cost > 0) {
      free += BigInt(cost) * window
      this.free = free
    }
    const left = (BigInt(this.limit.burst) * window - (free - moment)) / window
    return {
      limit: this.limit,
      allowed,
      remaining: Number(left),
      retryAfterMs: allowed ? 0 : cost > this.limit.burst ? Number.POSITIVE_INFINITY : ceil(fitsAt - moment),
      resetAfterMs: ceil(free - moment),
      delayMs,
    }
  }
}

describe('leaky-bucket', () => {
  test('agrees with an oracle in exact rationals, including delays', () =>
    forRandom(500, random => {
      const limit = randomLimit('leaky-bucket', random)
      const run = new Run(limit)
      const oracle = new Oracle(limit)
      let now = START
      for (let i = 0; i < 30; i++) {
        now += randomPause(limit, random, false)
        const cost = randomCost(limit, random)
        expectSameVerdict(run.consume(now, cost), oracle.consume(now, cost))
      }
    }))

  test('admitted requests leave window/quota apart, to within a millisecond', () =>
    forRandom(300, random => {
      const limit = parseLimit({
        quota: random.integer(1, 20),
        window: random.integer(1, 2000),
        burst: random.integer(1, 20),
        algorithm: 'leaky-bucket',
      })
      const run = new Run(limit)
      run.live(START, 60, random)
      const leaves = run.admitted.map(({ at, cost, delayMs }) => ({ at: at + delayMs, cost }))
      for (let i = 1; i < leaves.length; i++) {
        const apartMs = (leaves[i - 1].cost * limit.windowMs) / limit.quota
        expectMore(leaves[i].at - leaves[i - 1].at, apartMs - 1)
      }
      // The lost ms do not add up: over any number of departures the rate is kept to the ms.
      let units = 0
      for (let i = 1; i < leaves.length; i++) {
        units += leaves[i - 1].cost
        expectMore((leaves[i].at - leaves[0].at) * limit.quota, units * limit.windowMs - limit.quota)
      }
    }))

  test('a fresh key admits its burst at one instant, and the longest waits until all before it have left', () => {
    const limit = parseLimit({ quota: 3, window: 1000, burst: 5, algorithm: 'leaky-bucket' })
    const run = new Run(limit)
    const verdicts = Array.from({ length: 6 }, () => run.consume(START, 1))
    expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, true, true, true, true, false])
    expect(verdicts.map(({ delayMs }) => delayMs)).toEqual([0, 334, 667, 1000, 1334, 0])
    expect(verdicts[5].retryAfterMs).toBe(334)
  })

  test('with one place, one request at a time passes and none waits', () => {
    const run = new Run(parseLimit({ quota: 4, window: 1000, burst: 1, algorithm: 'leaky-bucket' }))
    for (let now = START; now < START + 3000; now += 50) expect(run.consume(now, 1).delayMs).toBe(0)
    expect(run.admitted.map(({ at }) => at - START)).toEqual(Array.from({ length: 12 }, (_, i) => i * 250))
  })
})

import { describe, expect, test } from '@jest/globals'
import { type Limit, parseLimit } from '../../../src/limiter/core/limit.js'
import { forRandom, Run } from '../../support/run.js'
import { randomCost, randomLimit, randomPause } from '../../support/scenario.js'
import { START } from '../../support/stories.js'
import { expectAtMost, expectSameVerdict } from '../../support/verdicts.js'

/** Tokens as exact rationals: the numerator over the window. */
class Oracle {
  readonly window: bigint
  readonly full: bigint
  tokens: bigint
  last: number | undefined

  constructor(readonly limit: Limit) {
    this.window = BigInt(limit.windowMs)
    this.full = BigInt(limit.burst) * this.window
    this.tokens = this.full
  }

  consume(now: number, cost: number) {
    const quota = BigInt(this.limit.quota)
    // Where the clock ran back, nothing is regained and the past begins now.
    if (this.last !== undefined && now < this.last) this.last = now
    let tokens = this.tokens + quota * BigInt(now - (this.last ?? now))
    if (tokens > this.full) tokens = this.full
    const wanted = BigInt(cost) * this.window
    const allowed = wanted <= tokens
    if (allowed && cost > 0) {
      tokens -= wanted
      this.tokens = tokens
      this.last = now
    }
    const ceil = (amount: bigint) => Number((amount + quota - 1n) / quota)
    const fitsIn = wanted > this.full ? Number.POSITIVE_INFINITY : ceil(wanted - tokens)
    return {
      limit: this.limit,
      allowed,
      remaining: Number(tokens / this.window),
      retryAfterMs: allowed ? 0 : fitsIn,
      resetAfterMs: ceil(this.full - tokens),
      delayMs: 0,
    }
  }
}

describe('token-bucket', () => {
  test('agrees with an oracle in exact rationals, also at the edge of the exact integers and when the clock runs back', () =>
    forRandom(500, random => {
      const limit = randomLimit('token-bucket', random)
      const run = new Run(limit)
      const oracle = new Oracle(limit)
      let now = START
      for (let i = 0; i < 30; i++) {
        now += randomPause(limit, random)
        const cost = randomCost(limit, random)
        expectSameVerdict(run.consume(now, cost), oracle.consume(now, cost))
      }
    }))

  test('never admits more than its burst and the regained units, in any span', () =>
    forRandom(300, random => {
      const limit = parseLimit({
        quota: random.integer(1, 30),
        window: random.integer(1, 300),
        burst: random.integer(1, 30),
        algorithm: 'token-bucket',
      })
      const run = new Run(limit)
      run.live(START, 80, random)
      const { admitted } = run
      for (let from = 0; from < admitted.length; from++) {
        let sum = 0
        for (let to = from; to < admitted.length; to++) {
          sum += admitted[to].cost
          const spanMs = admitted[to].at - admitted[from].at
          expectAtMost(sum * limit.windowMs, limit.burst * limit.windowMs + limit.quota * spanMs)
        }
      }
    }))

  test.each([
    [7, 1000, 7, 1],
    [7, 1000, 2, 1],
    [3, 1000, 3, 7],
    [1000, 999, 10, 1],
    [997, 60_000, 50, 13],
    [1, 86_400_000, 2, 2_000_000],
    [1_000_000, 3_600_000, 300, 1],
    [11, 7, 5, 1],
  ])(
    '%d per %d ms, burst %d, a request every %d ms: in the long run within 0.1 %% of the ideal, never above',
    (quota, window, burst, everyMs) => {
      const run = new Run(parseLimit({ quota, window, burst, algorithm: 'token-bucket' }))
      const lastsMs = Math.max(20_000, Math.ceil((4000 * window) / quota))
      let spent = 0
      let above = 0
      for (let at = 0; at <= lastsMs; at += everyMs) {
        while (run.consume(START + at, 1).allowed) spent++
        if (spent * window > burst * window + quota * at) above++
        run.admitted.length = 0
      }
      expect(above).toBe(0)
      expect(spent).toBeGreaterThanOrEqual(0.999 * (burst + (quota * lastsMs) / window))
    },
  )
})

import fc from 'fast-check'
import { measure, type State } from '../../src/limiter/algorithms/registry.js'
import { refund } from '../../src/limiter/changes/changes.js'
import type { Verdict } from '../../src/limiter/core/decision.js'
import type { Limit } from '../../src/limiter/core/limit.js'
import { ofCases } from './cases.js'
import type { Random } from './random.js'
import { randomCost, randomPause } from './scenario.js'

/** Random numbers out of fast-check, which then makes a failing case smaller. */
function randomOf(generate: fc.GeneratorValue): Random {
  return {
    integer: (low, high) => generate(fc.integer, { min: low, max: high }),
    pick: choices => choices[generate(fc.nat, choices.length - 1)],
  }
}

/** `check` with random numbers, `ofCases(all)` times; a failure is made as small as it can be. */
export async function forRandom(all: number, check: (random: Random) => Promise<void> | void): Promise<void> {
  const property = fc.asyncProperty(fc.gen(), async generate => {
    await check(randomOf(generate))
  })
  await fc.assert(property, { numRuns: ofCases(all), seed: 20261121 })
}

/** A key of a limit, straight on the arithmetic; keeps all that was admitted. */
export class Run {
  state: State | undefined
  readonly admitted: { at: number; cost: number; delayMs: number }[] = []

  constructor(public limit: Limit) {}

  consume(nowMs: number, cost: number): Verdict {
    const { verdict, next } = measure(this.limit, this.state, nowMs, cost)
    this.state = next
    if (verdict.allowed && cost > 0) this.admitted.push({ at: nowMs, cost, delayMs: verdict.delayMs })
    return verdict
  }

  peek(nowMs: number, cost: number): Verdict {
    return measure(this.limit, this.state, nowMs, cost).verdict
  }

  refund(nowMs: number, cost: number): void {
    this.state = refund(this.limit, this.state, nowMs, cost)
  }

  /** So many requests from `startMs` on; the time of the last. */
  live(startMs: number, requests: number, random: Random, mayRunBack = false): number {
    let now = startMs
    for (let i = 0; i < requests; i++) {
      now += randomPause(this.limit, random, mayRunBack)
      this.consume(now, randomCost(this.limit, random))
    }
    return now
  }

  /** The most units admitted in any span of so many ms, by trying all that could be the first. */
  mostWithin(spanMs: number): number {
    const sums = this.admitted.map(({ at: from }) =>
      this.admitted.reduce((sum, { at, cost }) => (at >= from && at < from + spanMs ? sum + cost : sum), 0),
    )
    return Math.max(0, ...sums)
  }
}

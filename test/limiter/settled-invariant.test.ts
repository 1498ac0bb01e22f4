import { test } from '@jest/globals'
import type { Decision } from '../../src/limiter/core/decision.js'
import type { AlgorithmName, Limit } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { ofCases } from '../support/cases.js'
import { type Random, randomFrom } from '../support/random.js'
import { START } from '../support/stories.js'
import { expectAtMost } from '../support/verdicts.js'

/** One charge, and how much of it was not given back. */
interface Charged {
  readonly chargedAt: number
  /** When it counts as charged: a clock that steps back takes it along. */
  at: number
  /** The same, on a clock that never steps back. */
  readonly steady: number
  left: number
  readonly leavesAt: number
}

/**
 * What was charged and not given back. Where several were charged in one ms, what is given back to one of them may be
 * another's: the contract promises no more.
 */
class Ledger {
  charged: Charged[] = []
  windowAt = Number.NEGATIVE_INFINITY
  steady = 0
  #last: number

  constructor(
    readonly limit: Limit,
    now: number,
  ) {
    this.#last = now
  }

  /** Something was asked at this time: what lies in the future is moved to it. */
  see(now: number): void {
    this.steady += Math.max(0, now - this.#last)
    this.#last = now
    for (const one of this.charged) one.at = Math.min(one.at, now)
    if (this.windowAt > now) this.windowAt = now
    // What has expired stays expired, though the clock steps back.
    if (this.limit.algorithm === 'sliding-window') this.charged = this.charged.filter(one => this.#counts(one))
  }

  charge(now: number, units: number, delayMs = 0): Charged {
    if (now - this.windowAt >= this.limit.windowMs) {
      this.windowAt = now
      if (this.limit.algorithm === 'fixed-window') this.charged = []
    }
    const one = { chargedAt: now, at: now, steady: this.steady, left: units, leavesAt: now + delayMs }
    this.charged.push(one)
    return one
  }

  /** At most `units` of this one, or of others of its ms. */
  settle(own: Charged, units: number): void {
    let back = units
    for (const one of [own, ...this.charged]) {
      if (one.chargedAt !== own.chargedAt || one.at !== own.at || !this.charged.includes(one)) continue
      const part = Math.min(back, one.left)
      one.left -= part
      back -= part
    }
  }

  refund(units: number, newestFirst: boolean): void {
    let back = units
    const counted = this.charged.filter(one => one.left > 0 && this.#counts(one))
    for (const one of newestFirst ? counted.reverse() : counted) {
      const part = Math.min(back, one.left)
      one.left -= part
      back -= part
    }
  }

  /** Throws if more than the limit allows was charged and not given back. */
  check(now: number): void {
    const { algorithm, quota, burst, windowMs } = this.limit
    if (algorithm === 'sliding-window' || algorithm === 'fixed-window') {
      const units = this.charged.reduce((sum, one) => sum + (this.#counts(one, now) ? one.left : 0), 0)
      expectAtMost(units, quota)
    } else if (algorithm === 'sliding-counter') {
      const cell = now - (now % windowMs)
      const inCell = (start: number) =>
        this.charged.reduce((sum, one) => sum + (one.at - (one.at % windowMs) === start ? one.left : 0), 0)
      const overlapMs = cell + windowMs - now
      expectAtMost(inCell(cell) * windowMs + inCell(cell - windowMs) * overlapMs, quota * windowMs)
    } else if (algorithm === 'token-bucket') {
      let units = 0
      for (const one of [...this.charged].reverse()) {
        units += one.left
        if (one.left > 0) expectAtMost(units * windowMs, burst * windowMs + quota * (this.steady - one.steady))
      }
    } else {
      const leaving = this.charged.filter(one => one.left > 0).sort((a, b) => a.leavesAt - b.leavesAt)
      for (let i = 1; i < leaving.length; i++) {
        const { leavesAt, left } = leaving[i - 1]
        // Each is told its time in whole ms, rounded up.
        expectAtMost(leavesAt + (left * windowMs) / quota - 1, leaving[i].leavesAt)
      }
    }
  }

  forgetOld(now: number): void {
    this.charged = this.charged.filter(one => now - one.at < 3 * this.limit.windowMs)
  }

  #counts(one: Charged, now = this.#last): boolean {
    return this.limit.algorithm !== 'sliding-window' || now - one.at < this.limit.windowMs
  }
}

const OPERATIONS = ofCases(20_000)
/**
 * A counter that steps back into another cell is an estimate of its own; a leaky bucket's places are counted in steady
 * time only.
 */
const STEPS_BACK: Partial<Record<AlgorithmName, boolean>> = {
  'sliding-window': true,
  'fixed-window': true,
  'sliding-counter': false,
  'token-bucket': true,
  'leaky-bucket': false,
}

// On memory: settled-agreement compares Redis with it, in every field of the same operations.
test.each(Object.keys(STEPS_BACK) as AlgorithmName[])(
  '%s: whenever consume allows, what was charged and not given back is within the limit, whatever was settled before',
  async algorithm => {
    const random = randomFrom(algorithm)
    const clock = new ManualClock(START)
    const store = new MemoryStore({ clock })
    let allowed = 0
    let settled = 0
    for (let game = 0; game * 150 < OPERATIONS; game++) {
      const [more, back] = await play(store, clock, algorithm, `${game}`, random)
      allowed += more
      settled += back
    }
    // The random games do not only refuse.
    expectAtMost(OPERATIONS / 10, allowed)
    expectAtMost(OPERATIONS / 20, settled)
    store.close()
  },
  60_000,
)

async function play(store: Store, clock: ManualClock, algorithm: AlgorithmName, key: string, random: Random) {
  const quota = random.integer(1, 12)
  const window = random.pick([20, 100, 1000])
  const limiter = new RateLimiter({ store, policy: { quota, window, algorithm }, deadline: '5s', denyCache: false })
  const [limit] = limiter.policy
  const open: Array<[Decision, Charged]> = []
  const leaky = algorithm === 'leaky-bucket'
  let allowed = 0
  let settled = 0
  clock.advance(random.integer(3 * window, 10 * window))
  const ledger = new Ledger(limit, clock.now())
  for (let i = 0; i < 150; i++) {
    step(clock, limit, random)
    const now = clock.now()
    switch (random.integer(0, leaky ? 6 : 9)) {
      case 8:
        ledger.see(now)
        await limiter.refund(key, 1 + (i % 4))
        ledger.refund(1 + (i % 4), algorithm !== 'sliding-window')
        break
      case 9:
        ledger.see(now)
        await limiter.charge(key, 1 + (i % 3))
        ledger.charge(now, 1 + (i % 3))
        break
      case 4:
      case 5:
      case 6: {
        if (open.length === 0) break
        const [[decision, charged]] = open.splice(random.integer(0, open.length - 1), 1)
        const actual = random.integer(0, decision.cost - 1)
        await limiter.settle(decision, actual)
        ledger.settle(charged, decision.cost - actual)
        settled++
        break
      }
      default: {
        ledger.see(now)
        const decision = await limiter.consume(key, random.integer(1, Math.max(1, Math.ceil(quota / 2))))
        if (!decision.allowed) break
        allowed++
        open.push([decision, ledger.charge(now, decision.cost, decision.delayMs)])
        ledger.check(now)
      }
    }
    ledger.forgetOld(now)
  }
  await limiter.reset(key)
  return [allowed, settled]
}

function step(clock: ManualClock, { windowMs, algorithm }: Limit, random: Random): void {
  switch (random.integer(0, 9)) {
    case 0:
      clock.advance(random.integer(0, 2 * windowMs))
      break
    case 1:
      clock.advance(windowMs - random.integer(0, 2))
      break
    case 2:
      if (STEPS_BACK[algorithm]) clock.advance(-random.integer(1, random.pick([3, windowMs])))
      break
    case 3:
    case 4:
    case 5:
      clock.advance(random.integer(1, Math.ceil(windowMs / 5)))
  }
}

import { type AlgorithmName, hasBurst, type Limit, parseLimit } from '../../src/limiter/core/limit.js'
import type { Store } from '../../src/limiter/store.js'
import type { ManualClock } from '../../src/testing.js'
import type { Random } from './random.js'
import { capacityOf } from './verdicts.js'

/** A store and the clock that it goes by. */
export interface Bench {
  readonly store: Store
  readonly clock: ManualClock
}

/** What happens next: time passes (or, below 0, runs back), then `cost` is asked for. */
export interface Step {
  readonly afterMs: number
  readonly cost: number
}

/** A key under a limit, on a bench. */
export class Subject {
  constructor(
    readonly bench: Bench,
    readonly key: string,
    readonly limit: Limit,
  ) {}

  async consume(cost: number) {
    return (await this.bench.store.consume([this], cost))[0]
  }

  async peek(cost: number) {
    return (await this.bench.store.peek([this], cost))[0]
  }

  async refund(cost: number) {
    await this.bench.store.refund([this], cost)
  }

  /** The same key under a limit of another quota. */
  under(limit: Limit): Subject {
    return new Subject(this.bench, this.key, limit)
  }

  async live(history: readonly Step[]) {
    for (const { afterMs, cost } of history) {
      this.bench.clock.advance(afterMs)
      await this.consume(cost)
    }
  }
}

/** Any limit that `algorithm` can have: mostly the usual ones, some at the edge of what can be counted exactly. */
export function randomLimit(algorithm: AlgorithmName, random: Random): Limit {
  const window = randomWindow(random)
  const room = Math.floor(Number.MAX_SAFE_INTEGER / window)
  const quota = Math.min(randomUnits(random), room)
  const burst = hasBurst(algorithm) && random.integer(0, 1) === 1 ? Math.min(randomUnits(random), room) : undefined
  return parseLimit({ quota, window, algorithm, burst, name: 'any' })
}

/** The same limit with another quota and burst, and for a bucket another window, so that its counts live on. */
export function randomChange(limit: Limit, random: Random): Limit {
  const { algorithm, windowMs, name } = limit
  if (hasBurst(algorithm) && random.integer(0, 1) === 1) return { ...randomLimit(algorithm, random), name }
  const room = Math.floor(Number.MAX_SAFE_INTEGER / windowMs)
  return parseLimit({ quota: Math.min(randomUnits(random), room), window: windowMs, algorithm, name })
}

export function randomHistory(limit: Limit, random: Random, most: number, mayRunBack = true): Step[] {
  return Array.from({ length: random.integer(0, most) }, () => ({
    afterMs: randomPause(limit, random, mayRunBack),
    cost: randomCost(limit, random),
  }))
}

/** From 0 to a little more than ever fits; mostly what a few of fill a limit. */
export function randomCost(limit: Limit, random: Random): number {
  const most = capacityOf(limit)
  switch (random.integer(0, 5)) {
    case 0:
      return random.integer(0, Math.min(3, most))
    case 1:
      return random.integer(0, most)
    case 2:
      return Math.min(most + random.integer(-1, 1), Number.MAX_SAFE_INTEGER) || 1
    case 3:
      return Math.ceil(most / random.integer(2, 5))
    default:
      return 1
  }
}

export function randomPause({ windowMs, quota }: Limit, random: Random, mayRunBack = true): number {
  switch (random.integer(0, mayRunBack ? 8 : 7)) {
    case 0:
    case 1:
      return 0
    case 2:
      return random.integer(1, 3)
    case 3:
      return Math.max(0, windowMs + random.integer(-2, 2))
    case 4:
      return random.integer(0, 2 * windowMs)
    case 5:
      return 2 * windowMs + random.integer(-1, 1)
    case 8:
      return -random.integer(1, random.pick([2, windowMs, 3 * windowMs]))
    default:
      return random.integer(0, Math.ceil((2 * windowMs) / quota))
  }
}

/** How long anyone may have to wait at most, whatever the clock does. */
export function longestWaitMs(limit: Limit): number {
  switch (limit.algorithm) {
    case 'fixed-window':
    case 'sliding-window':
      return limit.windowMs
    case 'sliding-counter':
      return 2 * limit.windowMs
    default:
      return Number((BigInt(limit.burst) * BigInt(limit.windowMs) + BigInt(limit.quota - 1)) / BigInt(limit.quota))
  }
}

function randomUnits(random: Random): number {
  switch (random.integer(0, 9)) {
    case 0:
      return random.integer(1, 1_000_000_000)
    case 1:
      return random.integer(1, 100_000)
    case 2:
    case 3:
    case 4:
      return random.integer(1, 3)
    default:
      return random.integer(1, 40)
  }
}

function randomWindow(random: Random): number {
  switch (random.integer(0, 9)) {
    case 0:
      return random.integer(1, 3)
    case 1:
    case 2:
    case 3:
      return random.integer(1, 2000)
    case 4:
      return random.integer(1, 1_000_000_000)
    case 5:
      return random.integer(1, 100_000_000_000)
    default:
      return random.pick([1000, 10_000, 60_000, 3_600_000, 86_400_000])
  }
}

import { expect } from '@jest/globals'
import type { Redis } from 'ioredis'
import { ALGORITHM_NAMES, type AlgorithmName, type Limit, parseLimit } from '../../src/core/limit.js'
import { MemoryStore } from '../../src/stores/memory/memory-store.js'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import type { Charge } from '../../src/stores/store.js'
import { ManualClock } from '../../src/testing.js'
import { ofCases } from './cases.js'
import { type Random, randomFrom } from './random.js'
import { START } from './stories.js'
import { expectSameVerdicts } from './verdicts.js'

/** Which limits stand together, and for which part of all operations. */
export const KINDS: ReadonlyArray<readonly [title: string, algorithms: readonly AlgorithmName[], part: number]> = [
  ...ALGORITHM_NAMES.map(name => [name, [name], 0.17] as const),
  ['two windows decided together', ['fixed-window', 'sliding-window'], 0.08],
  ['all five decided together', ALGORITHM_NAMES, 0.07],
]

/** Less than both stores keep an expired key for. */
const MOST_BACK_MS = 900

/**
 * Plays the same random traffic to both stores. Windows are whole seconds to minutes of manual time, far longer than the test's
 * own, and the clock stays behind its latest moment by less than both stores keep an expired key for.
 */
export async function expectAgreement(
  client: Redis,
  algorithms: readonly AlgorithmName[],
  operations: number,
): Promise<void> {
  const random = randomFrom(`${algorithms}`)
  const clock = new ManualClock(START)
  const memory = new MemoryStore({ clock })
  const shared = new RedisStore(client, { clock, prefix: algorithms.join('+') })
  // As many phases, whose limits differ, however few operations are played.
  const rounds = ofCases(40)
  let latest = START
  let done = 0
  let denied = 0
  for (let phase = 0; done < operations; phase++) {
    const limits = randomLimits(algorithms, phase, random)
    const clients = Array.from({ length: random.integer(1, 6) }, () => {
      const key = `key ${random.integer(0, 40)}`
      return limits.map((limit): Charge => ({ key, limit }))
    })
    for (let round = 0; round < rounds; round++) {
      clock.set(Math.max(clock.now() + randomStep(limits[0], random), latest - MOST_BACK_MS))
      latest = Math.max(latest, clock.now())
      const burst = Array.from({ length: random.integer(1, 60) }, () => ({
        charges: random.pick(clients),
        cost: randomCost(limits[0], random),
      }))
      const there = await Promise.all(burst.map(({ charges, cost }) => shared.consume(charges, cost)))
      burst.forEach(({ charges, cost }, i) => {
        const here = memory.consume(charges, cost)
        expectSameVerdicts(there[i], here)
        if (here.some(verdict => !verdict.allowed)) denied++
      })
      await meddle(memory, shared, random.pick(clients), burst[0].cost, random)
      done += burst.length + 1
    }
  }
  expect(denied).toBeGreaterThan(operations / 10)
  expect(denied).toBeLessThan((operations * 9) / 10)
  memory.close()
}

/** Sometimes a key gets another operation than a request. */
async function meddle(
  memory: MemoryStore,
  shared: RedisStore,
  charges: readonly Charge[],
  cost: number,
  random: Random,
): Promise<void> {
  switch (random.integer(0, 11)) {
    case 0:
    case 1:
      memory.refund(charges, cost)
      await shared.refund(charges, cost)
      break
    case 2:
      memory.charge(charges, cost)
      await shared.charge(charges, cost)
      break
    case 3:
      memory.reset(charges)
      await shared.reset(charges)
      break
    case 4: {
      const forMs = random.pick([0, 1, random.integer(1, 100_000)])
      memory.block(charges, forMs)
      await shared.block(charges, forMs)
      break
    }
    default:
      if (random.integer(0, 1) === 0) return
  }
  const [now, next] = await Promise.all([shared.peek(charges, 0), shared.peek(charges, cost)])
  expectSameVerdicts(now, memory.peek(charges, 0))
  expectSameVerdicts(next, memory.peek(charges, cost))
}

/**
 * A name lasts for three phases while its quota changes, so that state lives on under another quota. That of a bucket only grows:
 * under a smaller one it takes longer to refill than the state was kept for, and by the manual clock only one of the stores has
 * forgotten it.
 */
function randomLimits(algorithms: readonly AlgorithmName[], phase: number, random: Random): Limit[] {
  return algorithms.map((algorithm, i) => {
    const window = [30_000, 60_000, 60_007, 3_600_000][Math.floor(phase / 3) % 4]
    const name = `${i}-${Math.floor(phase / 3)}`
    if (!isBucket(algorithm)) return parseLimit({ quota: random.pick([0, 1, 2, 3, 7, 50]), window, algorithm, name })
    const quota = [random.pick([0, 1, 2, 3]), random.integer(3, 10), random.integer(10, 50)][phase % 3]
    const burst = random.integer(0, 1) ? random.integer(1, 20) : undefined
    return parseLimit({ quota, window, algorithm, burst, name })
  })
}

function randomStep({ windowMs, quota }: Limit, random: Random): number {
  switch (random.integer(0, 9)) {
    case 0:
    case 1:
      return 0
    case 2:
      return -random.integer(1, MOST_BACK_MS)
    case 3:
      return random.integer(1, 3)
    case 4:
      return windowMs + random.integer(-2, 2)
    case 5:
      return random.integer(0, 2 * windowMs)
    default:
      return random.integer(0, Math.ceil(windowMs / Math.max(1, quota)))
  }
}

function randomCost({ quota }: Limit, random: Random): number {
  return random.pick([1, 1, 1, 1, 2, 3, 0, random.integer(0, quota + 2)])
}

export function isBucket(algorithm: AlgorithmName): boolean {
  return algorithm === 'token-bucket' || algorithm === 'leaky-bucket'
}

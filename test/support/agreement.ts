import { describe, expect, test } from '@jest/globals'
import { ALGORITHM_NAMES, type AlgorithmName, type Limit, parseLimit } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import type { Charge } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { forCases, ofCases } from './cases.js'
import { withoutSweeps } from './no-sweeps.js'
import { type Random, randomFrom } from './random.js'
import { randomChange, randomHistory, randomLimit } from './scenario.js'
import type { WholeStore } from './store-benches.js'
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

/** ioredis rounds larger integers. */
const READ_EXACTLY = 2 ** 53 - 1024

/** Makes the store that is compared with memory; its keys begin with the prefix. */
type StoreOf = (clock: ManualClock, prefix: string) => WholeStore

/**
 * The store says the same as memory in every field of every verdict, so what random cases show of memory holds for it,
 * too: test/limiter/memory/properties.test.ts.
 */
export function describeAgreement(
  name: string,
  storeOf: StoreOf,
  operations: number,
  /** Whether a state lives for longer than it matters: for a clock that runs back, and for a slower limit. */
  keeps: boolean,
): void {
  describe(`memory and ${name} agree on every field of every verdict`, () => {
    test.each(KINDS)(
      '%s (%p)',
      (_, algorithms, part) => expectAgreement(storeOf, algorithms, ofCases(operations) * part),
      120_000,
    )
  })

  describe(`memory and ${name} agree on limits of any shape${keeps ? ', however far the clock runs back' : ''}`, () => {
    withoutSweeps()
    let stores = 0
    test.each(KINDS)(
      '%s',
      (title, algorithms) =>
        forCases(800, title, random => {
          const clock = new ManualClock(START)
          return expectSameStory(storeOf(clock, `any ${stores++}`), clock, algorithms, random, keeps)
        }),
      60_000,
    )
  })
}

async function expectSameStory(
  shared: WholeStore,
  clock: ManualClock,
  algorithms: readonly AlgorithmName[],
  random: Random,
  keeps: boolean,
): Promise<void> {
  const memory = new MemoryStore({ clock })
  let limits = algorithms.map((algorithm, i) => ({ ...randomLimit(algorithm, random), name: `${i}` }))
  for (const { afterMs, cost } of randomHistory(random.pick(limits), random, 14, keeps)) {
    clock.advance(afterMs)
    const charges = limits.map(limit => ({ key: 'key', limit }))
    const other = Math.min(cost, 1000)
    switch (random.integer(0, 9)) {
      case 0:
        memory.refund(charges, other)
        await shared.refund(charges, other)
        break
      case 1:
        memory.charge(charges, other)
        await shared.charge(charges, other)
        break
      case 2:
        if (keeps) limits = limits.map(limit => randomChange(limit, random))
    }
    const foreseen = memory.peek(charges, cost)
    if (foreseen.some(({ resetAfterMs }) => resetAfterMs > READ_EXACTLY)) break
    expectSameVerdicts(await shared.peek(charges, cost), foreseen)
    expectSameVerdicts(await shared.consume(charges, cost), memory.consume(charges, cost))
    expectSameVerdicts(await shared.consume(charges, 0), memory.consume(charges, 0))
  }
  memory.close()
  await shared.close()
}

/**
 * Plays the same random traffic to both stores. Windows are whole seconds to minutes of manual time, far longer than
 * the test's own, and the clock stays behind its latest moment by less than both stores keep an expired key for.
 */
async function expectAgreement(
  storeOf: StoreOf,
  algorithms: readonly AlgorithmName[],
  operations: number,
): Promise<void> {
  const random = randomFrom(`${algorithms}`)
  const clock = new ManualClock(START)
  const memory = new MemoryStore({ clock })
  const shared = storeOf(clock, algorithms.join('+'))
  // As many phases, whose limits differ, however few operations are played.
  const rounds = ofCases(40)
  let latest = START
  let done = 0
  let denied = 0
  let plans: Limit[][][] = []
  for (let phase = 0; done < operations; phase++) {
    if (phase % 3 === 0) plans = algorithms.map((algorithm, i) => randomPlans(algorithm, `${i}-${phase}`, random))
    const variants = plans.map(plan => plan[phase % 3])
    const keys = Array.from({ length: random.integer(1, 6) }, () => `key ${random.integer(0, 40)}`)
    const chargesOf = (limits: readonly Limit[]): Charge[] => {
      const key = random.pick(keys)
      return limits.map(limit => ({ key, limit }))
    }
    for (let round = 0; round < rounds; round++) {
      // Requests of one turn under different limits are sent apart, so not in their order.
      const limits = variants.map(ones => random.pick(random.integer(0, 9) === 0 ? ones : ones.slice(1)))
      clock.set(Math.max(clock.now() + randomStep(limits[0], random), latest - MOST_BACK_MS))
      latest = Math.max(latest, clock.now())
      const burst = Array.from({ length: random.integer(1, 60) }, () => ({
        charges: chargesOf(limits),
        cost: randomCost(limits[0], random),
      }))
      const there = await Promise.all(burst.map(({ charges, cost }) => shared.consume(charges, cost)))
      burst.forEach(({ charges, cost }, i) => {
        const here = memory.consume(charges, cost)
        expectSameVerdicts(there[i], here)
        if (here.some(verdict => !verdict.allowed)) denied++
      })
      await meddle(memory, shared, chargesOf(variants.map(ones => random.pick(ones.slice(1)))), burst[0].cost, random)
      done += burst.length + 1
    }
  }
  expect(denied).toBeGreaterThan(done / 10)
  expect(denied).toBeLessThan((done * 9) / 10)
  memory.close()
  await shared.close()
}

/** Sometimes a key gets another operation than a request. */
async function meddle(
  memory: MemoryStore,
  shared: WholeStore,
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
 * A name lasts for three phases. In each of them one key is asked for under several limits at a time, so that state
 * lives on under another limit; the first of them is paused. The time that a bucket takes to fill is one in a phase,
 * and only shrinks with the phases: under a slower limit it takes longer to fill than the state was kept for, and by
 * the manual clock only one of the stores has forgotten it.
 */
function randomPlans(algorithm: AlgorithmName, name: string, random: Random): Limit[][] {
  const windows = [30_000, 60_000, 60_007, 3_600_000]
  if (!isBucket(algorithm)) {
    const window = random.pick(windows)
    const limitOf = (quota: number) => parseLimit({ quota, window, algorithm, name })
    return [0, 1, 2].map(() => [0, random.pick([0, 1, 2, 3, 7]), random.pick([1, 2, 3, 50])].map(limitOf))
  }
  const limitOf = (quota: number, window: number, burst: number) =>
    parseLimit({ quota, window, algorithm, burst, name })
  const paces = [0, 1, 2].map(() => [random.integer(1, 50), random.pick(windows), random.integer(1, 20)] as const)
  const fillMs = ([quota, window, burst]: (typeof paces)[number]) => (burst * window) / quota
  paces.sort((a, b) => fillMs(b) - fillMs(a))
  return paces.map(([quota, window, burst]) => [
    limitOf(0, window, burst),
    limitOf(quota, window, burst),
    limitOf(quota * 7, window, burst * 7),
    limitOf(quota * 3, window * 3, burst),
    limitOf(quota * 50, window * 2, burst * 25),
  ])
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

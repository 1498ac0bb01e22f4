import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import type { Decision } from '../../../src/limiter/core/decision.js'
import { ALGORITHM_NAMES, type AlgorithmName } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { isBucket } from '../../support/agreement.js'
import { ofCases } from '../../support/cases.js'
import { eventually } from '../../support/eventually.js'
import { type Random, randomFrom } from '../../support/random.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'
import { expectSame, expectSameVerdicts } from '../../support/verdicts.js'

/** In all. `SPILLWAY_FUZZ=1000000 npm test -- settled-agreement` plays a million. */
const OPERATIONS = Number(process.env.SPILLWAY_FUZZ ?? ofCases(100_000))
const KINDS: ReadonlyArray<readonly [title: string, algorithms: readonly AlgorithmName[]]> = [
  ...ALGORITHM_NAMES.map(name => [name, [name]] as const),
  ['all five decided together', ALGORITHM_NAMES],
]

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.bulkClient()
})

describe('memory and Redis agree on every field of every decision, with settlements, refunds, blocks, plans and clock steps', () => {
  test.each(KINDS)(
    '%s',
    async (title, algorithms) => {
      const random = randomFrom(title)
      let done = 0
      for (let game = 0; done < OPERATIONS / KINDS.length; game++) done += await play(title, algorithms, game, random)
    },
    Math.max(60_000, OPERATIONS),
  )
})

/** The same operation on both. */
interface Pair {
  readonly here: RateLimiter
  readonly there: RateLimiter
}

async function play(title: string, algorithms: readonly AlgorithmName[], game: number, random: Random) {
  const clock = new ManualClock(START)
  const memory = new MemoryStore({ clock })
  const prefix = `${title} ${game}`
  const shared = new RedisStore(client, { clock, prefix })
  const window = random.pick([30_000, 60_007, 3_600_000])
  // Plans of one limit: the name stays, so that counts go on. A bucket fills in the same time under each: under a
  // slower one it would matter for longer than it was kept, and by the manual clock only one of the stores forgets it.
  const plans = [random.integer(1, 5), random.integer(5, 9), random.integer(9, 40)].map((quota, i): Pair => {
    const policy = algorithms.map(algorithm => {
      const limit = { quota, window, algorithm, name: algorithm }
      const times = isBucket(algorithm) ? [1, 3, 7][i] : 1
      return times === 1 ? limit : { ...limit, quota: quota * times, window: window * times, burst: quota }
    })
    const options = { policy, deadline: '30s', denyCache: false }
    return {
      here: new RateLimiter({ ...options, store: memory }),
      there: new RateLimiter({ ...options, store: shared }),
    }
  })
  // Both, so that both have seen the same times.
  await warmUp(plans[0].here)
  await warmUp(plans[0].there)
  const open: Array<readonly [Pair, Decision, Decision]> = []
  let done = 0
  for (let round = 0; round < 60; round++) {
    clock.advance(randomStep(window, random))
    const { here, there } = random.integer(0, 2) === 0 ? random.pick(plans) : plans[Math.floor(round / 20)]
    const changes: Array<Promise<unknown>> = []
    for (let i = random.integer(1, 40); i > 0; i--, done++) {
      const key = `key ${random.integer(0, 3)}`
      const both = (act: (limiter: RateLimiter) => Promise<unknown>) => changes.push(act(here), act(there))
      const cost = random.pick([1, 1, 1, 2, 3, random.integer(0, 12)])
      switch (random.integer(0, 19)) {
        case 0:
        case 1:
          both(limiter => limiter.refund(key, cost))
          break
        case 2:
          both(limiter => limiter.charge(key, cost))
          break
        case 3:
          if (random.integer(0, 3) === 0) both(limiter => limiter.reset(key))
          break
        case 4:
          if (random.integer(0, 3) === 0) {
            const forMs = random.integer(1, window)
            both(limiter => limiter.block(key, forMs))
          } else both(limiter => limiter.unblock(key))
          break
        case 5:
        case 6:
        case 7:
        case 8:
        case 9: {
          if (open.length === 0) break
          const [[by, mine, other]] = open.splice(random.integer(0, open.length - 1), 1)
          const actual = random.integer(0, mine.cost + (random.integer(0, 5) === 0 ? 2 : 0))
          changes.push(by.here.settle(mine, actual), by.there.settle(other, actual))
          break
        }
        default:
          changes.push(
            same(here.consume(key, cost), there.consume(key, cost)).then(([mine, other]) => {
              if (mine.allowed && cost > 0) open.push([{ here, there }, mine, other])
            }),
          )
      }
    }
    await Promise.all(changes)
    // Looks of one turn are asked for apart from what spends.
    await same(here.peek('key 1', 1), there.peek('key 1', 1))
    await acquireOrGiveUp({ here, there }, prefix, random)
    if (open.length > 60) open.splice(0, 20)
  }
  memory.close()
  return done
}

/** A request that does not wait, and one that gives up waiting: the next decisions show what they leave behind. */
async function acquireOrGiveUp({ here, there }: Pair, prefix: string, random: Random): Promise<void> {
  const key = `key ${random.integer(0, 3)}`
  const cost = random.integer(1, 3)
  const [mine, other] = await Promise.all(
    [here, there].map(limiter =>
      limiter.acquire(key, { cost, timeout: 0 }).then(
        ({ verdicts }) => ({ verdicts: verdicts.map(withoutLimit), refused: undefined }),
        (error: Error) => ({ verdicts: [], refused: error.name }),
      ),
    ),
  )
  expectSame(other.refused, mine.refused)
  expectSameVerdicts(other.verdicts, mine.verdicts)
  if (mine.refused !== 'TimeoutError' || random.integer(0, 39) > 0) return
  const leaver = new AbortController()
  const waits = [here, there].map(limiter => limiter.acquire(key, { cost, signal: leaver.signal }))
  const left = Promise.allSettled(waits)
  await there.peek('warm', 0)
  leaver.abort()
  expect((await left).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  // Those who leave are told to Redis together, a moment later; until then the place of one is kept.
  await eventually('nobody waits', async () => (await client.keys(`${prefix}*:meta`)).length === 0)
}

/** Until the server knows a script, a call of it is sent again, and so later than what was asked after it. */
async function warmUp(limiter: RateLimiter): Promise<void> {
  const decision = await limiter.consume('warm')
  await limiter.settle(decision, 0)
  await limiter.charge('warm')
  await limiter.refund('warm')
  await limiter.block('warm', 1)
  await limiter.reset('warm')
}

async function same(here: Promise<Decision>, there: Promise<Decision>): Promise<[Decision, Decision]> {
  const both = await Promise.all([here, there])
  expectSame(both[1].degraded, false)
  expectSameVerdicts(both[1].verdicts.map(withoutLimit), both[0].verdicts.map(withoutLimit))
  return both
}

/** Each limiter has a limit of its own that says the same. */
function withoutLimit<V extends { limit: unknown }>(verdict: V): V {
  return { ...verdict, limit: undefined }
}

function randomStep(windowMs: number, random: Random): number {
  switch (random.integer(0, 9)) {
    case 0:
    case 1:
      return 0
    case 2:
      return -random.integer(1, 900)
    case 3:
      return windowMs + random.integer(-2, 2)
    case 4:
      return random.integer(0, 2 * windowMs)
    default:
      return random.integer(0, Math.ceil(windowMs / 10))
  }
}

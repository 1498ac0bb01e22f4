import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { type Limit, parseLimit } from '../../../src/core/limit.js'
import { MemoryStore } from '../../../src/stores/memory/memory-store.js'
import { RedisStore } from '../../../src/stores/redis/redis-store.js'
import type { Booking, Charge } from '../../../src/stores/store.js'
import { ManualClock } from '../../../src/testing.js'
import { type Random, randomFrom } from '../../support/random.js'
import { RedisServer } from '../../support/redis-server.js'
import { randomCost, randomLimit } from '../../support/scenario.js'
import { START } from '../../support/stories.js'
import { capacityOf, expectSame, expectSameVerdict } from '../../support/verdicts.js'

let redis: RedisServer
let client: Redis
beforeAll(async () => {
  redis = await RedisServer.start()
  client = redis.client()
})
afterAll(() => redis.stop())

const BOOKING = ['sliding-window', 'token-bucket', 'leaky-bucket'] as const

/** The same booking on both stores. */
interface Pair {
  readonly here: Booking
  readonly there: Booking
}

/** What memory and Redis are asked alike. */
class Both {
  readonly memory: MemoryStore
  readonly shared: RedisStore
  readonly charges: readonly Charge[]
  readonly open: Pair[] = []

  constructor(
    readonly clock: ManualClock,
    readonly limit: Limit,
    prefix: string,
  ) {
    this.memory = new MemoryStore({ clock })
    this.shared = new RedisStore(client, { clock, prefix })
    this.charges = [{ key: 'k', limit }]
  }

  async book(cost: number, maxWaitMs: number): Promise<number> {
    const [charge] = this.charges
    const here = this.memory.book(charge, cost, maxWaitMs, () => {})
    const there = await this.shared.book(charge, cost, maxWaitMs, () => {})
    expectSame(there.waitMs, here.waitMs)
    expectSame(there.blockedMs, here.blockedMs)
    const booked = here.waitMs <= maxWaitMs && here.waitMs < Number.POSITIVE_INFINITY && here.blockedMs === 0
    if (booked) this.open.push({ here, there })
    else expectSame(there.verdict.allowed, false)
    return booked ? here.waitMs : Number.POSITIVE_INFINITY
  }

  async cancel(random: Random): Promise<void> {
    if (this.open.length === 0) return
    const [{ here, there }] = this.open.splice(random.integer(0, this.open.length - 1), 1)
    here.cancel()
    await there.cancel()
  }

  async compare(cost: number): Promise<void> {
    for (const units of [0, cost]) {
      const [[there], [here]] = [await this.shared.peek(this.charges, units), this.memory.peek(this.charges, units)]
      expectSameVerdict(there, here)
    }
  }

  async act(random: Random): Promise<void> {
    const { memory, shared, charges, limit } = this
    const cost = randomCost(limit, random)
    switch (random.integer(0, 12)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: {
        const patience = random.pick([0, limit.windowMs, 10 * limit.windowMs, Number.POSITIVE_INFINITY])
        await this.book(Math.max(1, cost), patience)
        break
      }
      case 5:
      case 6:
        await this.cancel(random)
        break
      case 7: {
        const [[there], [here]] = [await shared.consume(charges, cost), memory.consume(charges, cost)]
        expectSameVerdict(there, here)
        break
      }
      case 8:
        memory.refund(charges, cost)
        await shared.refund(charges, cost)
        break
      case 9:
        memory.charge(charges, cost)
        await shared.charge(charges, cost)
        break
      case 10: {
        const forMs = random.pick([0, 0, random.integer(1, limit.windowMs)])
        memory.block(charges, forMs)
        await shared.block(charges, forMs)
        break
      }
      case 11:
        if (random.integer(0, 4) > 0) break
        memory.reset(charges)
        await shared.reset(charges)
        break
      default:
        this.clock.advance(random.pick([0, 1, random.integer(0, limit.windowMs), 2 * limit.windowMs]))
    }
    await this.compare(cost)
  }
}

describe.each(BOOKING)('bookings under %s', algorithm => {
  test('are the same on memory and on Redis, whatever else happens to the key', async () => {
    const random = randomFrom(`bookings ${algorithm}`)
    for (let i = 0; i < 60; i++) {
      const both = new Both(new ManualClock(START), randomLimit(algorithm, random), `${algorithm} ${i}`)
      for (let step = 0; step < 40; step++) {
        try {
          await both.act(random)
        } catch (error) {
          ;(error as Error).message =
            `case ${i}, step ${step}, ${JSON.stringify(both.limit)}: ${(error as Error).message}`
          throw error
        }
      }
      both.memory.close()
    }
  }, 60_000)

  test('are served in the order in which they were made, whatever their costs, and never more than is allowed', async () => {
    const random = randomFrom(`order ${algorithm}`)
    for (let i = 0; i < 40; i++) {
      const limit = parseLimit({ quota: random.integer(1, 20), window: random.integer(10, 5000), algorithm })
      const both = new Both(new ManualClock(START), limit, `order ${algorithm} ${i}`)
      const turns: Array<{ at: number; cost: number }> = []
      for (let n = 0; n < 25; n++) {
        both.clock.advance(random.pick([0, 0, 1, random.integer(0, limit.windowMs)]))
        const cost = random.integer(1, capacityOf(limit))
        turns.push({ at: both.clock.now() + (await both.book(cost, Number.POSITIVE_INFINITY)), cost })
      }
      for (const [n, { at }] of turns.entries()) {
        if (n > 0) expect(at).toBeGreaterThanOrEqual(turns[n - 1].at)
        // What leaves within one window from here on: of a bucket its burst and what it regains.
        const within = turns.slice(n).filter(turn => turn.at < at + limit.windowMs)
        const units = within.reduce((sum, { cost }) => sum + cost, 0)
        const regained = algorithm === 'sliding-window' ? 0 : limit.quota
        expect(units).toBeLessThanOrEqual(limit.burst + regained)
      }
      both.memory.close()
    }
  }, 30_000)
})

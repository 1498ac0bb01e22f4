import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import type { Decision } from '../../../src/core/decision.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { RedisStore } from '../../../src/stores/redis/redis-store.js'
import { ManualClock } from '../../../src/testing.js'
import { forCases } from '../../support/cases.js'
import { RedisServer } from '../../support/redis-server.js'
import { START } from '../../support/stories.js'

let redis: RedisServer
let client: Redis
let prefixes = 0
beforeAll(async () => {
  redis = await RedisServer.start()
  client = redis.client()
  // The server learns this script. Until then a call of it is sent again, and so later than what was asked after it.
  const { limiter } = new Alone('10/1h')
  await limiter.settle(await limiter.consume('other', 1), 2)
})
afterAll(() => redis.stop())

const QUOTA = 50_000

/** A process alone, and a check of every answer to it. */
class Alone {
  readonly clock = new ManualClock(START)
  readonly limiter: RateLimiter
  spent = 0
  /** No answer may say more than the one before, but for what came back since, or will. */
  most = QUOTA
  comesBack = 0
  leased = 0

  /**
   * `rises`: a settlement that meets a purchase in flight may be told twice until the next answer, and `remaining` rises again then: a known defect. It is never told
   * too large.
   */
  constructor(
    policy: string,
    readonly rises = false,
  ) {
    const store = new RedisStore(client, { clock: this.clock, prefix: `alone ${prefixes++}`, leases: { ttl: '1s' } })
    this.limiter = new RateLimiter({ policy, store, deadline: '30s', observer: this })
  }

  leaseExpired({ units }: { units: number }): void {
    this.comesBack += units
  }

  /** Notes decisions in the order in which they were answered. */
  read(decision: Decision): Decision {
    if (decision.source === 'lease') this.leased++
    if (decision.allowed) this.spent += decision.cost
    expect(decision.remaining).toBeLessThanOrEqual(QUOTA - this.spent)
    const rise = Math.max(0, decision.remaining - this.most)
    if (!this.rises) expect(rise).toBeLessThanOrEqual(this.comesBack)
    this.comesBack -= rise
    this.most = decision.remaining
    return decision
  }

  async consume(cost: number): Promise<Decision> {
    const decision = this.limiter.decide('k', cost)
    return this.read(decision instanceof Promise ? await decision : decision)
  }

  async settle(decision: Decision, actual: number): Promise<void> {
    await this.limiter.settle(decision, actual)
    this.spent += actual - decision.cost
    this.comesBack += Math.max(0, decision.cost - actual)
  }
}

describe.each(['fixed-window', 'sliding-counter', 'sliding-window'])(
  'of one process alone under %s, remaining',
  algorithm => {
    test('never rises, and never exceeds what it left of the quota, with two leases at once', async () => {
      const alone = new Alone(`${QUOTA}/1h ${algorithm}`)
      for (let i = 0; i < 400; i++) {
        for (const cost of [1, 2, 3, 1, 2, 3]) await alone.consume(cost)
        // The purchases that were sent meanwhile are answered.
        await new Promise(setImmediate)
        if (i % 40 === 39) alone.clock.advance(100)
      }
      expect(alone.leased).toBeGreaterThan(1000)
    })

    test.each([
      ['acquire', async ({ limiter }: Alone) => limiter.acquire('k', { cost: 500 })],
      ['a cost that no lease may have', async ({ limiter }: Alone) => limiter.consume('k', QUOTA - 600)],
      ['consumeUpTo', async ({ limiter }: Alone) => limiter.consumeUpTo('k', QUOTA - 600)],
    ])('knows what Redis told it later, by %s', async (_, directly) => {
      const alone = new Alone(`${QUOTA}/1h ${algorithm}`)
      for (let i = 0; i < 40; i++) await alone.consume(1)
      expect(alone.leased).toBeGreaterThan(10)
      expect(alone.read(await directly(alone)).allowed).toBe(true)
      for (let i = 0; i < 40; i++) await alone.consume(1)
    })

    test('knows what a settlement added', async () => {
      const alone = new Alone(`${QUOTA}/1h ${algorithm}`)
      let decision = await alone.consume(1)
      for (let i = 0; i < 20; i++) decision = await alone.consume(1)
      expect(decision.source).toBe('lease')
      await alone.settle(decision, 500)
      for (let i = 0; i < 40; i++) await alone.consume(1)
    })

    test('never exceeds what is left of the quota with random costs, settlements and pauses', () =>
      forCases(20, `remaining ${algorithm}`, async random => {
        const alone = new Alone(`${QUOTA}/1h ${algorithm}`, true)
        let last: Decision | undefined
        for (let step = 0; step < 300; step++) {
          const dice = random.integer(0, 99)
          if (dice < 80) last = await alone.consume(random.integer(1, 3))
          else if (dice < 83) alone.read(await alone.limiter.acquire('k', { cost: random.integer(1, 100) }))
          else if (dice < 90 && last?.allowed) {
            await alone.settle(last, random.integer(0, last.cost + 3))
            last = undefined
          } else if (dice < 94) await new Promise(setImmediate)
          else alone.clock.advance(random.pick([1, 50, 300, 1000]))
        }
      }))
  },
)

test('the requests that wait for one purchase are told what is left beside both leases, each less than the one before', async () => {
  const alone = new Alone(`${QUOTA}/1h fixed-window`)
  for (let i = 0; i < 20; i++) await alone.consume(1)
  const all = await Promise.all(Array.from({ length: 50 }, (_, i) => alone.limiter.consume('k', 1 + (i % 3))))
  for (const decision of all) {
    expect(decision.allowed).toBe(true)
    alone.spent += decision.cost
  }
  const told = all.map(({ remaining }) => remaining)
  expect(Math.min(...told)).toBe(QUOTA - alone.spent)
  expect(new Set(told).size).toBe(told.length)
})

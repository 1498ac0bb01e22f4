import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import { type LimitOptions, parsePolicy } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import type { Charge } from '../../../src/limiter/store.js'
import { ManualClock } from '../../../src/testing.js'
import { describeAgreement, KINDS } from '../../support/agreement.js'
import { forCases } from '../../support/cases.js'
import { eventually } from '../../support/eventually.js'
import { withoutSweeps } from '../../support/no-sweeps.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'
import { expectSameVerdicts } from '../../support/verdicts.js'

const redis = testRedis()
let client: Redis | undefined

describeAgreement(
  'Redis',
  (clock, prefix) => {
    client ??= redis.bulkClient()
    return new RedisStore(client, { clock, prefix })
  },
  200_000,
  true,
)

describe('memory and Redis agree on newcomers while somebody waits, however far the clock runs back', () => {
  withoutSweeps()
  let client: Redis
  let first: RateLimiter
  const ending = new AbortController()
  // A busy machine must not pass for an outage, in which a waiter is served by its own process.
  const deadline = '30s'
  // As long as one waits, the process listens, and a waiter that comes later does not ask again when it can hear.
  beforeAll(async () => {
    client = redis.bulkClient()
    const store = new RedisStore(client, { prefix: 'line' })
    first = new RateLimiter({ policy: '1/1h', store, deadline, observer: {} })
    await first.consume('first')
    first.acquire('first', { signal: ending.signal }).catch(() => {})
    await eventually('it listens', async () => (await client.pubsub('CHANNELS', 'line!turns:*')).length > 0)
  })
  afterAll(async () => {
    ending.abort()
    await first.close()
  })

  test.each(KINDS)(
    '%s',
    (title, algorithms) =>
      forCases(40, title, async (random, key) => {
        const clock = new ManualClock(START + random.integer(0, 1000))
        const stores = [new MemoryStore({ clock }), new RedisStore(client, { clock, prefix: 'line' })] as const
        const policy = (more: number): LimitOptions[] =>
          algorithms.map((algorithm, i) => ({ quota: 4 + i + more, window: 30_000, algorithm, name: `${i}` }))
        const small = parsePolicy(policy(0)).map(limit => ({ key, limit }))
        // A newcomer under a higher quota counts in the same states.
        const charges = parsePolicy(policy(random.integer(0, 1) * 5)).map(limit => ({ key, limit }))
        const limiters = stores.map(
          store => new RateLimiter({ policy: policy(0), store, deadline, denyCache: false, observer: {} }),
        )
        const both = async (verb: 'consume' | 'peek', asked: readonly Charge[], cost: number) => {
          const there = await stores[1][verb](asked, cost)
          expectSameVerdicts(there, stores[0][verb](asked, cost))
          return there.every(({ allowed }) => allowed)
        }
        while (await both('consume', small, 1)) clock.advance(random.integer(0, 50))
        const leaving = new AbortController()
        const cost = random.integer(1, 4)
        const waiting = limiters.map(limiter => limiter.acquire(key, { cost, signal: leaving.signal }))
        const left = Promise.allSettled(waiting)
        await eventually('it waits', async () => (await client.keys(`line:{${key}}:*:asks`)).length > 0)
        for (let i = 0; i < 12; i++) {
          const back = random.pick([-1, -10_000, -50_000, -3_600_000, -random.integer(1, 60_000)])
          clock.advance(random.pick([0, 1000, 6000, 6000, random.integer(1, 40_000), back]))
          const asked = random.integer(0, 8)
          await both('peek', charges, asked)
          await both('consume', charges, asked)
          await both('peek', charges, 0)
        }
        leaving.abort()
        expect((await left).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
        await Promise.all(limiters.map(limiter => limiter.close()))
        stores[0].close()
      }),
    60_000,
  )
})

import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { type TrialOptions, trial, until } from '../../bench/leases/trial.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { testRedis } from '../../test/support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

const POLICIES = ['20000/1s', '20000/1s token-bucket', '20000/1s fixed-window', '20000/1s sliding-counter']

/**
 * If one exact limiter would have used less of the requests, the machine stood still too often, or one process could
 * not ask so often: the trial says nothing.
 */
const CARRIED = 0.9

/** Four processes at twice the limit, if nothing else is said. */
async function fleet(policy: string, options: Partial<TrialOptions>) {
  const [outcome] = await trial(redis, client, { policies: [policy], processes: 4, demand: 2, seconds: 5, ...options })
  return outcome
}

test.each(POLICIES)('four processes at twice %s use it, and never more', async policy => {
  const { breach, used, callsPerDecision } = await fleet(policy, {})
  expect(breach.excess).toBeLessThanOrEqual(0)
  expect(used).toBeGreaterThanOrEqual(0.85)
  expect(callsPerDecision).toBeLessThan(0.1)
})

/** Expects `part` of the largest of three limits for which the machine carries the requests. */
async function expectUsed(policy: string, options: Partial<TrialOptions>, part: number) {
  const [, algorithm = 'sliding-window'] = policy.split(' ')
  for (const limit of [20_000, 10_000, 5000]) {
    const { breach, used, possible } = await fleet(`${limit}/1s ${algorithm}`, options)
    expect(breach.excess).toBeLessThanOrEqual(0)
    if (possible < CARRIED) continue
    // Requests that were never made can not be allowed.
    expect(used).toBeGreaterThanOrEqual(part * Math.min(1, possible))
    return
  }
  throw new Error('the machine did not carry 10000 requests a second')
}

test.each(POLICIES)(
  'processes of which one is killed every 200 ms use %s together, or the largest part of it that the machine carries, and never more',
  policy => expectUsed(policy, { killEveryMs: 200 }, 0.85),
  60_000,
)

test.each(POLICIES)(
  '16 processes use %s, or the largest part of it that the machine carries, and never more, when one of them gets 95 %% of the requests',
  policy => expectUsed(policy, { processes: 16, first: 0.95 }, 0.95),
  60_000,
)

test.each(POLICIES.slice(0, 2))(
  'when Redis loses its data, at most one burst and rate x ttl more than %s pass, and decisions continue',
  async policy => {
    const [{ burst }] = parsePolicy(policy)
    const { breach, used } = await fleet(policy, {
      meanwhile: async () => {
        await until(Date.now() + 2000)
        await client.flushall()
      },
    })
    // The ttl is at most a twentieth of the window.
    expect(breach.excess).toBeLessThanOrEqual(burst + burst / 20)
    expect(used).toBeGreaterThan(0.7)
  },
)

import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

/** Longer than a background purchase may take: its ttl of 50 ms, and 50 ms of grace. */
const STANDS_STILL_MS = 250

test('requests that join a purchase in the background wait until their own deadline, although that purchase comes too late to be carried out', async () => {
  const store = new RedisStore(client, { prefix: 'late', leases: true })
  const limiter = new RateLimiter({ policy: '100000/1s fixed-window', store, deadline: '10s' })
  await untilPromised(limiter, decision => decision.then(({ source }) => source === 'lease'))
  await redis.client().call('CLIENT', 'PAUSE', STANDS_STILL_MS, 'ALL')
  // The last quarter of the lease is spent while the next one is bought; then requests wait for that.
  const waiting: Promise<Decision>[] = []
  await untilPromised(limiter, decision => waiting.push(decision) === 50)
  const all = await Promise.all(waiting)
  expect(all.filter(({ degraded, allowed }) => degraded || !allowed)).toEqual([])
  await limiter.close()
  await store.close()
})

/** Asks once in each turn of the event loop, until a decision that was not there at once is the one sought. */
async function untilPromised(
  limiter: RateLimiter,
  isSought: (decision: Promise<Decision>) => Promise<boolean> | boolean,
): Promise<void> {
  for (let sought = false; !sought; ) {
    const decision = limiter.decide('k')
    if (decision instanceof Promise) sought = await isSought(decision)
    await new Promise(resolve => setImmediate(resolve))
  }
}

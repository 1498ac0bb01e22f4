import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../src/testing.js'
import { eventually } from '../support/eventually.js'
import { START } from '../support/stories.js'
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

test('requests that join a purchase spend nothing of it, if it is answered after their deadlines', async () => {
  let held = Promise.resolve()
  const slow: Redis = Object.create(client, {
    evalsha: {
      value: async (...args: Parameters<Redis['evalsha']>) => {
        const answer = await client.evalsha(...args)
        await held
        return answer
      },
    },
  })
  const store = new RedisStore(slow, { clock: new ManualClock(START), prefix: 'joined late', leases: { ttl: '1s' } })
  const limiter = new RateLimiter({ policy: '50000/1h fixed-window', store, deadline: '100ms', observer: {} })
  let spent = 0
  const leased = async () => {
    const decision = await limiter.consume('k')
    spent++
    return decision
  }
  while ((await leased()).source !== 'lease');
  let release = () => {}
  held = new Promise(resolve => {
    release = resolve
  })
  // The rest of the lease, and then some that wait for the next one.
  const waiting: Promise<Decision>[] = []
  while (waiting.length < 5) {
    const decision = limiter.decide('k')
    if (decision instanceof Promise) waiting.push(decision)
    else spent++
    await new Promise(setImmediate)
  }
  for (const { source } of await Promise.all(waiting)) expect(source).toBe('fallback')
  await new Promise(resolve => setTimeout(resolve, 100))
  release()
  await eventually('a lease', async () => {
    const { source, remaining } = await limiter.consume('k')
    if (source !== 'lease') return false
    spent++
    expect(remaining).toBe(50_000 - spent)
    return true
  })
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

import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import type { Decision } from '../../../src/limiter/core/decision.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

/** Limiters of two processes, as far as Redis can tell. */
function twins(prefix: string): [RateLimiter, RateLimiter] {
  const make = () =>
    new RateLimiter({ policy: '2/1h', store: new RedisStore(redis.client(), { prefix }), deadline: '5s' })
  return [make(), make()]
}

const CHANGES: Record<string, (limiter: RateLimiter, key: string, decision: Decision) => Promise<void>> = {
  'a refund': (limiter, key) => limiter.refund(key),
  'a reset': (limiter, key) => limiter.reset(key),
  'a settlement': (limiter, _, decision) => limiter.settle(decision, 1),
  'an unblock': (limiter, key) => limiter.unblock(key),
  'a shorter block': (limiter, key) => limiter.block(key, 300),
}

test.each(Object.keys(CHANGES))('%s in another process counts here within a second', async name => {
  const key = 'käse {1}:"2"\u0000'
  const [one, other] = twins(name)
  const blocks = name.includes('block')
  const decision = await one.consume(key, blocks ? 1 : 2)
  if (blocks) await one.block(key, '1h')
  expect(await other.consume(key)).toMatchObject({ allowed: false, source: 'redis' })
  const deniedAt = performance.now()
  await CHANGES[name](one, key, decision)
  const sources = new Set<string>()
  let allowedAfterMs = 0
  await eventually('it is allowed', async () => {
    const { allowed, source } = await other.consume(key)
    sources.add(source)
    allowedAfterMs = performance.now() - deniedAt
    return allowed
  })
  expect([...sources]).toEqual(['deny-cache', 'redis'])
  expect(allowedAfterMs).toBeLessThan(1500)
})

test('while it lasts, Redis is asked once a second, and nobody listens for a limiter that nobody waits for', async () => {
  const [one, other] = twins('once a second')
  await one.consume('k', 2)
  const sources: string[] = []
  const startedAt = performance.now()
  while (performance.now() - startedAt < 1500) {
    sources.push((await other.consume('k')).source)
    await new Promise(done => setTimeout(done, 5))
  }
  expect(sources.filter(source => source === 'redis')).toHaveLength(2)
  expect(sources.length).toBeGreaterThan(10)
  expect(await admin.pubsub('CHANNELS', 'once a second*')).toEqual([])
  expect(String(await admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub')).trim()).toBe('')
})

test('in the same process a change counts before its promise resolves', async () => {
  const [one] = twins('same process')
  await one.consume('k', 2)
  for (let i = 0; i < 20; i++) {
    const [refused] = await Promise.all([one.consume('k'), one.reset('k'), one.consume('k')])
    expect(refused.allowed).toBe(false)
    expect(await one.consume('k')).toMatchObject({ allowed: true, source: 'redis' })
    expect((await one.consume('k')).allowed).toBe(false)
  }
})

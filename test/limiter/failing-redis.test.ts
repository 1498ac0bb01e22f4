import { describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { eventually } from '../support/eventually.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()

const CHANGES: Record<string, (limiter: RateLimiter, key: string) => Promise<void>> = {
  refund: (limiter, key) => limiter.refund(key),
  charge: (limiter, key) => limiter.charge(key),
  reset: (limiter, key) => limiter.reset(key),
  block: (limiter, key) => limiter.block(key, '1h'),
  unblock: (limiter, key) => limiter.unblock(key),
}

describe('a change is one script call', () => {
  async function scripts(client: Redis): Promise<number> {
    const info = await client.info('commandstats')
    return [...info.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].reduce((sum, [, calls]) => sum + Number(calls), 0)
  }

  test.each([...Object.keys(CHANGES), 'settle'])('%s, which also wakes waiters', async name => {
    const client = redis.client()
    const limiter = new RateLimiter({
      policy: '9/1h',
      store: new RedisStore(client, { prefix: `one ${name}` }),
      deadline: '5s',
    })
    const decisions = await Promise.all(['k', 'other'].map(key => limiter.consume(key, 3)))
    const run = (i: number) =>
      name === 'settle' ? limiter.settle(decisions[i], 1) : CHANGES[name](limiter, decisions[i].key)
    // The server learns the script.
    await run(0)
    const before = await scripts(client)
    await run(1)
    await new Promise(done => setTimeout(done, 30))
    expect((await scripts(client)) - before).toBe(1)
  })

  test.each(['refund', 'reset', 'unblock', 'settle'])('%s wakes a waiter of another process at once', async name => {
    const [here, there] = [redis.client(), redis.client()].map(
      client =>
        new RateLimiter({ policy: '2/1h', store: new RedisStore(client, { prefix: `wakes ${name}` }), deadline: '5s' }),
    )
    const spent = await here.consume('k', 2)
    if (name === 'unblock') {
      await here.reset('k')
      await here.block('k', '1h')
    }
    const waiting = there.acquire('k')
    await eventually('it waits', async () => (await redis.client().keys(`*wakes ${name}*:line`)).length === 1)
    const changedAt = performance.now()
    if (name === 'settle') await here.settle(spent, 1)
    else await CHANGES[name](here, 'k')
    await waiting
    // Without the message it would ask again after 5 s.
    expect(performance.now() - changedAt).toBeLessThan(2500)
  })
})

test('a decision that is asked of the store itself while the first connection is being made is rejected if that fails', async () => {
  const client = redis.client({ port: 1, retryStrategy: () => 60_000 })
  const store = new RedisStore(client)
  const [limit] = new RateLimiter({ policy: '5/1m' }).policy
  await expect(store.consume([{ key: 'k', limit }], 1)).rejects.toThrow('not connected')
})

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { RedisStore } from '../../../src/stores/redis/redis-store.js'
import { eventually } from '../../support/redis-process.js'
import { RedisServer } from '../../support/redis-server.js'

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(() => redis.stop())

/** Limiters of two processes, as far as Redis can tell. */
function twins(prefix: string, shareResets: boolean) {
  return [1, 2].map(
    () =>
      new RateLimiter({
        policy: '2/1h',
        store: new RedisStore(redis.client(), { prefix, shareResets }),
        deadline: '5s',
      }),
  )
}

async function exhausted([one, other]: RateLimiter[], key: string): Promise<void> {
  await one.consume(key, 2)
  expect((await other.consume(key)).source).toBe('redis')
  expect((await other.consume(key)).source).toBe('deny-cache')
}

async function heard(prefix: string): Promise<void> {
  const admin = redis.client()
  await eventually('both listen', async () => {
    const [, listeners] = (await admin.pubsub('NUMSUB', `${prefix}!resets`)) as [string, number]
    return listeners === 2
  })
}

describe('a denial that this process remembers', () => {
  test.each<[string, (limiter: RateLimiter) => Promise<void>]>([
    ['a refund', limiter => limiter.refund('k')],
    ['a reset', limiter => limiter.reset('k')],
  ])('ends at %s in another process, if they tell each other', async (name, giveBack) => {
    const limiters = twins(name, true)
    await heard(name)
    await exhausted(limiters, 'k')
    await giveBack(limiters[0])
    await eventually('it is allowed', async () => (await limiters[1].consume('k')).allowed)
  })

  test('ends at an unblock in another process', async () => {
    const limiters = twins('unblock', true)
    await heard('unblock')
    await limiters[0].block('k', '1h')
    expect((await limiters[1].consume('k')).allowed).toBe(false)
    await limiters[0].unblock('k')
    await eventually('it is allowed', async () => (await limiters[1].consume('k')).allowed)
  })

  test('of a decision that is settled lower, too; keys of any kind', async () => {
    const key = 'käse {1}:"2"\u0000'
    const limiters = twins('settled', true)
    await heard('settled')
    const decision = await limiters[0].consume(key, 2)
    expect((await limiters[1].consume(key)).allowed).toBe(false)
    await limiters[0].settle(decision, 0)
    await eventually('it is allowed', async () => (await limiters[1].consume(key, 2)).allowed)
  })

  test('is asked again after news may have been missed', async () => {
    const limiters = twins('missed', true)
    await heard('missed')
    await exhausted(limiters, 'k')
    await redis.client().call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await eventually('Redis is asked', async () => (await limiters[1].consume('k')).source === 'redis')
  })

  test('stays by default: nobody listens', async () => {
    const limiters = twins('default', false)
    await exhausted(limiters, 'k')
    await limiters[0].reset('k')
    expect(await redis.client().pubsub('CHANNELS', 'default*')).toEqual([])
    expect((await limiters[1].consume('k')).source).toBe('deny-cache')
  })
})

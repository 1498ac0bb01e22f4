import { expect, jest, test } from '@jest/globals'
import { RedisStore } from '../../../src/index.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
const COUNT = 64

async function limiterWithSpy(prefix: string) {
  const client = redis.client()
  const limiter = new RateLimiter({ policy: '1000/1h', store: new RedisStore(client, { prefix }), deadline: '5s' })
  // The server knows the scripts, and the process the server's clock.
  await limiter.settle(await limiter.consume('warm', 2), 1)
  return { limiter, evalsha: jest.spyOn(client, 'evalsha') }
}

test('decisions of a turn share a call also when settlements of other keys come between them', async () => {
  const { limiter, evalsha } = await limiterWithSpy('settled on every response')
  const before = await Promise.all(Array.from({ length: COUNT }, (_, i) => limiter.consume(`k${i}`, 2)))
  evalsha.mockClear()
  const answers = await Promise.all(
    before.flatMap((decision, i) => [limiter.settle(decision, 1), limiter.consume(`other ${i}`, 2)]),
  )
  // One for each settlement, and one or two for all decisions.
  expect(evalsha.mock.calls.length).toBeLessThanOrEqual(COUNT + 2)
  expect(answers.filter(answer => answer?.remaining === 998)).toHaveLength(COUNT)
})

test('a decision that was asked for before a reset is made before it', async () => {
  const { limiter } = await limiterWithSpy('before a reset')
  const [decision] = await Promise.all([limiter.consume('k', 5), limiter.reset('k')])
  expect(decision.remaining).toBe(995)
  expect((await limiter.peek('k', 0)).remaining).toBe(1000)
})

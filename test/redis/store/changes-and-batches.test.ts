import { beforeAll, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import { ALGORITHM_NAMES, type AlgorithmName, parseLimit } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { forCases } from '../../support/cases.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
const COUNT = 64
/** The policies of what is compared with memory, by their algorithms. */
const POLICIES: readonly (readonly AlgorithmName[])[] = [
  ...ALGORITHM_NAMES.map(name => [name]),
  ['fixed-window', 'sliding-window'],
]
const chargesOf = (algorithms: readonly AlgorithmName[], key: string) =>
  algorithms.map(name => ({ key, limit: parseLimit({ quota: 20, window: '1h', algorithm: name, name }) }))
let bulk: Redis
// A script that the server does not know yet is sent once more, after others.
beforeAll(async () => {
  bulk = redis.bulkClient()
  const store = new RedisStore(bulk)
  for (const algorithms of POLICIES) await store.consume(chargesOf(algorithms, 'k'), 1)
  await store.reset(chargesOf(['fixed-window'], 'k'))
})

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

test('decisions of a turn share a call also when a settlement of its key comes after each', async () => {
  const { limiter, evalsha } = await limiterWithSpy('settled and asked again')
  const before = await Promise.all(Array.from({ length: COUNT }, (_, i) => limiter.consume(`k${i}`, 2)))
  evalsha.mockClear()
  const answers = await Promise.all(
    before.flatMap((decision, i) => [limiter.consume(`k${i}`, 2), limiter.settle(decision, 1)]),
  )
  expect(evalsha.mock.calls.length).toBeLessThanOrEqual(COUNT + 2)
  expect(answers.filter(answer => answer?.remaining === 996)).toHaveLength(COUNT)
  for (let i = 0; i < COUNT; i++) expect((await limiter.peek(`k${i}`, 0)).remaining).toBe(997)
})

test('what is asked of a key in one turn is carried out in that order, as in memory', () =>
  forCases(100, 'changes in turn', async (random, prefix) => {
    const clock = new ManualClock(START)
    const algorithms = random.pick(POLICIES)
    const known = ['k0', 'k1', 'k2'].map(key => chargesOf(algorithms, key))
    const redisStore = new RedisStore(bulk, { clock, prefix })
    const memory = new MemoryStore({ clock })
    const steps = Array.from({ length: random.integer(2, 40) }, () => {
      const charges = random.pick(known)
      const verb = random.pick(['consume', 'consume', 'consume', 'refund', 'charge', 'reset', 'block'] as const)
      const number = random.integer(0, 3)
      return (store: RedisStore | MemoryStore) =>
        verb === 'reset' ? store.reset(charges) : store[verb](charges, verb === 'block' ? number * 10_000 : number)
    })
    for (let i = 0; i < 3; i++) {
      const asked = steps.map(step => step(redisStore))
      const expected = steps.map(step => step(memory))
      expect(await Promise.all(asked)).toEqual(expected)
      clock.advance(random.integer(0, 20_000))
    }
    memory.close()
  }))

test('a reset that was asked for after a decision comes after it also when both wait for the first connection', async () => {
  const client = redis.client({ lazyConnect: true })
  const limiter = new RateLimiter({
    policy: '1000/1h',
    store: new RedisStore(client, { prefix: 'first' }),
    deadline: '5s',
  })
  const [decision] = await Promise.all([limiter.consume('k', 5), limiter.reset('k')])
  expect(decision.remaining).toBe(995)
  expect((await limiter.peek('k', 0)).remaining).toBe(1000)
})

test('a decision that was asked for before a reset is made before it', async () => {
  const { limiter } = await limiterWithSpy('before a reset')
  const [decision] = await Promise.all([limiter.consume('k', 5), limiter.reset('k')])
  expect(decision.remaining).toBe(995)
  expect((await limiter.peek('k', 0)).remaining).toBe(1000)
})

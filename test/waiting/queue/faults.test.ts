import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { NotInitializedError, PolicyError, StoreError } from '../../../src/limiter/core/errors.js'
import type { Observer } from '../../../src/limiter/core/observer.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ConsumerTrouble } from '../../../src/waiting/queue/consumer-trouble.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { RedisServer } from '../../support/redis-server.js'
import { testRedis } from '../../support/test-redis.js'
import { warnings } from '../../support/warnings.js'

const redis = testRedis()

const warned = warnings()

let names = 0
const nextName = () => `faulty-${names++}`

function told() {
  const events: Array<{ queue: string; error: Error }> = []
  const observer: Observer = {
    consumerFailed: event => events.push(event),
    storeFailed: () => events.push({ queue: 'a store failed', error: new Error() }),
    breakerOpened: () => events.push({ queue: 'a breaker opened', error: new Error() }),
  }
  return { events, observer }
}

/** What keeps a consumer from fetching, and how it is mended. */
const TROUBLES: ReadonlyArray<
  readonly [
    what: string,
    break_: (admin: Redis, name: string) => Promise<unknown>,
    mend: (admin: Redis, name: string) => Promise<unknown>,
  ]
> = [
  [
    'a permission is missing',
    admin => admin.call('ACL', 'SETUSER', 'default', '-zrem'),
    admin => admin.call('ACL', 'SETUSER', 'default', '+zrem'),
  ],
  [
    'a key holds another type',
    async (admin, name) => {
      await admin.del(`spillway:{${name}}:queue:unacked`)
      await admin.set(`spillway:{${name}}:queue:unacked`, 'x')
    },
    (admin, name) => admin.del(`spillway:{${name}}:queue:unacked`),
  ],
]

describe.each(TROUBLES)('a consumer that cannot fetch because %s', (_, break_, mend) => {
  test('tells the observer of its queue once, and goes on when it can', async () => {
    const [name, admin, { events, observer }] = [nextName(), redis.client(), told()]
    const queue = new DelayQueue(redis.client(), name, { observer })
    await queue.push('x')
    await break_(admin, name)
    const got: unknown[] = []
    const consumer = queue.consume(async ({ payload }) => void got.push(payload))
    await eventually('it is told', async () => events.length > 0)
    await mend(admin, name)
    await eventually('it is delivered', async () => got.length === 1)
    expect(events).toEqual([{ queue: name, error: expect.any(StoreError) }])
    expect(warned.texts).toEqual([])
    await consumer.close()
    await queue.close()
  })

  test('warns once without an observer, and once when it goes on', async () => {
    const [name, admin] = [nextName(), redis.client()]
    const queue = new DelayQueue(redis.client(), name)
    await queue.push('x')
    await break_(admin, name)
    const got: unknown[] = []
    const consumer = queue.consume(async ({ payload }) => void got.push(payload))
    await eventually('it warns', async () => warned.texts.length > 0)
    expect(warned.codes).toEqual(['SPILLWAY_QUEUE'])
    expect(warned.texts[0]).toMatch(
      new RegExp(`^the consumers of DelayQueue "${name}" cannot work .*(NOPERM|WRONGTYPE|can't run).*: until they can`),
    )
    await mend(admin, name)
    await eventually('it is delivered', async () => got.length === 1)
    await eventually('it says so', async () => warned.texts.length > 1)
    expect(warned.codes.slice(1)).toEqual(['SPILLWAY_QUEUE'])
    expect(warned.texts[1]).toMatch(/^the consumers of DelayQueue .* work again, after \d+\.\d s$/)
    await consumer.close()
    await queue.close()
  })
})

test('a consumer that cannot acknowledge tells the observer', async () => {
  const server = await RedisServer.start()
  const admin = server.client()
  const { events, observer } = told()
  const queue = new DelayQueue(server.client(), 'unsettled', { observer })
  await queue.push('x')
  await admin.call('ACL', 'SETUSER', 'default', '-hdel')
  let handled = 0
  const consumer = queue.consume(async () => void handled++)
  await eventually('it is told', async () => events.length > 0)
  expect(events).toMatchObject([{ queue: 'unsettled' }])
  expect(handled).toBe(1)
  await admin.call('ACL', 'SETUSER', 'default', '+hdel')
  await eventually('it is settled', async () => (await queue.stats()).unacked === 0)
  await consumer.close()
  await queue.close()
  await server.stop()
})

test('a consumer that closes while its limiter fails does not say that consumers work again', async () => {
  const queue = new DelayQueue(redis.client(), nextName())
  const limiter = { acquire: () => Promise.reject(new StoreError('it is gone')) }
  const consumers = [1, 2].map(() => queue.consume(async () => {}, { limiter }))
  await queue.push('x')
  await eventually('it warns', async () => warned.texts.length > 0)
  for (const consumer of consumers) await consumer.close()
  expect(warned.texts).toEqual([expect.stringContaining('cannot work (it is gone)')])
  await queue.close()
})

describe('consumers whose Redis is gone', () => {
  test('warn once for each queue, and once when it is back', async () => {
    const server = await RedisServer.start()
    const client = server.client({ maxRetriesPerRequest: null })
    const queues = ['a', 'b'].map(name => new DelayQueue(client, name))
    const consumers = queues.flatMap(queue => [1, 2].map(() => queue.consume(async () => {})))
    await eventually('they sleep', async () => (await server.blockedClients()) === 2)
    await server.kill()
    await eventually('they warn', async () => warned.texts.length === 2)
    await server.restart()
    await eventually('they say so', async () => warned.texts.length === 4, 10_000)
    expect(new Set(warned.codes)).toEqual(new Set(['SPILLWAY_QUEUE']))
    const begun = warned.texts.slice(0, 2).sort()
    for (const [i, name] of ['a', 'b'].entries())
      expect(begun[i]).toMatch(new RegExp(`^the consumers of DelayQueue "${name}" cannot work`))
    await Promise.all(consumers.map(consumer => consumer.close()))
    await Promise.all(queues.map(queue => queue.close()))
    await server.stop()
  }, 30_000)

  test('tell the observer, and no more when they are closed', async () => {
    const server = await RedisServer.start()
    const { events, observer } = told()
    const queue = new DelayQueue(server.client(), 'a', { observer })
    const consumer = queue.consume(async () => {})
    await eventually('it sleeps', async () => (await server.blockedClients()) === 1)
    await server.kill()
    await eventually('it is told', async () => events.length > 0)
    expect(events).toMatchObject([{ queue: 'a' }])
    await consumer.close()
    await queue.close()
    await server.stop()
  })

  test('tell it again each minute, as long as it lasts, and at most once a minute', () => {
    jest.useFakeTimers()
    try {
      const { events, observer } = told()
      const trouble = new ConsumerTrouble('DelayQueue "a"', 'a', observer)
      const fail = (times: number) => {
        for (let i = 0; i < times; i++) trouble.failed('fetch', new StoreError(`failure ${i}`))
      }
      fail(2)
      expect(events).toEqual([])
      fail(1)
      expect(events).toHaveLength(1)
      jest.advanceTimersByTime(59_999)
      fail(5)
      expect(events).toHaveLength(1)
      jest.advanceTimersByTime(1)
      expect(events).toHaveLength(2)
      trouble.works('fetch')
      jest.advanceTimersByTime(30_000)
      fail(3)
      expect(events).toHaveLength(2)
      jest.advanceTimersByTime(30_000)
      expect(events).toHaveLength(3)
      trouble.close()
      jest.advanceTimersByTime(600_000)
      expect(events).toHaveLength(3)
    } finally {
      jest.useRealTimers()
    }
  })
})

describe('a consumer whose limiter fails', () => {
  test('backs off, tells the observer, counts no attempt, and goes on when the limiter works', async () => {
    const server = await RedisServer.start()
    const { events, observer } = told()
    const queue = new DelayQueue<number>(server.client(), 'limited', { observer })
    const limiter = new SharedRateLimiter(server.client(), 'unset')
    await queue.pushMany(Array.from({ length: 20 }, (_, i) => ({ payload: i })))
    const attempts: number[] = []
    const consumer = queue.consume(async ({ attempt }) => void attempts.push(attempt), { limiter, concurrency: 20 })
    await eventually('it is told', async () => events.length > 0)
    const calls = async () =>
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(await server.client().info('commandstats'))?.[1])
    const before = await calls()
    // The subject is what is asked while the limiter fails.
    await sleep(1500)
    expect((await calls()) - before).toBeLessThan(20)
    // It takes one a second, and puts it back.
    await eventually('all are back', async () => (await queue.stats()).ready === 20)
    await limiter.trySetRate({ rate: 100, interval: '1s' })
    await eventually('all are handled', async () => attempts.length === 20)
    expect(attempts.every(attempt => attempt === 1)).toBe(true)
    expect(events).toEqual([{ queue: 'limited', error: expect.any(NotInitializedError) }])
    await consumer.close()
    await Promise.all([queue.close(), limiter.close()])
    await server.stop()
  })

  test('warns without an observer', async () => {
    const name = nextName()
    const queue = new DelayQueue(redis.client(), name)
    const limiter = new SharedRateLimiter(redis.client(), name)
    await limiter.close()
    await queue.push('x')
    const consumer = queue.consume(async () => {}, { limiter })
    await eventually('it warns', async () => warned.texts.length > 0)
    expect(warned.codes).toEqual(['SPILLWAY_QUEUE'])
    expect(warned.texts[0]).toMatch(new RegExp(`^the consumers of DelayQueue "${name}" cannot work .*closed`))
    await consumer.close()
    await queue.close()
  })

  test('warns when the Redis of its limiter is gone, while its own is well', async () => {
    const name = nextName()
    const server = await RedisServer.start()
    const limiter = new SharedRateLimiter(server.client(), name)
    await limiter.trySetRate({ rate: 1, interval: '1s' })
    await server.kill()
    const queue = new DelayQueue(redis.client(), name)
    await queue.push('x')
    const consumer = queue.consume(async () => {}, { limiter })
    // Callers of a shared rate wait five seconds for Redis.
    await eventually('it warns', async () => warned.texts.length > 0, 8000)
    expect(warned.codes).toEqual(['SPILLWAY_QUEUE'])
    expect(warned.texts[0]).toMatch(
      new RegExp(`^the consumers of DelayQueue "${name}" cannot work \\(SharedRateLimiter .*Redis failed`),
    )
    await consumer.close()
    await Promise.all([queue.close(), limiter.close()])
    await server.stop()
  })
})

test.each([
  [
    'a RateLimiter',
    () => new RateLimiter({ policy: '1/1s' }),
    /limiter is a RateLimiter: expected a SharedRateLimiter/,
  ],
  [
    'a Semaphore',
    () => new Semaphore(redis.client(), 's', { permits: 1 }),
    /limiter is a Semaphore: expected a Shared/,
  ],
  ['an object without acquire', () => ({}), /limiter an object \{ {2}\}: expected a SharedRateLimiter/],
  ['null', () => null, /limiter null: expected a SharedRateLimiter/],
])('consume refuses %s as limiter', (_, limiter, words) => {
  const queue = new DelayQueue(redis.client(), nextName())
  const consume = () => queue.consume(async () => {}, { limiter: limiter() as never })
  expect(consume).toThrow(PolicyError)
  expect(consume).toThrow(words)
})

import { describe, expect, test } from '@jest/globals'
import { createClient } from 'redis'
import { SharedPlaces } from '../../src/http/concurrency/shared-places.js'
import { RedisStore } from '../../src/index.js'
import { StoreError } from '../../src/limiter/core/errors.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { LivePolicies } from '../../src/operating/live/live-policies.js'
import { guardRedis } from '../../src/redis/guarded-redis.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { eventually } from '../support/eventually.js'
import { RedisServer } from '../support/redis-server.js'
import { StubStore } from '../support/stub-store.js'
import { testRedis } from '../support/test-redis.js'
import { warnings } from '../support/warnings.js'

const warned = warnings()
const texts = () => warned.textsOf('SPILLWAY_STORE')

const fail = async () => {
  throw new Error('down')
}

describe('a limiter without an observer', () => {
  test.each([
    ['local', 'each process counts alone'],
    ['open', 'every request is allowed'],
    ['closed', 'every request is denied'],
  ] as const)('warns of an outage, and says what answers meanwhile: %s', async (onStoreFailure, meanwhile) => {
    const store = new StubStore()
    const limiter = new RateLimiter({ policy: '100/1m', store, onStoreFailure })
    const allow = store.answer
    store.answer = fail
    for (let i = 0; i < 2; i++) await limiter.consume('k')
    expect(texts()).toEqual([])
    for (let i = 0; i < 40; i++) await limiter.consume('k')
    expect(texts()).toEqual([expect.stringMatching(/^the store StubStore does not answer \(the store failed: down\)/)])
    expect(texts()[0]).toContain(`until it does, ${meanwhile} (onStoreFailure: '${onStoreFailure}')`)
    store.answer = allow
    // The breaker asks the store again.
    await new Promise(resolve => setTimeout(resolve, 250))
    await limiter.consume('k')
    expect(texts().slice(1)).toEqual([expect.stringMatching(/^the store StubStore answers again, 0\.\d s after/)])
    await limiter.close()
  })

  test('shares its warnings with the other limiters of its store', async () => {
    const store = new StubStore()
    store.answer = fail
    const limiters = ['a', 'b', 'c'].map(name => new RateLimiter({ policy: '100/1m', store, name }))
    for (let i = 0; i < 30; i++) for (const limiter of limiters) await limiter.consume('k')
    expect(texts()).toHaveLength(1)
  })
})

test('an observer is called instead, with the name of the limiter', async () => {
  const store = new StubStore()
  store.answer = fail
  const told: string[] = []
  const observer = {
    decided: ({ degraded }: { degraded: boolean }, limiter: string) => told.push(`${limiter} ${degraded}`),
    storeFailed: () => told.push('failed'),
  }
  const limiter = new RateLimiter({ policy: '100/1m', store, name: 'api', observer })
  for (let i = 0; i < 4; i++) await limiter.consume('k')
  expect(told).toEqual(['failed', 'api true', 'failed', 'api true', 'failed', 'api true', 'failed', 'api true'])
  expect(texts()).toEqual([])
})

describe('over Redis', () => {
  const redis = testRedis()

  test('the server is named, without the password, and its return is reported', async () => {
    const client = redis.client({ username: 'default', password: 'secret' })
    const limiter = new RateLimiter({
      policy: '100/1m',
      store: new RedisStore(client),
      deadline: 30,
    })
    await redis.kill()
    while (texts().length === 0) await limiter.consume('k')
    expect(texts()[0]).toContain(`Redis at 127.0.0.1:${redis.port} does not answer`)
    await redis.restart()
    while (texts().length === 1) {
      await limiter.consume('k')
      // The breaker asks again by real time.
      await new Promise(resolve => setTimeout(resolve, 20))
    }
    expect(texts()[1]).toContain(`Redis at 127.0.0.1:${redis.port} answers again`)
    expect(texts().join()).not.toContain('secret')
  })

  test('a node-redis client that was never connected is recognised, and the remedy is named', async () => {
    const client = createClient({ url: redis.url })
    const limiter = new RateLimiter({ policy: '100/1m', store: new RedisStore(client), deadline: '10s' })
    for (let i = 0; i < 3; i++) await limiter.consume('k')
    expect(texts()).toEqual([expect.stringContaining('call await client.connect()')])
    const errors: string[] = []
    const observer = { storeFailed: ({ message }: Error) => errors.push(message) }
    const observed = new RateLimiter({ policy: '100/1m', store: new RedisStore(client), deadline: '10s', observer })
    await observed.consume('k')
    expect(errors).toEqual([expect.stringContaining('call await client.connect()')])
    await expect(new DelayQueue(client, 'q').push(1)).rejects.toThrow('call await client.connect()')
  })

  test('everything that shares a client reports one outage once', async () => {
    const server = await RedisServer.start()
    const client = server.client()
    await client.ping()
    const slow = new RateLimiter({ policy: '100/1m', store: new RedisStore(client), deadline: '10s' })
    const limiter = new RateLimiter({ policy: '100/1m', store: new RedisStore(client, { prefix: 'b' }), deadline: 20 })
    const guarded = guardRedis(client, 20, undefined, { name: 'places', meanwhile: 'each process lets in 5' })
    const places = new SharedPlaces({ client, prefix: 'spillway', name: 'places', permits: 5, leaseMs: 1000, guarded })
    const live = new LivePolicies(client, { defaults: { api: '1/1m' } })
    const enter = async () => (await places.enter('k'))?.leave()
    await limiter.consume('k')
    await slow.consume('k')
    await server.kill()
    for (let i = 0; i < 5; i++) await limiter.consume('k')
    for (let i = 0; i < 5; i++) await enter()
    for (let i = 0; i < 5; i++) await slow.consume('k')
    await expect(live.set('api', '2/1m')).rejects.toThrow(StoreError)
    const name = `Redis at 127.0.0.1:${server.port}`
    expect(texts()).toEqual([expect.stringMatching(new RegExp(`^${name} does not answer`))])
    await server.restart()
    await eventually('it is told', async () => {
      await limiter.consume('k')
      return texts().length > 1
    })
    for (let i = 0; i < 3; i++) await enter()
    await slow.consume('k')
    await live.set('api', '2/1m')
    expect(texts().slice(1)).toEqual([expect.stringMatching(new RegExp(`^${name} answers again`))])
    await Promise.all([live.close(), places.close(), limiter.close(), slow.close()])
    client.disconnect()
    await server.stop()
  })
})

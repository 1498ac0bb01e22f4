import { beforeAll, describe, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { PolicyError, StoreError } from '../../src/limiter/core/errors.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { eventually } from '../support/eventually.js'
import { StubStore } from '../support/stub-store.js'
import { testRedis } from '../support/test-redis.js'
import { warnings } from '../support/warnings.js'

const redis = testRedis()
let port: number
beforeAll(() => {
  port = redis.port
})

const errorOf = (call: Promise<unknown>): Promise<StoreError> =>
  call.then(
    () => {
      throw new Error('it did not reject')
    },
    error => error,
  )

describe('a settlement that was certainly not carried out', () => {
  test('while the breaker is open can be called again: the debt is charged then, and once', async () => {
    const store = new StubStore()
    const allow = store.answer
    const limiter = new RateLimiter({ policy: '10/1m', store, observer: {} })
    const decision = await limiter.consume('k')
    store.answer = async () => {
      throw new Error('down')
    }
    for (let i = 0; i < 40; i++) await limiter.consume('other')
    const error = await errorOf(limiter.settle(decision, 6))
    expect(error).toBeInstanceOf(StoreError)
    expect(error.settled).toBe(false)

    store.answer = allow
    await eventually('the breaker closes', async () => !(await limiter.consume('other')).degraded)
    await limiter.settle(decision, 6)
    await limiter.settle(decision, 6)
    expect(store.calls.filter(call => call.startsWith('charge'))).toEqual(['charge k@10-per-1m 5'])
    await limiter.close()
  })

  test('because the client is not connected can be called again', async () => {
    const client = new Redis(port, { retryStrategy: () => 20 })
    const limiter = new RateLimiter({ policy: '10/1m', store: new RedisStore(client, { prefix: 'cut' }), observer: {} })
    await eventually('Redis decides', async () => (await limiter.consume('warm')).source === 'redis')
    const decision = await limiter.consume('k', 8)
    client.disconnect()
    await eventually('the connection has ended', async () => client.status === 'end')
    expect((await errorOf(limiter.settle(decision, 2))).settled).toBe(false)
    await client.connect()
    await eventually('Redis decides', async () => (await limiter.consume('warm')).source === 'redis')
    await limiter.settle(decision, 2)
    expect((await limiter.peek('k', 0)).remaining).toBe(8)
    client.disconnect()
    await limiter.close()
  })

  test('is told apart from one whose answer did not come, which stays settled', async () => {
    const client = new Redis(port)
    const store = new RedisStore(client, { prefix: 'hung' })
    const limiter = new RateLimiter({ policy: '10/1m', store, deadline: '300ms', observer: {} })
    await eventually('Redis decides', async () => (await limiter.consume('warm')).source === 'redis')
    const decision = await limiter.consume('k', 8)
    redis.pause()
    const error = await errorOf(limiter.settle(decision, 2))
    redis.unpause()
    expect(error).toBeInstanceOf(StoreError)
    expect(error.settled).toBeUndefined()
    await eventually('Redis decides', async () => (await limiter.consume('warm')).source === 'redis')
    const { remaining } = await limiter.peek('k', 0)
    await limiter.settle(decision, 2)
    expect((await limiter.peek('k', 0)).remaining).toBe(remaining)
    client.disconnect()
    await limiter.close()
  })
})

describe('what is no decision of a limiter is refused with what was given', () => {
  test.each<[string, (decision: Decision) => unknown, string]>([
    ['a copy', decision => ({ ...decision }), 'given an object { limit, allowed'],
    ['one from JSON', decision => JSON.parse(JSON.stringify(decision)), 'given an object {'],
    ['an empty object', () => ({}), 'given an object {'],
    ['undefined', () => undefined, 'given undefined'],
    ['null', () => null, 'given null'],
    ['a text', () => 'k', 'given "k"'],
  ])('%s', async (_, given, message) => {
    const limiter = new RateLimiter({ policy: '10/1m' })
    const decision = await limiter.consume('k', 5)
    const settled = limiter.settle(given(decision) as Decision, 2)
    await expect(settled).rejects.toThrow(PolicyError)
    await expect(settled).rejects.toThrow(message)
    expect((await limiter.peek('k', 0)).remaining).toBe(5)
    await limiter.close()
  })

  test('but a denied decision, and one in shadow mode, are', async () => {
    const limiter = new RateLimiter({ policy: '10/1m' })
    await limiter.settle(await limiter.consume('k', 11), 2)
    expect((await limiter.peek('k', 0)).remaining).toBe(10)
    await limiter.close()
    const shadow = new RateLimiter({ policy: '1/1m', shadow: true })
    await shadow.consume('k')
    await shadow.settle(await shadow.consume('k'), 0)
    await shadow.close()
  })
})

describe("a store of one's own without giveBack()", () => {
  const warned = warnings()

  test('keeps the units of a settlement to less, and a warning says so once', async () => {
    const store = new StubStore()
    const limiter = new RateLimiter({ policy: '10/1m', store, observer: {} })
    await limiter.settle(await limiter.consume('k', 5), 2)
    await limiter.settle(await limiter.consume('k', 5), 2)
    expect(store.calls.filter(call => call.startsWith('refund'))).toEqual([])
    expect(warned.codes).toEqual(['SPILLWAY_SETTLE'])
    await limiter.close()
  })

  test('and with it is given the moment at which it was asked, by its clock', async () => {
    class OwnStore extends StubStore {
      readonly clock = { now: () => 1234 }
      giveBack(receipts: readonly { chargedAt: number; cost: number }[], units: number): void {
        this.calls.push(`giveBack ${units} of ${receipts[0].cost} at ${receipts[0].chargedAt}`)
      }
    }
    const store = new OwnStore()
    const limiter = new RateLimiter({ policy: '10/1m', store, observer: {} })
    await limiter.settle(await limiter.consume('k', 5), 2)
    expect(store.calls.at(-1)).toBe('giveBack 3 of 5 at 1234')
    await limiter.close()
  })
})

test('a memory store carries out what it is asked, so nothing is open again', async () => {
  const limiter = new RateLimiter({ policy: '10/1m', store: new MemoryStore() })
  const decision = await limiter.consume('k', 5)
  await limiter.settle(decision, 2)
  await limiter.settle(decision, 0)
  expect((await limiter.peek('k', 0)).remaining).toBe(8)
  await limiter.close()
})

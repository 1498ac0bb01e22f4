import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { Deferral } from '../../../src/http/rate-limit/deferral.js'
import { PolicyError, SpillwayError, StoreError } from '../../../src/limiter/core/errors.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { testRedis } from '../../support/test-redis.js'
import { warnings } from '../../support/warnings.js'

type Push = (payload: unknown, options: { delay: number }) => Promise<string | null>

const warned = warnings()
const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

/** A denial that says to come back in so many ms. */
async function denial(retryAfterMs: number) {
  const clock = new ManualClock()
  const limiter = new RateLimiter({ policy: `1/${retryAfterMs}ms`, store: new MemoryStore({ clock }) })
  await limiter.consume('k')
  return limiter.consume('k')
}

async function pushBy(push: Push, observer?: { storeFailed(error: Error): void }) {
  const deferral = new Deferral<[object, object]>({ queue: { push }, message: () => 1, timeout: 20 })
  return deferral.push(1, await denial(1000), observer, {})
}

describe('a queue that fails', () => {
  const outage = () => Promise.reject(new StoreError('no Redis'))

  test.each([
    ['rejects with StoreError', outage, 'no Redis'],
    ['does not answer', () => new Promise<null>(() => {}), 'did not answer within 20 ms'],
  ])('that %s: the request is refused, and the observer is told', async (_, push, message) => {
    const told: Error[] = []
    expect(await pushBy(push, { storeFailed: error => void told.push(error) })).toBeUndefined()
    expect(told).toEqual([expect.any(StoreError)])
    expect(told[0].message).toContain(message)
    expect(warned.texts).toEqual([])
  })

  test('without an observer a warning says so when it begins and when it ends', async () => {
    let fails = true
    const queue = { push: () => (fails ? outage() : Promise.resolve('id')) }
    const deferral = new Deferral<[object, object]>({ queue, message: () => 1 })
    for (let i = 0; i < 5; i++) expect(await deferral.push(1, await denial(1000), undefined, {})).toBeUndefined()
    fails = false
    expect(await deferral.push(1, await denial(1000), undefined, {})).toMatchObject({ status: 202 })
    expect(warned.textsOf('SPILLWAY_QUEUE')).toEqual([
      'rateLimit: defer: the queue does not answer (no Redis): until it does, requests over the limit are refused',
      expect.stringContaining('rateLimit: defer: the queue answers again'),
    ])
  })

  test('any other error of push is passed on: it is a mistake in the program', async () => {
    await expect(pushBy(() => Promise.reject(new TypeError('no body')))).rejects.toThrow('no body')
    const thrown = () => {
      throw new SpillwayError('closed')
    }
    await expect(pushBy(thrown)).rejects.toThrow('closed')
  })
})

describe('over a DelayQueue', () => {
  test('a message is due when its request could be repeated', async () => {
    const clock = new ManualClock(1_700_000_000_000)
    const queue = new DelayQueue(client, 'deferred', { clock })
    const deferral = new Deferral<[object, object]>({ queue, message: () => 1 })
    const accepted = await deferral.push({ n: 1 }, await denial(7000), undefined, {})
    const { id } = JSON.parse(accepted!.body.text)
    clock.advance(6999)
    expect(await queue.receive()).toEqual([])
    clock.advance(1)
    expect(await queue.receive()).toMatchObject([{ id, payload: { n: 1 } }])
    await queue.close()
  })

  test('its maxSize bounds the messages: a request that finds it full is refused, and nothing is reported', async () => {
    const queue = new DelayQueue(client, 'bounded', { maxSize: 1 })
    const deferral = new Deferral<[object, object]>({ queue, message: () => 1 })
    expect(await deferral.push(1, await denial(1000), undefined, {})).toMatchObject({ status: 202 })
    expect(await deferral.push(2, await denial(1000), undefined, {})).toBeUndefined()
    expect(warned.texts).toEqual([])
    await queue.close()
  })

  test('a payload that cannot be encoded and a closed queue are errors, and no refusals', async () => {
    const queue = new DelayQueue(client, 'mistaken')
    const deferral = new Deferral<[object, object]>({ queue, message: () => 1 })
    await expect(deferral.push({ n: 1n }, await denial(1000), undefined, {})).rejects.toThrow(PolicyError)
    await queue.close()
    await expect(deferral.push(1, await denial(1000), undefined, {})).rejects.toThrow('closed')
  })
})

test('maxPerKey is answered with what bounds the queue', () => {
  const given = { queue: { push: async () => 'id' }, message: () => 1, maxPerKey: 100 }
  expect(() => new Deferral(given)).toThrow(
    'rateLimit: defer: unknown option "maxPerKey": bound the queue, like new DelayQueue(client, "webhooks", ' +
      '{ maxSize: 10_000 })',
  )
})

import { EventEmitter } from 'node:events'
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RateLimiter, RedisStore } from '../../src/index.js'
import { portOf } from '../../src/redis/clients.js'
import { runScript } from '../../src/redis/script.js'
import { forgetSent, semaphoreSet } from '../../src/redis/scripts.js'
import { eventually } from '../support/eventually.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

type Send = (...args: unknown[]) => Promise<unknown>
const BASE = 'spillway:{jobs}:semaphore'
const SENT = `${BASE}:sent:a`
const KEYS = [...['', ':leases', ':facts', ':line', ':asks', ':meta', ':direct'].map(part => `${BASE}${part}`), SENT]

/** Adds permits to a semaphore; what the script answers. */
function addPermits(number: number, floor: number, permits: number): Promise<unknown> {
  const args = [number, floor, '', 0, -1, 'channel:', 'add', permits].map(String)
  return runScript(portOf(client, 'test'), semaphoreSet, KEYS, args)
}

describe('a request acts once', () => {
  beforeEach(async () => {
    await client.flushall()
  })

  test('if a lower number came after it, and both are sent again', async () => {
    expect(await addPermits(6, 5, 10)).toEqual([1, 10])
    expect(await addPermits(5, 5, 1)).toEqual([1, 11])
    expect(await addPermits(6, 5, 10)).toEqual([1, 10])
    expect(await addPermits(5, 5, 1)).toEqual([1, 11])
    expect(await client.hget(BASE, 'permits')).toBe('11')
  })

  test('in whatever order many are sent and sent again', async () => {
    const numbers = Array.from({ length: 40 }, (_, i) => 1 + ((i * 7) % 40))
    const answers = await Promise.all(numbers.map(number => addPermits(number, 1, number)))
    const again = await Promise.all([...numbers].reverse().map(number => addPermits(number, 1, number)))
    expect(again.reverse()).toEqual(answers)
    expect(await client.hget(BASE, 'permits')).toBe('820')
  })

  test('and the answers below the lowest unanswered number are dropped, in whatever order they came', async () => {
    for (const number of [3, 9, 1, 2, 8]) await addPermits(number, 1, 1)
    await addPermits(10, 8, 1)
    for (const number of [8, 9, 10]) await addPermits(number, 8, 1)
    expect(await client.hget(BASE, 'permits')).toBe('6')
    expect(await client.zcard(SENT)).toBe(3)
  })

  test('although what was answered before it is forgotten, and both are sent again', async () => {
    const forget = () => runScript(portOf(client, 'test'), forgetSent, [SENT], ['7'])
    expect(await addPermits(6, 6, 10)).toEqual([1, 10])
    await forget()
    expect(await client.exists(SENT)).toBe(0)
    expect(await addPermits(7, 7, 1)).toEqual([1, 11])
    await forget()
    expect(await addPermits(7, 7, 1)).toEqual([1, 11])
    expect(await client.hget(BASE, 'permits')).toBe('11')
  })
})

test('a decision whose connection was lost does nothing, also if the server that it is sent to again knows no script', async () => {
  const client = redis.client()
  const limiter = new RateLimiter({ policy: '9/1m', store: new RedisStore(client), deadline: '5s', observer: {} })
  // The client shows what it sends: from now on texts are sent.
  for (let i = 0; i < 3; i++) await limiter.consume('warm')
  const [evalsha, evaluate] = [client.evalsha, client.eval].map(send => send.bind(client)) as [Send, Send]
  let lose = () => {}
  const lost = new Promise<void>(resolve => {
    lose = resolve
  })
  Object.assign(client, {
    evalsha: async (...args: unknown[]) => {
      const answer = evalsha(...args)
      await answer
      await lost
      throw new Error('NOSCRIPT No matching script.')
    },
  })
  let text: unknown[] = []
  Object.assign(client, {
    eval: (...args: unknown[]) => {
      text = args
      return evaluate(...args)
    },
  })
  const decided = limiter.consume('k')
  await eventually('it is carried out', async () => (await redis.client().keys('*{k}*')).length > 0)
  client.emit('close')
  lose()
  expect(await decided).toMatchObject({ source: 'fallback' })
  expect(text.length).toBeGreaterThan(0)
  const other = new RateLimiter({ policy: '9/1m', store: new RedisStore(redis.client()), observer: {}, deadline: '5s' })
  expect((await other.peek('k', 0)).remaining).toBe(8)
})

test('a decision that a sentinel of node-redis holds or sends again does nothing once its connection is lost', async () => {
  /** What a sentinel does with a command while it looks for the primary: it calls it again, with the same arguments. */
  class Sentinel extends EventEmitter {
    readonly isOpen = true
    readonly isReady = true
    readonly held: (() => string[])[] = []
    #answers = 0
    getSentinelNode() {}
    async eval() {}
    async evalSha(_: string, { arguments: args }: { arguments: (string | Buffer)[] }): Promise<unknown> {
      // The first one only asks for the time.
      if (this.#answers++ === 0) return [Date.now()]
      this.held.push(() => args.map(String))
      return new Promise(() => {})
    }
  }
  const sentinel = new Sentinel()
  const limiter = new RateLimiter({ policy: '9/1m', store: new RedisStore(sentinel as never), observer: {} })
  const decided = limiter.consume('k')
  await eventually('it is sent', async () => sentinel.held.length === 1)
  const [again] = sentinel.held
  const last = (args: string[]) => Math.max(...args.map(Number).filter(number => number > 1e12))
  expect(last(again())).toBeGreaterThan(Date.now() - 10_000)
  sentinel.emit('client-error', { type: 'REPLICA', error: new Error('lost') })
  expect(last(again())).toBeGreaterThan(Date.now() - 10_000)
  sentinel.emit('client-error', { type: 'MASTER', error: new Error('lost') })
  expect(last(again())).toBe(Number.NEGATIVE_INFINITY)
  expect(await decided).toMatchObject({ source: 'fallback' })
})

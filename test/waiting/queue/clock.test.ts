import { describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { LuaScript } from '../../../src/redis/script.js'
import * as scripts from '../../../src/redis/scripts.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import type { DelayQueueOptions } from '../../../src/waiting/queue/options.js'
import { testRedis } from '../../support/test-redis.js'

const START = 1_700_000_000_000
const HOUR = 3_600_000

const redis = testRedis()

let names = 0
/** A queue whose server's clock can be set. */
function open<T = unknown>(options: DelayQueueOptions<T> = {}, client: Redis = redis.client()) {
  const name = `clock-${names++}`
  const server = { nowMs: START }
  const queue = new DelayQueue<T>(client, name, { clock: { now: () => server.nowMs }, ...options })
  const payloads = async (count = 1000) => (await queue.receive({ count })).map(({ payload }) => payload)
  /** The lifetimes of the queue's keys, but for those of wake-ups and of processes. */
  const lifetimes = async () => {
    const lives: Record<string, number> = {}
    for (const part of ['delayed', 'unacked', 'messages', 'tries', 'ttls', 'clock']) {
      const life = await client.pttl(`spillway:{${name}}:queue:${part}`)
      if (life !== -2) lives[part] = life
    }
    return lives
  }
  return { queue, server, client, name, payloads, lifetimes }
}

describe('when the server’s clock is set back', () => {
  test('due messages stay due, and those pushed later do not overtake them', async () => {
    const { queue, server, payloads } = open<number>()
    await queue.pushMany([1, 2, 3].map(payload => ({ payload })))
    server.nowMs -= 60_000
    expect(await queue.stats()).toMatchObject({ ready: 3, delayed: 0 })
    await queue.push(4)
    expect(await payloads()).toEqual([1, 2, 3, 4])
  })

  test('delays and visibilities last as long as they say', async () => {
    const { queue, server, payloads } = open<string>({ visibility: '10s', backoff: () => 500 })
    await queue.push('before', { delay: '2s' })
    const [taken] = (await queue.push('taken')) ? await queue.receive() : []
    server.nowMs -= HOUR
    await queue.push('after', { delay: '3s' })
    expect(await queue.stats()).toMatchObject({ delayed: 2, nextDueAt: server.nowMs + 2000 })
    server.nowMs += 1999
    expect(await payloads()).toEqual([])
    server.nowMs += 1
    expect(await payloads()).toEqual(['before'])
    server.nowMs += 1000
    expect(await payloads()).toEqual(['after'])
    await taken.nack()
    server.nowMs += 500
    expect(await queue.receive()).toMatchObject([{ payload: 'taken', attempt: 2, dueAt: server.nowMs }])
  })

  test('a message that is to come at a moment comes when the server’s clock shows it', async () => {
    const { queue, server, payloads } = open<string>()
    await queue.push('keeps the queue')
    server.nowMs -= HOUR
    await queue.push('x', { at: server.nowMs + 1000 })
    expect(await payloads()).toEqual(['keeps the queue'])
    server.nowMs += 999
    expect(await payloads()).toEqual([])
    server.nowMs += 1
    expect(await queue.receive()).toMatchObject([{ payload: 'x', dueAt: server.nowMs }])
  })

  test('every script of a queue goes by its clock', () => {
    const ours = Object.values(scripts)
      .filter(script => script instanceof LuaScript)
      .filter(({ name }) => name.startsWith('queue_'))
    const timed = ours.filter(({ source }) => source.includes("'TIME'"))
    expect(timed.map(({ name }) => name)).toContain('queue_reschedule')
    for (const { name, source } of timed) {
      expect([name, source.split("'TIME'").length - 1]).toEqual([name, 1])
      expect([name, source.includes('local function queues_clock(')]).toEqual([name, true])
    }
  })

  test('an empty queue goes by the new time', async () => {
    const { queue, server, client, name, payloads } = open<number>()
    await queue.push(1)
    await (await queue.receive())[0].ack()
    server.nowMs -= HOUR
    await queue.push(2, { delay: 1000 })
    expect(await queue.stats()).toMatchObject({ nextDueAt: server.nowMs + 1000 })
    server.nowMs += 1000
    expect(await payloads()).toEqual([2])
    await queue.clear()
    expect(await client.exists(`spillway:{${name}}:queue:clock`)).toBe(0)
  })
})

describe('a message whose ttl has ended', () => {
  test('goes at the next delivery, and its queue leaves nothing behind', async () => {
    const { queue, server, payloads, lifetimes } = open()
    await queue.pushMany([1, 2].map(n => ({ payload: n, options: { ttl: `${n}s` as const } })))
    expect(new Set(Object.values(await lifetimes()))).toEqual(new Set([-1]))
    server.nowMs += 1000
    expect(await queue.stats()).toMatchObject({ ready: 2 })
    expect(await payloads(1)).toEqual([2])
    expect(await queue.stats()).toMatchObject({ ready: 0, unacked: 1 })
    server.nowMs += HOUR
    expect(await payloads()).toEqual([])
    expect(await lifetimes()).toEqual({})
  })

  test('goes when the queue is full, and a push with its id replaces it', async () => {
    const { queue, server, client, name } = open<number>({ maxSize: 3 })
    await queue.pushMany([1, 2, 3].map(payload => ({ payload, options: { id: `${payload}`, delay: '1h', ttl: 1000 } })))
    expect(await queue.push(4)).toBeNull()
    server.nowMs += 1000
    expect(await queue.push(4, { id: '1' })).toBe('1')
    expect(await client.hlen(`spillway:{${name}}:queue:messages`)).toBe(1)
    expect(await client.zcard(`spillway:{${name}}:queue:ttls`)).toBe(0)
  })
})

describe('a fetch', () => {
  /** A client that notes how many bytes each answer holds, and of how many messages. */
  function measured(client: Redis) {
    const answers: Array<[messages: number, bytes: number]> = []
    const proxy = new Proxy(client, {
      get(target, property) {
        const value = Reflect.get(target, property)
        if (typeof value !== 'function') return value
        if (property !== 'evalsha' && property !== 'eval') return value.bind(target)
        return async (...args: unknown[]) => {
          const reply = await value.apply(target, args)
          const rows = Array.isArray(reply) && Array.isArray(reply[4]) ? (reply[4] as unknown[]) : []
          if (rows.length > 0)
            answers.push([rows.length / 4, rows.reduce<number>((sum, row) => sum + String(row).length, 0)])
          return reply
        }
      },
    })
    return { proxy, answers }
  }

  test('brings about a megabyte at most, and a larger message alone', async () => {
    const { proxy, answers } = measured(redis.client())
    const { queue, payloads } = open<string>({}, proxy)
    const sizes = [1, 300_000, 300_000, 300_000, 300_000, 2_000_000, 10, 999_000, 10, 10, 600_000, 600_000]
    for (const size of sizes) await queue.push('x'.repeat(size))
    expect((await payloads()).map(payload => payload.length)).toEqual(sizes)
    expect(answers.map(([messages]) => messages)).toEqual([4, 1, 1, 4, 1, 1])
    for (const [messages, bytes] of answers) expect(messages === 1 || bytes < 1_001_000).toBe(true)
  })

  test('of many small messages brings a hundred', async () => {
    const { proxy, answers } = measured(redis.client())
    const { queue, payloads } = open<number>({}, proxy)
    await queue.pushMany(Array.from({ length: 250 }, (_, i) => ({ payload: i })))
    expect(await payloads()).toEqual(Array.from({ length: 250 }, (_, i) => i))
    expect(answers.map(([messages]) => messages)).toEqual([100, 100, 50])
  })
})

import { describe, expect, test } from '@jest/globals'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import type { Observer } from '../../../src/limiter/core/observer.js'
import { ManualClock } from '../../../src/testing.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import type { DelayQueueOptions } from '../../../src/waiting/queue/options.js'
import { testRedis } from '../../support/test-redis.js'

const START = 1_700_000_000_000

const redis = testRedis()

let names = 0
function open(options: DelayQueueOptions<unknown> = {}) {
  const [name, clock, client] = [`looked-at-${names++}`, new ManualClock(START), redis.client()]
  const queue = new DelayQueue<unknown>(client, name, { clock, visibility: 1000, maxAttempts: 2, ...options })
  /** Everything that the queue has in Redis, but for what was sent lately. */
  const stored = async () => {
    const hash = async (part: string) => Object.entries(await client.hgetall(`spillway:{${name}}:queue:${part}`)).sort()
    const sorted = (part: string) => client.zrange(`spillway:{${name}}:queue:${part}`, '0', '-1', 'WITHSCORES')
    const clockText = await client.getBuffer(`spillway:{${name}}:queue:clock`)
    return [
      await Promise.all(['messages', 'tries', 'graves'].map(hash)),
      await Promise.all(['delayed', 'unacked', 'ttls', 'dead', 'wake'].map(sorted)),
      clockText?.toString('hex'),
    ]
  }
  return { queue, clock, client, name, stored }
}

describe('inspect', () => {
  test('lists messages of every state, with what is known of them', async () => {
    const { queue, clock } = open()
    await queue.push({ n: 1 }, { id: 'dead' })
    await (await queue.receive())[0].reject('no such account')
    await queue.push('taken', { id: 'taken' })
    await queue.receive()
    await queue.push('low', { id: 'low', headers: { trace: 'x' } })
    await queue.push('high', { id: 'high', priority: 9 })
    await queue.push('later', { id: 'later', delay: 500 })
    clock.advance(100)
    expect(await queue.inspect()).toEqual({
      ready: 2,
      delayed: 1,
      unacked: 1,
      dead: 1,
      overdueMs: 100,
      nextDueAt: START + 500,
      paused: false,
      messages: {
        items: [
          { id: 'high', state: 'ready', dueAt: START, attempt: 0, payload: '"high"' },
          { id: 'low', state: 'ready', dueAt: START, attempt: 0, payload: '"low"' },
          { id: 'later', state: 'delayed', dueAt: START + 500, attempt: 0, payload: '"later"' },
          { id: 'taken', state: 'unacked', dueAt: START + 1000, attempt: 1, payload: '"taken"' },
          { id: 'dead', state: 'dead', dueAt: START, attempt: 1, payload: '{"n":1}', reason: 'no such account' },
        ],
        more: 0,
      },
    })
    await queue.pause()
    expect(await queue.inspect({ limit: 2 })).toMatchObject({ paused: true, messages: { items: [{}, {}], more: 3 } })
    const unacked = await queue.inspect({ state: 'unacked', limit: 0 })
    expect(unacked.messages).toEqual({ items: [], more: 0 })
    for (const id of ['dead', 'taken', 'low', 'high', 'later']) {
      const { items, more } = (await queue.inspect({ id })).messages
      expect([items.map(item => item.id), more]).toEqual([[id], 0])
    }
    expect((await queue.inspect({ id: 'low', state: 'dead' })).messages.items).toEqual([])
    expect((await queue.inspect({ id: 'nobody' })).messages.items).toEqual([])
    expect((await queue.inspect({ state: 'delayed' })).messages.items.map(({ id }) => id)).toEqual(['later'])
  })

  test('neither changes anything nor costs more for large messages, and stats changes nothing either', async () => {
    const { queue, clock, stored } = open()
    const large = 'é'.repeat(200_000)
    await queue.pushMany(Array.from({ length: 20 }, () => ({ payload: large, options: { ttl: 5000 } })))
    await queue.receive({ count: 3 })
    // Their visibility ends, and the ttl of the others.
    clock.advance(10_000)
    const before = await stored()
    const { ready, unacked, messages } = await queue.inspect({ limit: 1000 })
    expect([ready, unacked, messages.items.length + messages.more]).toEqual([20, 0, 20])
    expect(messages.items.length).toBeGreaterThanOrEqual(1)
    for (const { payload } of messages.items) expect([payload.length, payload.at(-1)]).toEqual([512, 'é'])
    expect(await queue.stats()).toMatchObject({ ready: 20, unacked: 0, dead: 0 })
    expect(await stored()).toEqual(before)
  })

  test.each([
    ['a character of four bytes', '😀'.repeat(300), '😀'.repeat(256)],
    ['after one byte', `x${'😀'.repeat(300)}`, `x${'😀'.repeat(255)}`],
    ['after two bytes of three', `xy${'€'.repeat(400)}`, `xy${'€'.repeat(340)}`],
    ['what ends with the sign for an unreadable character', 'x\uFFFD', 'x\uFFFD'],
  ])('cuts no character in two, and leaves out none: %s', async (_, payload, shown) => {
    const { queue } = open({ codec: { encode: String, decode: text => text } })
    await queue.push(payload)
    expect((await queue.inspect()).messages.items[0].payload).toBe(shown)
  })

  test.each([
    [{ limit: -1 }, /inspect: limit -1/],
    [{ limit: 1001 }, /inspect: limit 1001/],
    [{ state: 'gone' }, /inspect: state "gone": expected one of ready, delayed, unacked, dead/],
    [{ id: '' }, /inspect: id ""/],
    [{ most: 3 }, /inspect: .*most/],
  ])('refuses %j', async (options, words) => {
    const { queue } = open()
    await expect(queue.inspect(options as never)).rejects.toThrow(PolicyError)
    await expect(queue.inspect(options as never)).rejects.toThrow(words)
  })
})

describe('a message whose last visibility has ended', () => {
  test('becomes a dead letter at the next fetch, which tells the observer; looks tell nobody', async () => {
    const outcomes: string[] = []
    const observer: Observer = { settledDelivery: ({ outcome }) => outcomes.push(outcome) }
    const { queue, clock } = open({ observer, maxAttempts: 1 })
    await queue.push('x')
    await queue.receive()
    clock.advance(1000)
    expect(await queue.stats()).toMatchObject({ ready: 1, unacked: 0, dead: 0 })
    expect(outcomes).toEqual([])
    expect(await queue.receive()).toEqual([])
    expect(await queue.stats()).toMatchObject({ ready: 0, dead: 1 })
    expect(outcomes).toEqual(['dead'])
  })
})

describe('dead letters', () => {
  const kill = async (queue: DelayQueue<unknown>, ids: readonly string[]) => {
    await queue.pushMany(ids.map(id => ({ payload: id, options: { id } })))
    for (const delivery of await queue.receive({ count: ids.length })) await delivery.reject('no')
  }

  test('are discarded for good: those that are named, or all', async () => {
    const { queue, client, name } = open()
    const ids = Array.from({ length: 250 }, (_, i) => `letter-${i}`)
    await kill(queue, ids)
    expect(await queue.discard({ ids: ['letter-3', 'nobody', 'letter-7'] })).toBe(2)
    expect((await queue.dead({ limit: 1000 })).map(({ id }) => id)).not.toContain('letter-3')
    expect(await queue.discard({ ids: [] })).toBe(0)
    expect(await queue.discard()).toBe(248)
    expect(await queue.discard()).toBe(0)
    expect(await queue.redrive()).toBe(0)
    expect(await client.exists(`spillway:{${name}}:queue:dead`, `spillway:{${name}}:queue:graves`)).toBe(0)
    await expect(queue.discard({ id: 'x' } as never)).rejects.toThrow(/discard: .*id/)
  })

  test('are kept for deadTtl: then they are neither counted, listed nor redriven, and a fetch removes them', async () => {
    const { queue, clock, client, name } = open({ deadTtl: '1h' })
    await kill(queue, ['old'])
    clock.advance(3_599_999)
    await kill(queue, ['young'])
    expect((await queue.dead()).map(({ id }) => id)).toEqual(['old', 'young'])
    clock.advance(1)
    expect(await queue.stats()).toMatchObject({ dead: 1 })
    expect((await queue.dead()).map(({ id }) => id)).toEqual(['young'])
    expect((await queue.inspect()).messages.items.map(({ id }) => id)).toEqual(['young'])
    expect((await queue.inspect({ id: 'old' })).messages.items).toEqual([])
    expect(await queue.redrive({ ids: ['old'] })).toBe(0)
    await queue.receive()
    expect(await client.hkeys(`spillway:{${name}}:queue:graves`)).toEqual(['young'])
    expect(await queue.redrive()).toBe(1)
    await kill(queue, ['last'])
    for (const part of ['dead', 'graves']) {
      const life = await client.pttl(`spillway:{${name}}:queue:${part}`)
      expect(life).toBeGreaterThan(3_500_000)
      expect(life).toBeLessThanOrEqual(3_600_000)
    }
  })

  test('are kept for good by default', async () => {
    const { queue, clock, client, name } = open()
    await kill(queue, ['a'])
    clock.advance(400 * 86_400_000)
    await queue.receive()
    expect(await queue.stats()).toMatchObject({ dead: 1 })
    expect(await client.pttl(`spillway:{${name}}:queue:graves`)).toBe(-1)
    expect(() => open({ deadTtl: 0 as never })).toThrow(/deadTtl/)
  })
})

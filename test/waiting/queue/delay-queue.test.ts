import { describe, expect, test } from '@jest/globals'
import { PolicyError, SpillwayError, StaleDeliveryError, StoreError } from '../../../src/limiter/core/errors.js'
import { ManualClock } from '../../../src/testing.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import type { DelayQueueOptions, PushOptions } from '../../../src/waiting/queue/options.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

const START = 1_700_000_000_000

const redis = testRedis()

let names = 0
/** A queue of its own whose time stands still. */
function open<T = unknown>(options: DelayQueueOptions<T> = {}) {
  const clock = new ManualClock(START)
  const name = `test-${names++}`
  const client = redis.client()
  const queue = new DelayQueue<T>(client, name, { clock, ...options })
  const payloads = async (count = 1000) => (await queue.receive({ count })).map(({ payload }) => payload)
  return { queue, clock, name, client, payloads }
}

const circle = {}
test.each([
  ['a bigint', () => 1n, /cannot encode the payload: TypeError: Do not know how to serialize a BigInt$/],
  [
    'an object that contains itself',
    () => Object.assign(circle, { circle }),
    /cannot encode the payload: TypeError: Converting circular/,
  ],
])('push refuses %s, which JSON cannot encode, and nothing is queued', async (_, payload, words) => {
  const { queue } = open<unknown>()
  const pushed = queue.push(payload())
  await expect(pushed).rejects.toThrow(PolicyError)
  await expect(pushed).rejects.toThrow(words)
  expect(await queue.stats()).toMatchObject({ ready: 0, delayed: 0 })
})

test('receive names its option wait in the error of a wrong wait', async () => {
  const { queue } = open<unknown>()
  await expect(queue.receive({ wait: 'x' })).rejects.toThrow(/receive: wait: duration "x": expected 0, whole/)
  expect(await queue.receive({ wait: -5 })).toEqual([])
})

describe('a message', () => {
  test('is delivered from the moment it is due, not before, and is gone once acknowledged', async () => {
    const { queue, clock } = open()
    const id = await queue.push({ to: 'ada' }, { delay: '5s', headers: { trace: 'a1' } })
    clock.advance(4999)
    expect(await queue.receive()).toEqual([])
    clock.advance(1)
    const [delivery] = await queue.receive()
    expect(delivery).toMatchObject({ id, payload: { to: 'ada' }, headers: { trace: 'a1' }, attempt: 1 })
    expect(delivery.dueAt).toBe(START + 5000)
    expect(await queue.stats()).toEqual({ ready: 0, delayed: 0, unacked: 1, dead: 0, nextDueAt: null })
    await delivery.ack()
    expect(await queue.stats()).toEqual({ ready: 0, delayed: 0, unacked: 0, dead: 0, nextDueAt: null })
  })

  test('may be due at a moment; a past moment means now', async () => {
    const { queue, clock } = open()
    await queue.push('later', { at: new Date(START + 10) })
    await queue.push('now', { at: START - 10_000 })
    expect((await queue.receive({ count: 9 })).map(({ payload, dueAt }) => [payload, dueAt])).toEqual([['now', START]])
    clock.advance(10)
    expect((await queue.receive({ count: 9 })).map(({ payload, dueAt }) => [payload, dueAt])).toEqual([
      ['later', START + 10],
    ])
  })

  test('carries any JSON, nothing at all, every character, and a megabyte', async () => {
    const { queue, payloads } = open()
    const sent = [undefined, null, 0, '', '\n', { a: [1, { b: '☃ 😀 \u0000 {}' }] }, 'x'.repeat(1_000_000), '\ud800']
    for (const payload of sent) await queue.push(payload)
    expect(await payloads()).toEqual(sent)
  })

  test('may be any text with a custom codec', async () => {
    const codec = { encode: (n: number) => `n=${n}`, decode: (text: string) => Number(text.slice(2)) }
    const { queue, payloads } = open<number>({ codec })
    await queue.push(7)
    expect(await payloads()).toEqual([7])
  })

  test('that cannot be decoded is a dead letter, and delays no other message', async () => {
    const { queue, name, payloads } = open()
    await queue.push('fine')
    const codec = { encode: (text: string) => text, decode: (text: string) => text }
    await new DelayQueue<string>(redis.client(), name, { clock: new ManualClock(START - 1), codec }).push('{')
    expect(await payloads()).toEqual(['fine'])
    await eventually('it is buried', async () => (await queue.stats()).dead === 1)
    expect(await queue.dead()).toMatchObject([{ payload: '{', reason: expect.stringMatching('cannot be decoded') }])
  })
})

describe('the order', () => {
  test('is by due moment, then by push, across pushes and batches', async () => {
    const { queue, clock, payloads } = open<number>()
    await queue.push(9, { delay: 3 })
    for (let i = 0; i < 5; i++) await queue.push(i, { delay: 2 })
    await queue.pushMany([5, 6, 7].map(payload => ({ payload, options: { delay: 2 } })))
    await queue.push(-1, { delay: 1 })
    clock.advance(10)
    expect(await payloads()).toEqual([-1, 0, 1, 2, 3, 4, 5, 6, 7, 9])
  })

  test('is kept among 5000 messages that are due in the same millisecond', async () => {
    const { queue, clock } = open<number>()
    const all = Array.from({ length: 5000 }, (_, i) => i)
    await queue.pushMany(all.map(payload => ({ payload, options: { delay: 100 } })))
    clock.advance(100)
    const got: number[] = []
    while (got.length < 5000) got.push(...(await queue.receive({ count: 1000 })).map(({ payload }) => payload))
    expect(got).toEqual(all)
  })

  test('of ready messages is by priority first; a priority makes no message due', async () => {
    const { queue, clock, payloads } = open<string>()
    const push = (payload: string, options: PushOptions) => queue.push(payload, options)
    await push('low, early', { delay: 1 })
    await push('high, late', { delay: 30, priority: 9 })
    await push('middle, later', { delay: 20, priority: 5 })
    await push('middle, early', { delay: 10, priority: 5 })
    await push('high, never', { delay: '1d', priority: 9 })
    await push('low, late', { delay: 5 })
    clock.advance(5)
    expect(await payloads(1)).toEqual(['low, early'])
    clock.advance(100)
    expect(await payloads()).toEqual(['high, late', 'middle, early', 'middle, later', 'low, late'])
    expect(await queue.stats()).toMatchObject({ delayed: 1, nextDueAt: START + 86_400_000 })
  })
})

describe('a delivery', () => {
  test('that is not acknowledged in time is repeated as the next attempt; the old delivery is stale', async () => {
    const { queue, clock } = open({ visibility: '10s' })
    await queue.push('work')
    const [first] = await queue.receive()
    clock.advance(9999)
    expect(await queue.receive()).toEqual([])
    clock.advance(1)
    expect(await queue.stats()).toMatchObject({ ready: 1, unacked: 0 })
    await expect(first.ack()).rejects.toThrow(StaleDeliveryError)
    const [second] = await queue.receive()
    expect(second).toMatchObject({ id: first.id, attempt: 2, dueAt: START + 10_000 })
    for (const settle of [() => first.ack(), () => first.nack(), () => first.reject(), () => first.extend()]) {
      await expect(settle()).rejects.toThrow(StaleDeliveryError)
    }
    expect(await queue.stats()).toMatchObject({ ready: 0, delayed: 0, unacked: 1, dead: 0 })
    await second.ack()
    await expect(second.ack()).rejects.toThrow(StaleDeliveryError)
  })

  test('may have another visibility than the queue, and may be extended', async () => {
    const { queue, clock } = open()
    await queue.push('work')
    const [delivery] = await queue.receive({ visibility: 100 })
    clock.advance(99)
    await delivery.extend()
    clock.advance(99)
    await delivery.extend('1m')
    clock.advance(59_999)
    expect(await queue.receive()).toEqual([])
    await delivery.ack()
  })

  test('that is nacked comes again after the delay given, else after the backoff', async () => {
    const { queue, clock } = open({ backoff: { type: 'exponential', delay: 100, max: 300 } })
    await queue.push('work')
    for (const waits of [100, 200, 300, 300]) {
      const [delivery] = await queue.receive()
      await delivery.nack()
      await expect(delivery.ack()).rejects.toThrow(StaleDeliveryError)
      clock.advance(waits - 1)
      expect(await queue.receive()).toEqual([])
      clock.advance(1)
    }
    const [delivery] = await queue.receive()
    expect(delivery.attempt).toBe(5)
    await delivery.nack({ delay: 0 })
    expect((await queue.receive())[0]).toMatchObject({ attempt: 6, dueAt: START + 900 })
  })

  test('keeps its attempts when another message is cancelled or rescheduled', async () => {
    const { queue } = open()
    await queue.push('work', { id: 'a' })
    await (await queue.receive())[0].nack({ delay: '1h' })
    expect(await queue.reschedule('a', 0)).toBe(true)
    expect((await queue.receive())[0]).toMatchObject({ id: 'a', attempt: 2 })
  })

  test('is put back as never taken when receive is aborted meanwhile', async () => {
    const { queue } = open()
    await queue.push('work')
    const why = new Error('changed my mind')
    await expect(queue.receive({ signal: AbortSignal.abort(why) })).rejects.toBe(why)
    const aborted = new AbortController()
    const receiving = queue.receive({ signal: aborted.signal })
    setImmediate(() => aborted.abort(why))
    await expect(receiving).rejects.toBe(why)
    await eventually('it is back', async () => (await queue.stats()).ready === 1)
    expect((await queue.receive())[0]).toMatchObject({ attempt: 1, dueAt: START })
  })
})

describe('dead letters', () => {
  test('are messages that failed at every attempt, including crashes, or were rejected; each has a reason', async () => {
    const { queue, clock } = open<string>({ maxAttempts: 2, visibility: '1s' })
    await queue.push('fails', { id: 'fails' })
    await queue.push('crashes', { id: 'crashes', maxAttempts: 1 })
    await queue.push('hopeless', { id: 'hopeless' })
    const [fails, , hopeless] = await queue.receive({ count: 3 })
    await fails.nack({ delay: 0 })
    await hopeless.reject('bad address')
    clock.advance(1)
    const [again] = await queue.receive()
    await again.nack({ error: new TypeError('no such file') })
    clock.advance(1000)
    expect(await queue.receive()).toEqual([])
    expect(await queue.stats()).toEqual({ ready: 0, delayed: 0, unacked: 0, dead: 3, nextDueAt: null })
    expect(await queue.dead()).toEqual([
      { id: 'hopeless', payload: 'hopeless', attempts: 1, reason: 'bad address', diedAt: START },
      { id: 'fails', payload: 'fails', attempts: 2, reason: 'TypeError: no such file', diedAt: START + 1 },
      { id: 'crashes', payload: 'crashes', attempts: 1, reason: 'not acknowledged in time', diedAt: START + 1001 },
    ])
    expect(await queue.dead({ limit: 1 })).toHaveLength(1)
    expect(await queue.dead({ limit: 0 })).toEqual([])
  })

  test('have the text of what was thrown as their reason, if that is given', async () => {
    const { queue } = open()
    const reasons = [new RangeError('bad address'), 'by hand', undefined, { toString: () => 'an object' }]
    await queue.pushMany(reasons.map((_, i) => ({ payload: i, options: { id: `m${i}` } })))
    for (const [i, delivery] of (await queue.receive({ count: 4 })).entries())
      await delivery.reject(reasons[i] as string)
    const dead = await queue.dead()
    expect(dead.map(({ reason }) => reason)).toEqual(['RangeError: bad address', 'by hand', 'rejected', 'an object'])
  })

  test('are neither deleted nor put back by a text in place of a list of ids', async () => {
    const { queue } = open()
    await queue.push('x', { id: 'y' })
    for (const delivery of await queue.receive()) await delivery.reject()
    const ids = 'yz' as unknown as string[]
    await expect(queue.discard({ ids })).rejects.toThrow(PolicyError)
    await expect(queue.redrive({ ids })).rejects.toThrow(PolicyError)
    expect(await queue.stats()).toMatchObject({ ready: 0, dead: 1 })
  })

  test('come back when they are redriven: ready at once, attempts from 1', async () => {
    const { queue } = open<number>()
    await queue.pushMany(Array.from({ length: 250 }, (_, i) => ({ payload: i, options: { id: `m${i}` } })))
    for (const delivery of await queue.receive({ count: 250 })) await delivery.reject()
    expect(await queue.redrive({ ids: ['m7', 'm8', 'unknown'] })).toBe(2)
    expect(await queue.redrive({ ids: [] })).toBe(0)
    await queue.push(-1, { id: 'm0' })
    expect(await queue.redrive()).toBe(247)
    expect(await queue.stats()).toMatchObject({ ready: 250, dead: 1 })
    const back = await queue.receive({ count: 250 })
    expect(back.slice(0, 2)).toMatchObject([
      { id: 'm7', attempt: 1 },
      { id: 'm8', attempt: 1 },
    ])
    expect((await queue.dead())[0].id).toBe('m0')
  })
})

describe('an id', () => {
  test('of a delayed, ready or unacked message is not accepted twice; that of a completed message is', async () => {
    const { queue, clock } = open()
    expect(await queue.push(1, { id: 'a', delay: 10 })).toBe('a')
    expect(await queue.push(2, { id: 'a' })).toBeNull()
    clock.advance(10)
    expect(await queue.push(3, { id: 'a' })).toBeNull()
    const [delivery] = await queue.receive()
    expect(await queue.push(4, { id: 'a' })).toBeNull()
    await delivery.ack()
    expect(await queue.push(5, { id: 'a' })).toBe('a')
    const twice = [
      { payload: 1, options: { id: 'b' } },
      { payload: 2, options: { id: 'b' } },
    ]
    expect(await queue.pushMany(twice)).toEqual(['b', null])
  })

  test('cancels a waiting message, but not one that is being delivered', async () => {
    const { queue } = open()
    await queue.push(1, { id: 'delayed', delay: '1h' })
    await queue.push(2, { id: 'ready' })
    expect(await queue.cancel('delayed')).toBe(true)
    expect(await queue.cancel('delayed')).toBe(false)
    expect(await queue.cancel('ready')).toBe(true)
    await queue.push(3, { id: 'again' })
    const [delivery] = await queue.receive()
    expect(await queue.cancel('again')).toBe(false)
    await delivery.nack({ delay: '1m' })
    expect(await queue.cancel('again')).toBe(true)
    expect(await queue.stats()).toMatchObject({ ready: 0, delayed: 0, unacked: 0 })
  })

  test('reschedules a delayed message, to an earlier or a later moment', async () => {
    const { queue, clock } = open()
    await queue.push(1, { id: 'a', delay: 100 })
    expect(await queue.reschedule('a', 200)).toBe(true)
    expect(await queue.stats()).toMatchObject({ nextDueAt: START + 200 })
    expect(await queue.reschedule('a', 10)).toBe(true)
    clock.advance(10)
    expect(await queue.reschedule('a', 10)).toBe(false)
    expect(await queue.reschedule('b', 10)).toBe(false)
    expect(await queue.receive()).toHaveLength(1)
  })
})

describe('limits of a message and of the queue', () => {
  test('after its ttl a message is not delivered, makes room in a full queue, and its id is free', async () => {
    const { queue, clock } = open({ maxSize: 2 })
    await queue.push(1, { id: 'a', delay: 50, ttl: 100 })
    await queue.push(2, { id: 'b', ttl: 100 })
    expect(await queue.push(3)).toBeNull()
    clock.advance(99)
    expect(await queue.stats()).toMatchObject({ ready: 2 })
    clock.advance(1)
    expect(await queue.push(4, { id: 'a', delay: 10 })).toBe('a')
    expect(await queue.push(5)).not.toBeNull()
    expect(await queue.stats()).toMatchObject({ ready: 1, delayed: 1, nextDueAt: START + 110 })
    expect((await queue.receive({ count: 9 })).map(({ payload }) => payload)).toEqual([5])
  })

  test('a message whose ttl ends while it is delivered may be acknowledged, but is not delivered again', async () => {
    const { queue, clock } = open({ visibility: 100 })
    await queue.push(1, { ttl: 50 })
    await queue.push(2, { ttl: 50 })
    const [first] = await queue.receive({ count: 2 })
    clock.advance(60)
    expect(await queue.stats()).toMatchObject({ unacked: 2 })
    await first.ack()
    clock.advance(100)
    expect(await queue.receive()).toEqual([])
    expect(await queue.stats()).toEqual({ ready: 0, delayed: 0, unacked: 0, dead: 0, nextDueAt: null })
  })

  test('a full queue accepts nothing more; delayed, ready and unacked all count', async () => {
    const { queue, clock } = open({ maxSize: 3 })
    expect(await queue.pushMany([1, 2, 3, 4].map(payload => ({ payload })))).toEqual([
      expect.any(String),
      expect.any(String),
      expect.any(String),
      null,
    ])
    const [delivery] = await queue.receive()
    expect(await queue.push(5)).toBeNull()
    await delivery.ack()
    expect(await queue.push(5, { delay: 10 })).not.toBeNull()
    expect(await queue.push(6)).toBeNull()
    clock.advance(10)
    expect(await new DelayQueue(redis.client(), 'none', { maxSize: 0 }).push(1)).toBeNull()
  })
})

describe('the queue', () => {
  test('delivers nothing to any consumer while it is paused, and all messages afterwards', async () => {
    const { queue, name, payloads } = open()
    await queue.push(1)
    const [before] = await queue.receive()
    await queue.pause()
    await queue.push(2)
    await queue.push(3, { priority: 9 })
    const other = new DelayQueue(redis.client(), name, { clock: new ManualClock(START) })
    expect(await other.receive({ count: 9 })).toEqual([])
    expect(await payloads()).toEqual([])
    expect(await queue.stats()).toMatchObject({ ready: 2, unacked: 1 })
    await before.ack()
    await other.resume()
    expect(await payloads()).toEqual([3, 2])
  })

  test('is empty after a clear, and deliveries in progress are stale', async () => {
    const { queue } = open()
    await queue.pushMany([1, 2, 3, 4].map(payload => ({ payload })))
    const [acked, open1, open2] = await queue.receive({ count: 3 })
    await acked.reject()
    await queue.clear()
    expect(await queue.stats()).toEqual({ ready: 0, delayed: 0, unacked: 0, dead: 0, nextDueAt: null })
    await expect(open1.ack()).rejects.toThrow(StaleDeliveryError)
    await expect(open2.nack()).rejects.toThrow(StaleDeliveryError)
    await queue.push(5)
    const [fresh] = await queue.receive()
    await fresh.ack()
  })

  test('leaves no key when everything is acknowledged', async () => {
    const { queue, client, name } = open()
    await queue.pushMany(
      Array.from({ length: 20 }, (_, i) => ({
        payload: i,
        options: { ttl: i % 2 ? '1h' : undefined, priority: i % 3 },
      })),
    )
    for (const delivery of await queue.receive({ count: 5 })) await delivery.nack({ delay: 0 })
    await Promise.all((await queue.receive({ count: 20 })).map(delivery => delivery.ack()))
    await eventually('no key is left', async () => (await client.keys(`*{${name}}*`)).length === 0)
  })

  test('shares nothing with a queue of another name, prefix or kind', async () => {
    const { queue, name, client } = open()
    await queue.push(1)
    expect(await new DelayQueue(client, `${name}x`).receive()).toEqual([])
    expect(await new DelayQueue(client, name, { prefix: 'other' }).receive()).toEqual([])
  })

  test('rejects calls after it is closed; a waiting receive resolves with the messages that it has', async () => {
    const { queue } = open()
    const waiting = queue.receive({ wait: '1h' })
    await queue.close()
    expect(await waiting).toEqual([])
    await expect(queue.push(1)).rejects.toThrow(SpillwayError)
    expect(() => queue.consume(async () => {})).toThrow('closed')
    await expect(queue.stats()).rejects.toThrow('closed')
    await expect(queue.inspect()).rejects.toThrow('closed')
  })

  test('rejects with StoreError, whose cause is the client’s error, while Redis does not answer', async () => {
    const client = redis.track(redis.client({ port: 1, maxRetriesPerRequest: 0, retryStrategy: () => null }))
    const queue = new DelayQueue(client, 'down')
    for (const asking of [queue.push(1), queue.receive(), queue.stats(), queue.cancel('a')]) {
      const error = await asking.then(
        () => undefined,
        reason => reason,
      )
      expect(error).toBeInstanceOf(StoreError)
      expect(error.cause).toBeInstanceOf(Error)
    }
  })
})

describe('a command that is sent twice', () => {
  test('acts once and gets the same answer: every script call is repeated, as a client does after a lost answer', async () => {
    const client = redis.client()
    const twice = new Proxy(client, {
      get(target, property) {
        const value = Reflect.get(target, property)
        if (property !== 'evalsha' && property !== 'eval')
          return typeof value === 'function' ? value.bind(target) : value
        return async (...args: unknown[]) => {
          const call = () => (value as (...args: unknown[]) => Promise<unknown>).apply(target, args)
          const first = await call()
          const second = await call()
          // A repeated fetch takes no further messages and gets the same answer.
          return String(args[0]) === fetchHash ? first : second
        }
      },
    })
    const fetchHash = (await import('../../../src/redis/scripts.js')).queueSettleAndFetch.sha1
    const queue = new DelayQueue(twice, 'twice', { clock: new ManualClock(START) })
    expect(await queue.push(1, { id: 'a' })).toBe('a')
    expect(await queue.push(2, { id: 'a' })).toBeNull()
    expect(await queue.stats()).toMatchObject({ ready: 1 })
    expect(await queue.cancel('a')).toBe(true)
    expect(await queue.cancel('a')).toBe(false)
    await queue.push(3, { id: 'b' })
    await (await queue.receive())[0].reject()
    expect(await queue.redrive()).toBe(1)
    expect(await queue.stats()).toMatchObject({ ready: 1, dead: 0 })
  })

  test('settles a delivery once', async () => {
    const client = redis.client()
    const last = new Proxy(client, {
      get(target, property) {
        const value = Reflect.get(target, property)
        if (property !== 'evalsha' && property !== 'eval')
          return typeof value === 'function' ? value.bind(target) : value
        return async (...args: unknown[]) => {
          const call = () => (value as (...args: unknown[]) => Promise<unknown>).apply(target, args)
          const first = (await call()) as unknown[]
          if (!settling) return first
          return call()
        }
      },
    })
    let settling = false
    const queue = new DelayQueue(last, 'settled', { clock: new ManualClock(START), maxAttempts: 2 })
    await queue.pushMany(['ack', 'ack', 'nack', 'reject', 'extend'].map(payload => ({ payload })))
    const [one, two, nacked, rejected, extended] = await queue.receive({ count: 5 })
    settling = true
    await Promise.all([one.ack(), two.ack()])
    await nacked.nack({ delay: 0 })
    await rejected.reject('no')
    await extended.extend()
    await extended.ack()
    settling = false
    expect(await queue.stats()).toEqual({ ready: 1, delayed: 0, unacked: 0, dead: 1, nextDueAt: null })
  })
})

test('a push with wrong options is refused before anything is sent', async () => {
  const { queue } = open()
  await expect(queue.push('x', { at: START, delay: 5 } as never)).rejects.toThrow(PolicyError)
  await expect(queue.pushMany([{ payload: 'x' }, { payload: 'y', options: { priority: 10 } }])).rejects.toThrow(
    PolicyError,
  )
  expect(await queue.stats()).toMatchObject({ ready: 0, delayed: 0 })
})

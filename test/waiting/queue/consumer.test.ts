import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, jest, test } from '@jest/globals'
import { StaleDeliveryError } from '../../../src/limiter/core/errors.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import type { Delivery } from '../../../src/waiting/queue/delivery.js'
import type { DelayQueueOptions } from '../../../src/waiting/queue/options.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { eventually } from '../../support/eventually.js'
import { HeldClient } from '../../support/held-client.js'
import { RedisServer } from '../../support/redis-server.js'
import { testRedis } from '../../support/test-redis.js'
import { warnings } from '../../support/warnings.js'

const warned = warnings()

const redis = testRedis()

let names = 0
const open = <T = unknown>(options: DelayQueueOptions<T> = {}, name = `test-${names++}`) =>
  new DelayQueue<T>(redis.client(), name, options)

/** Resolves with the result of `consume` when its consumer sleeps. */
async function asleep<Consumer>(consume: () => Consumer): Promise<Consumer> {
  const before = await redis.blockedClients()
  const consumer = consume()
  await eventually('it sleeps', async () => (await redis.blockedClients()) > before)
  return consumer
}

/** Waits for as many calls as a test expects. */
function counter(most: number) {
  let done = () => {}
  const all = new Promise<void>(resolve => {
    done = resolve
  })
  let count = 0
  return {
    all,
    add() {
      if (++count === most) done()
    },
    get count() {
      return count
    },
  }
}

/** Commands that the server has carried out so far, those inside scripts included. */
async function commandsOf(server: RedisServer): Promise<number> {
  const info = await server.client().info('stats')
  return Number(/total_commands_processed:(\d+)/.exec(info)?.[1])
}

describe('a consumer', () => {
  test('handles what is pushed while it is idle, and acknowledges it', async () => {
    const queue = open<string>()
    const got: string[] = []
    const three = counter(3)
    const consumer = await asleep(() =>
      queue.consume(async ({ payload }) => {
        got.push(payload)
        three.add()
      }),
    )
    for (const payload of ['a', 'b', 'c']) await queue.push(payload)
    await three.all
    expect(got).toEqual(['a', 'b', 'c'])
    await consumer.close()
    expect(await queue.stats()).toMatchObject({ ready: 0, unacked: 0 })
    await queue.close()
  })

  test('wakes in time for a message due in 300 ms, although it sleeps until one due in a year', async () => {
    const queue = open<string>()
    const got = counter(1)
    let lateMs = Number.NaN
    await queue.push('next year', { delay: '365d' })
    const consumer = await asleep(() =>
      queue.consume(async ({ dueAt }) => {
        lateMs = Date.now() - dueAt
        got.add()
      }),
    )
    await queue.push('soon', { delay: 300 })
    await got.all
    // Never early; the machine may be busy.
    expect(lateMs).toBeGreaterThanOrEqual(0)
    expect(lateMs).toBeLessThan(1000)
    await consumer.close()
    await queue.close()
  })

  test('wakes for a message that another process has rescheduled to an earlier moment', async () => {
    const name = `test-${names++}`
    const [here, there] = [open({}, name), open({}, name)]
    const got = counter(1)
    await here.push('x', { id: 'x', delay: '1h' })
    const consumer = await asleep(() => there.consume(async () => got.add()))
    expect(await here.reschedule('x', 20)).toBe(true)
    await got.all
    await consumer.close()
    await Promise.all([here.close(), there.close()])
  })

  test('nacks a message whose handler throws, with the backoff, until it is a dead letter', async () => {
    const queue = open<string>({ maxAttempts: 3, backoff: attempt => attempt * 20 })
    const attempts: number[] = []
    const consumer = queue.consume(async ({ attempt }) => {
      attempts.push(attempt)
      throw new RangeError('no luck')
    })
    await queue.push('x', { id: 'x' })
    await eventually('it is buried', async () => (await queue.stats()).dead === 1)
    expect(attempts).toEqual([1, 2, 3])
    expect(await queue.dead()).toMatchObject([{ id: 'x', attempts: 3, reason: 'RangeError: no luck' }])
    await consumer.close()
    await queue.close()
  })

  test('does not settle a message that its handler has settled', async () => {
    const queue = open<string>()
    const settled = counter(2)
    const consumer = queue.consume(async delivery => {
      if (delivery.payload === 'reject') await delivery.reject('by hand')
      else await delivery.nack({ delay: '1h' })
      settled.add()
      throw new Error('which is not told')
    })
    await queue.pushMany([{ payload: 'reject' }, { payload: 'nack' }])
    await settled.all
    await consumer.close()
    expect(await queue.stats()).toMatchObject({ dead: 1, delayed: 1, unacked: 0 })
    expect((await queue.dead())[0].reason).toBe('by hand')
    await queue.close()
  })

  test('runs as many handlers at once as it may, and never more', async () => {
    const queue = open()
    const all = counter(30)
    let most = 0
    const consumer = queue.consume(
      async () => {
        most = Math.max(most, consumer.running)
        // A handler takes real time, so that several run at once.
        await sleep(5)
        all.add()
      },
      { concurrency: 7 },
    )
    await queue.pushMany(Array.from({ length: 30 }, (_, i) => ({ payload: i })))
    await all.all
    expect(most).toBe(7)
    await consumer.close()
    await queue.close()
  })

  test('keeps a delivery while its handler runs, beyond the visibility', async () => {
    const queue = open({ visibility: 1000 })
    const done = counter(1)
    let deliveries = 0
    let aborted = true
    const consumer = queue.consume(
      async ({ signal }) => {
        deliveries++
        // Longer than the message may be kept without an extension, by the server's clock.
        await sleep(1400)
        aborted = signal.aborted
        done.add()
      },
      { concurrency: 2 },
    )
    await queue.push('long')
    await done.all
    await consumer.close()
    expect([deliveries, aborted]).toEqual([1, false])
    expect(await queue.stats()).toEqual({ ready: 0, delayed: 0, unacked: 0, dead: 0, nextDueAt: null })
    await queue.close()
  })

  test('without autoExtend loses the delivery: the signal is aborted, and the message is delivered again', async () => {
    const queue = open({ visibility: 100 })
    const reasons: unknown[] = []
    const attempts: number[] = []
    const consumer = queue.consume(
      async delivery => {
        attempts.push(delivery.attempt)
        if (delivery.attempt > 1) return
        await new Promise(resolve => delivery.signal.addEventListener('abort', resolve))
        reasons.push(delivery.signal.reason)
      },
      { autoExtend: false, concurrency: 2 },
    )
    await queue.push('x')
    // A busy machine may lose the second delivery, too.
    await eventually('it is done', async () => attempts.length >= 2 && reasons.length === 1)
    expect(attempts.slice(0, 2)).toEqual([1, 2])
    expect(reasons[0]).toBeInstanceOf(StaleDeliveryError)
    await consumer.close()
    await queue.close()
  })

  test('wakes for a message that another consumer has taken and not acknowledged, although it slept already', async () => {
    const name = `test-${names++}`
    const second = new HeldClient(redis.client())
    const [dying, living] = [open({}, name), new DelayQueue(second.client, name)]
    const got = counter(1)
    let attempt = 0
    await living.pause()
    const consumer = await asleep(() =>
      living.consume(async delivery => {
        attempt = delivery.attempt
        got.add()
      }),
    )
    await dying.push('x')
    second.hold()
    await dying.resume()
    expect(await dying.receive({ visibility: 300 })).toHaveLength(1)
    second.letGo()
    await got.all
    expect(attempt).toBe(2)
    await consumer.close()
    await Promise.all([dying.close(), living.close()])
  })

  test('stops when it is closed: handlers finish, other messages are put back, and no more are taken', async () => {
    const queue = open<number>()
    const leave = { acquire: (_: number | undefined, options?: { signal?: AbortSignal }) => held(options?.signal) }
    let permits = 2
    const held = (signal?: AbortSignal) =>
      permits-- > 0
        ? Promise.resolve()
        : new Promise<void>((_, no) => signal?.addEventListener('abort', () => no(new Error('closed'))))
    const done: number[] = []
    const consumer = queue.consume(
      async ({ payload }) => {
        // A handler takes real time, so that closing meets it at work.
        await sleep(100)
        done.push(payload)
      },
      { concurrency: 5, limiter: leave },
    )
    await queue.pushMany(Array.from({ length: 20 }, (_, i) => ({ payload: i })))
    await eventually('two run', async () => consumer.running === 2)
    await consumer.close()
    expect(done).toEqual([0, 1])
    expect(consumer.running).toBe(0)
    expect(await queue.stats()).toMatchObject({ ready: 18, unacked: 0 })
    const [next] = await queue.receive()
    expect(next).toMatchObject({ payload: 2, attempt: 1 })
    await queue.close()
  })

  test('does not wait longer than its grace for a handler', async () => {
    const queue = open()
    let end = () => {}
    const consumer = queue.consume(() => new Promise<void>(resolve => (end = resolve)))
    await queue.push('x')
    await eventually('it runs', async () => consumer.running === 1)
    await consumer.close({ grace: 50 })
    expect(await queue.stats()).toMatchObject({ unacked: 1 })
    // What ends after all is acknowledged, as long as it is ours.
    end()
    await eventually('it is acknowledged', async () => (await queue.stats()).unacked === 0)
    await queue.close()
  })

  test('is closed by its signal, and by the end of its block', async () => {
    const queue = open()
    const closing = new AbortController()
    const consumer = queue.consume(async () => {}, { signal: closing.signal })
    closing.abort()
    await consumer.close()
    await using second = queue.consume(async () => {})
    expect(second.running).toBe(0)
    await queue.push('x')
    await eventually('the second has it', async () => (await queue.stats()).ready === 0)
  })

  test('obeys its limiter, and messages that wait for the limiter do not delay the promotion of later ones', async () => {
    const queue = open<number>()
    const begun: number[] = []
    const startedAt = performance.now()
    let next = 0
    const limiter = {
      async acquire() {
        const at = Math.max(next, performance.now())
        next = at + 50
        // A limiter that grants every 50 ms of real time.
        await sleep(at - performance.now())
      },
    }
    const all = counter(6)
    const consumer = queue.consume(
      async () => {
        begun.push(performance.now())
        all.add()
      },
      { limiter, concurrency: 3 },
    )
    await queue.pushMany(Array.from({ length: 6 }, (_, i) => ({ payload: i, options: { delay: i } })))
    await all.all
    // Five spans of 50 ms, of which the first begins after the start; a timer may ring up to a millisecond early.
    expect(begun[5] - startedAt).toBeGreaterThan(240)
    await consumer.close()
    await queue.close()
  })
})

describe('consumers with a SharedRateLimiter', () => {
  test('together start at most its rate in any interval, and handle all messages in the end', async () => {
    const name = `test-${names++}`
    const clients = [redis.client(), redis.client()]
    const limiters = clients.map(client => new SharedRateLimiter(client, name))
    await limiters[0].trySetRate({ rate: 5, interval: 300 })
    const queues = clients.map(client => new DelayQueue<number>(client, name))
    const begun: number[] = []
    const startedAt = performance.now()
    const all = counter(15)
    const consumers = queues.map((queue, i) =>
      queue.consume(
        async () => {
          begun.push(performance.now())
          all.add()
        },
        { limiter: limiters[i], concurrency: 3 },
      ),
    )
    await queues[0].pushMany(Array.from({ length: 15 }, (_, i) => ({ payload: i })))
    await all.all
    // The last five may begin two intervals after the first five, which begin after the start.
    expect(begun[14] - startedAt).toBeGreaterThanOrEqual(599)
    await Promise.all(consumers.map(consumer => consumer.close()))
    await Promise.all([...queues, ...limiters].map(object => object.close()))
  })
})

describe('several consumers', () => {
  test('of one process share a connection to be woken on', async () => {
    const server = await RedisServer.start()
    const client = server.client()
    const queues = Array.from({ length: 10 }, () => new DelayQueue(client, 'shared'))
    const consumers = queues.flatMap(queue => [queue.consume(async () => {}), queue.consume(async () => {})])
    // As long as connections of others would take to come.
    await sleep(300)
    // The user's, and one of ours.
    expect(Number(/connected_clients:(\d+)/.exec(await client.info('clients'))?.[1])).toBe(2)
    await Promise.all(consumers.map(consumer => consumer.close()))
    await Promise.all(queues.map(queue => queue.close()))
    await server.stop()
  })

  test('20 with their own connections deliver each of 1000 messages once', async () => {
    const name = `test-${names++}`
    const queues = Array.from({ length: 20 }, () => open<number>({}, name))
    const seen = new Map<number, number>()
    const all = counter(1000)
    const handler = async ({ payload }: Delivery<number>) => {
      seen.set(payload, (seen.get(payload) ?? 0) + 1)
      all.add()
    }
    const consumers = queues.map(queue => queue.consume(handler))
    await queues[0].pushMany(
      Array.from({ length: 1000 }, (_, i) => ({ payload: i, options: { delay: (i * 7919) % 500 } })),
    )
    await all.all
    await Promise.all(consumers.map(consumer => consumer.close()))
    expect(seen.size).toBe(1000)
    expect([...seen.values()].every(count => count === 1)).toBe(true)
    expect(await queues[0].stats()).toEqual({ ready: 0, delayed: 0, unacked: 0, dead: 0, nextDueAt: null })
    await Promise.all(queues.map(queue => queue.close()))
  })

  test('help one another: a busy consumer wakes another for messages that it cannot take', async () => {
    const name = `test-${names++}`
    const [busy, idle] = [open<number>({}, name), open<number>({}, name)]
    const all = counter(2)
    let end = () => {}
    const first = busy.consume(() => new Promise<void>(resolve => (end = resolve)))
    await busy.push(1)
    await eventually('one is busy', async () => first.running === 1)
    const second = await asleep(() => idle.consume(async () => all.add()))
    await busy.push(2, { delay: 30 })
    await busy.push(3, { delay: 60 })
    await all.all
    end()
    await Promise.all([first.close(), second.close()])
    await Promise.all([busy.close(), idle.close()])
  })
})

test('a consumer holds as many messages as it runs handlers, however fast they are', async () => {
  const name = `test-${names++}`
  const [queue, other] = [open<number>({}, name), open<number>({}, name)]
  const consumer = queue.consume(async () => {}, { concurrency: 2 })
  await other.pushMany(Array.from({ length: 500 }, (_, payload) => ({ payload })))
  let most = 0
  for (let left = 500; left > 0; ) {
    const { ready, unacked } = await other.stats()
    most = Math.max(most, unacked)
    left = ready + unacked
  }
  expect(most).toBeGreaterThan(0)
  expect(most).toBeLessThanOrEqual(2)
  await consumer.close()
  await Promise.all([queue.close(), other.close()])
})

test('a message whose handler and backoff both throw comes again after the default backoff', async () => {
  const queue = open({
    visibility: '1h',
    backoff: () => {
      throw new Error('no backoff')
    },
  })
  const consumer = queue.consume(async () => {
    throw new Error('no luck')
  })
  await queue.push('x')
  await eventually('it waits for its second attempt', async () => (await queue.stats()).delayed === 1)
  const { nextDueAt } = await queue.stats()
  expect((nextDueAt as number) - Date.now()).toBeLessThanOrEqual(1200)
  expect(warned.texts).toHaveLength(1)
  await consumer.close()
  await queue.close()
})

describe('a handler that outlives its visibility', () => {
  test('does not begin if the answer came after the visibility had ended', async () => {
    const name = `test-${names++}`
    const client = redis.client()
    let arrive = () => {}
    for (const send of ['evalsha', 'eval'] as const) {
      const sent = client[send].bind(client) as (...words: unknown[]) => Promise<unknown>
      const late = async (...words: unknown[]) => {
        const answer = await sent(...words)
        if (JSON.stringify(answer).includes('late')) await new Promise<void>(resolve => (arrive = resolve))
        return answer
      }
      client[send] = late as never
    }
    const [queue, other] = [new DelayQueue<string>(client, name, { visibility: 100 }), open<string>({}, name)]
    const handled: string[] = []
    const consumer = queue.consume(async ({ payload }) => void handled.push(payload))
    await other.push('lost', { id: 'late' })
    await eventually('it is taken', async () => (await other.stats()).unacked === 1)
    const [again] = await other.receive({ wait: '5s' })
    await again.ack()
    arrive()
    await other.push('next')
    await eventually('the next is handled', async () => handled.includes('next'))
    expect(handled).toEqual(['next'])
    await consumer.close()
    await Promise.all([queue.close(), other.close()])
  })

  test('has its whole visibility if it begins late, because its process stood still', async () => {
    const name = `test-${names++}`
    const client = redis.client()
    const blocked = { untilMs: 0 }
    for (const send of ['evalsha', 'eval'] as const) {
      const sent = client[send].bind(client) as (...words: unknown[]) => Promise<unknown>
      const late = async (...words: unknown[]) => {
        const answer = await sent(...words)
        if (JSON.stringify(answer).includes('late')) {
          // The process stands still for most of the visibility.
          blocked.untilMs = performance.now() + 800
          while (performance.now() < blocked.untilMs);
        }
        return answer
      }
      client[send] = late as never
    }
    const [queue, other] = [new DelayQueue<string>(client, name, { visibility: 1000 }), open<string>({}, name)]
    const attempts: number[] = []
    const consumer = queue.consume(async ({ attempt }) => {
      attempts.push(attempt)
      // Longer than what is left, and than the extension comes by itself.
      await new Promise(resolve => setTimeout(resolve, 600))
    })
    await other.push('late', { id: 'late' })
    await eventually('it is taken', async () => blocked.untilMs > 0)
    expect(await other.receive({ wait: '500ms' })).toEqual([])
    await eventually('it is done', async () => (await other.stats()).unacked === 0)
    expect(attempts).toEqual([1])
    await consumer.close()
    await Promise.all([queue.close(), other.close()])
  })

  test('does not create hundreds of timers while it runs', async () => {
    const queue = open({ visibility: 50 })
    let end = () => {}
    const consumer = queue.consume(() => new Promise<void>(resolve => (end = resolve)), { autoExtend: false })
    await queue.push('long')
    await eventually('it runs', async () => consumer.running === 1)
    const timers = jest.spyOn(globalThis, 'setTimeout')
    // The subject is what is done while nothing happens: half a second of it.
    await sleep(500)
    const made = timers.mock.calls.length
    timers.mockRestore()
    expect(made).toBeLessThan(20)
    end()
    await consumer.close()
    await queue.close()
  })
})

describe('an idle consumer', () => {
  test('sends almost nothing to Redis before a message due in an hour, and does not spin before a due message', async () => {
    const server = await RedisServer.start()
    const queue = new DelayQueue(server.client(), 'idle')
    await queue.push('later', { delay: '1h' })
    const got = counter(1)
    const consumer = queue.consume(async () => got.add())
    await eventually('it sleeps', async () => (await server.blockedClients()) === 1)
    // The subject is what is asked while nothing happens: for a second, and around one message.
    const before = await commandsOf(server)
    await sleep(1000)
    const idle = (await commandsOf(server)) - before
    // Nothing but our own two questions, each of which says hello first.
    expect(idle).toBeLessThanOrEqual(6)
    await queue.push('soon', { delay: 400 })
    await sleep(100)
    const almost = await commandsOf(server)
    await got.all
    await sleep(50)
    const calls = (await commandsOf(server)) - almost
    // The fetch and the acknowledgement, with what their scripts do, and our own questions again.
    expect(calls).toBeLessThanOrEqual(24)
    await consumer.close()
    await queue.close()
    await server.stop()
  })

  test('holds no handle once it is closed', async () => {
    const { jsonFromChild } = await import('../../support/child.js')
    const source = `
      import { Redis } from 'ioredis'
      import { DelayQueue } from './src/waiting/queue/delay-queue.ts'
      const client = new Redis(process.env.REDIS_URL)
      const queue = new DelayQueue(client, 'handles')
      const consumer = queue.consume(async () => {})
      await queue.push('x')
      // As long as a consumer takes to have nothing left to do.
      await new Promise(resolve => setTimeout(resolve, 200))
      const before = performance.now()
      await consumer.close()
      await queue.close()
      client.disconnect()
      process.on('exit', () => console.log(JSON.stringify(performance.now() - before)))
    `
    const ms = await jsonFromChild<number>(source, { env: { REDIS_URL: redis.url } })
    expect(ms).toBeLessThan(2000)
  }, 20_000)
})

describe('receive', () => {
  test('waits for the first message, at most for its wait time', async () => {
    const queue = open<string>()
    const { waiting } = await asleep(() => ({ waiting: queue.receive({ wait: '10s', count: 5 }) }))
    await queue.push('x', { delay: 50 })
    expect((await waiting).map(({ payload }) => payload)).toEqual(['x'])
    const before = performance.now()
    expect(await queue.receive({ wait: 120 })).toEqual([])
    expect(performance.now() - before).toBeGreaterThanOrEqual(120)
    await queue.close()
  })
})

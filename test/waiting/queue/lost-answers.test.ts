import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { createClient } from 'redis'
import type { Script } from '../../../src/redis/script.js'
import { queueClear, queuePause, queueReschedule, queueSettleAndFetch } from '../../../src/redis/scripts.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { eventually } from '../../support/eventually.js'
import { TcpProxy } from '../../support/tcp-proxy.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let proxy: TcpProxy
beforeEach(async () => {
  proxy = await TcpProxy.start(redis.port)
})
afterEach(() => proxy.stop())

let names = 0
const nextName = () => `lost-${names++}`

describe('when the connection is lost between the delivery and its answer', () => {
  const direct = (name: string) => new DelayQueue<string>(redis.client(), name, { maxAttempts: 1 })
  /** Sends its commands through the proxy, and is woken past it. */
  const viaProxy = (name: string) => {
    const client = redis.client({ port: proxy.port, maxRetriesPerRequest: null })
    const past = redis.client()
    client.duplicate = options => past.duplicate(options)
    return new DelayQueue<string>(client, name, { maxAttempts: 1, visibility: '3s' })
  }

  /** Lets answers of the server through no more, until the delivery has been made; then resets the connections. */
  async function loseTheAnswer(witness: DelayQueue<string>) {
    proxy.delayMs = () => 60_000
    await witness.push('work', { id: 'a' })
    await eventually('it is handed out', async () => (await witness.stats()).unacked === 1)
    proxy.delayMs = () => 0
    proxy.cut()
  }

  test('a consumer gets the same delivery again, as its first attempt: maxAttempts 1 loses nothing', async () => {
    const name = nextName()
    const [witness, queue] = [direct(name), viaProxy(name)]
    const attempts: number[] = []
    const consumer = queue.consume(async ({ attempt }) => {
      attempts.push(attempt)
    })
    await witness.push('first')
    await eventually('the first is done', async () => attempts.length === 1 && (await witness.stats()).unacked === 0)
    await eventually('it waits', async () => /blocked_clients:1/.test(await redis.client().info('clients')))
    // Answers come in order, so that none is on its way after this one.
    await queue.stats()
    await loseTheAnswer(witness)
    await eventually('it is delivered', async () => attempts.length === 2, 2500)
    expect(attempts).toEqual([1, 1])
    await consumer.close()
    expect(await witness.stats()).toEqual({ ready: 0, delayed: 0, unacked: 0, dead: 0, nextDueAt: null })
    await Promise.all([queue.close(), witness.close()])
  })

  test('a receive that fails gives the message back, not counted as an attempt', async () => {
    const name = nextName()
    const witness = direct(name)
    const client = createClient({ url: `redis://127.0.0.1:${proxy.port}`, disableOfflineQueue: false })
    client.on('error', () => {})
    await client.connect()
    const queue = new DelayQueue<string>(client, name, { maxAttempts: 1, visibility: '3s' })
    expect(await queue.receive()).toEqual([])
    proxy.delayMs = () => 60_000
    await witness.push('work', { id: 'a' })
    const failing = queue.receive()
    failing.catch(() => {})
    await eventually('it is handed out', async () => (await witness.stats()).unacked === 1)
    proxy.delayMs = () => 0
    proxy.cut()
    // This client rejects what was in flight.
    await expect(failing).rejects.toThrow('Redis failed')
    await eventually('it is given back', async () => (await witness.stats()).ready === 1, 2500)
    expect(await witness.receive()).toMatchObject([{ id: 'a', attempt: 1 }])
    await Promise.all([queue.close(), witness.close()])
    await client.disconnect()
  })
})

/**
 * A client that sends each call of `script` again after `meanwhile`, as one does that lost the connection before the
 * answer.
 */
function resending(script: Script, meanwhile: () => Promise<unknown>) {
  const client = redis.client()
  return new Proxy(client, {
    get(target, property) {
      const value = Reflect.get(target, property)
      if (typeof value !== 'function') return value
      if (property !== 'evalsha' && property !== 'eval') return value.bind(target)
      return async (...args: unknown[]) => {
        const call = () => value.apply(target, args)
        const first = await call()
        if (args[0] !== script.sha1 && args[0] !== script.source) return first
        await meanwhile()
        return call()
      }
    },
  })
}

describe('a command that is sent again', () => {
  test('clear does not delete messages pushed in between', async () => {
    const name = nextName()
    const other = new DelayQueue(redis.client(), name)
    const queue = new DelayQueue(
      resending(queueClear, () => other.push('new')),
      name,
    )
    await queue.push('old')
    await queue.clear()
    expect((await other.receive({ count: 9 })).map(({ payload }) => payload)).toEqual(['new'])
    await Promise.all([queue.close(), other.close()])
  })

  test('pause does not pause a queue that was resumed in between', async () => {
    const name = nextName()
    const other = new DelayQueue(redis.client(), name)
    const queue = new DelayQueue(
      resending(queuePause, () => other.resume()),
      name,
    )
    await queue.pause()
    await other.push('x')
    expect(await other.receive()).toHaveLength(1)
    await Promise.all([queue.close(), other.close()])
  })

  test('reschedule does not undo another reschedule in between', async () => {
    const name = nextName()
    const other = new DelayQueue(redis.client(), name)
    const queue = new DelayQueue(
      resending(queueReschedule, () => other.reschedule('a', '1s')),
      name,
    )
    await queue.push('x', { id: 'a', delay: '1h' })
    expect(await queue.reschedule('a', '2h')).toBe(true)
    const { nextDueAt } = await queue.stats()
    expect((nextDueAt as number) - Date.now()).toBeLessThan(60_000)
    await Promise.all([queue.close(), other.close()])
  })

  test('a return does not take the message from its next holder, whose delivery has the same attempt', async () => {
    const name = nextName()
    const client = redis.client()
    const returns: unknown[][] = []
    const noting = new Proxy(client, {
      get(target, property) {
        const value = Reflect.get(target, property)
        if (typeof value !== 'function') return value
        if (property !== 'evalsha') return value.bind(target)
        return (...args: unknown[]) => {
          if (args.includes('return')) returns.push(args)
          return value.apply(target, args)
        }
      },
    })
    const [queue, other] = [new DelayQueue<string>(noting, name), new DelayQueue<string>(redis.client(), name)]
    await other.push('x')
    // The scripts are loaded.
    await (await queue.receive())[0].nack({ delay: 0 })
    const aborted = new AbortController()
    const receiving = queue.receive({ signal: aborted.signal })
    setImmediate(() => aborted.abort())
    await expect(receiving).rejects.toThrow('aborted')
    await eventually('it is back', async () => returns.length === 1 && (await other.stats()).ready === 1)
    const [delivery] = await other.receive()
    expect(delivery.attempt).toBe(2)
    // The client lost its connection before the answer, and sends it again.
    await client.evalsha(...(returns[0] as [string, number]))
    expect(await other.stats()).toMatchObject({ ready: 0, unacked: 1 })
    await delivery.ack()
    expect(await other.stats()).toMatchObject({ ready: 0, unacked: 0 })
    await Promise.all([queue.close(), other.close()])
  })

  test('a fetch gives the same messages again, and takes no others', async () => {
    const name = nextName()
    const other = new DelayQueue<number>(redis.client(), name)
    const queue = new DelayQueue<number>(
      resending(queueSettleAndFetch, async () => {}),
      name,
    )
    await other.pushMany([1, 2, 3].map(payload => ({ payload })))
    expect((await queue.receive({ count: 2 })).map(({ payload, attempt }) => [payload, attempt])).toEqual([
      [1, 1],
      [2, 1],
    ])
    expect(await other.stats()).toMatchObject({ ready: 1, unacked: 2 })
    await Promise.all([queue.close(), other.close()])
  })
})

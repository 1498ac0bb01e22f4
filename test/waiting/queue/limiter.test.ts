import { describe, expect, test } from '@jest/globals'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import type { DelayQueueOptions } from '../../../src/waiting/queue/options.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

let names = 0

/** A limiter that grants by hand. */
class Gate {
  readonly #waiting: Array<() => void> = []

  get waiting(): number {
    return this.#waiting.length
  }

  acquire(_?: number, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(resolve)
      signal?.addEventListener('abort', () => reject(signal.reason))
    })
  }

  grant(): void {
    this.#waiting.shift()?.()
  }
}

/** A queue, and a process that consumes it with a limiter; its handlers never end by themselves. */
function setUp(options: DelayQueueOptions<string> = {}) {
  const name = `limited-${names++}`
  const queue = new DelayQueue<string>(redis.client(), name, options)
  const gate = new Gate()
  const client = redis.client()
  const theirs = new DelayQueue<string>(client, name, options)
  const begun: Array<[payload: string, attempt: number]> = []
  const ends: Array<() => void> = []
  const consume = () =>
    theirs.consume(
      ({ payload, attempt }) => {
        begun.push([payload, attempt])
        return new Promise<void>(resolve => ends.push(resolve))
      },
      { concurrency: 20, limiter: gate },
    )
  const close = async () => {
    for (const end of ends) end()
    await Promise.all([queue.close(), theirs.close()])
  }
  return { queue, gate, client, begun, consume, close }
}

const payloads = (count: number) => Array.from({ length: count }, (_, i) => ({ payload: `m${i}` }))

describe('a consumer with a limiter', () => {
  test('holds one message that has no permit, and none more while handlers run', async () => {
    const { queue, gate, begun, consume, close } = setUp()
    await queue.pushMany(payloads(20))
    consume()
    await eventually('it waits for a permit', async () => gate.waiting === 1)
    expect(await queue.stats()).toMatchObject({ ready: 19, unacked: 1 })
    for (let i = 1; i <= 3; i++) {
      gate.grant()
      await eventually('the next waits', async () => gate.waiting === 1 && begun.length === i)
      expect(await queue.stats()).toMatchObject({ ready: 19 - i, unacked: 1 + i })
    }
    await close()
  })

  test('that crashes costs an attempt only to the messages whose handler had begun', async () => {
    const { queue, gate, client, begun, consume, close } = setUp({ visibility: 300, maxAttempts: 1 })
    await queue.pushMany(payloads(20))
    consume()
    await eventually('it waits for a permit', async () => gate.waiting === 1)
    gate.grant()
    await eventually('the next waits', async () => gate.waiting === 1 && begun.length === 1)
    client.disconnect()
    await eventually('its visibilities end', async () => (await queue.stats()).unacked === 0)
    // Who fetches next finds that one of them had its last attempt.
    expect(await queue.stats()).toMatchObject({ ready: 20, dead: 0 })
    expect((await queue.receive({ count: 20 })).map(({ attempt }) => attempt)).toEqual(new Array(19).fill(1))
    expect(await queue.dead()).toMatchObject([{ payload: 'm0', attempts: 1, reason: 'not acknowledged in time' }])
    await close()
  })

  test('begins nothing after a pause, although a permit comes; it counts as no attempt', async () => {
    const { queue, gate, begun, consume, close } = setUp()
    await queue.pushMany(payloads(5))
    consume()
    await eventually('it waits for a permit', async () => gate.waiting === 1)
    await queue.pause()
    gate.grant()
    await eventually('it is back', async () => (await queue.stats()).ready === 5)
    expect(begun).toEqual([])
    await queue.resume()
    await eventually('it waits for a permit', async () => gate.waiting === 1)
    gate.grant()
    await eventually('it begins', async () => begun.length === 1)
    expect(begun).toEqual([['m0', 1]])
    await close()
  })

  test('takes an urgent message next, behind the one that it holds', async () => {
    const { queue, gate, begun, consume, close } = setUp()
    await queue.pushMany(payloads(10))
    consume()
    await eventually('it waits for a permit', async () => gate.waiting === 1)
    await queue.push('urgent', { priority: 9 })
    for (let i = 1; i <= 3; i++) {
      gate.grant()
      await eventually('the next waits', async () => gate.waiting === 1 && begun.length === i)
    }
    expect(begun.map(([payload]) => payload)).toEqual(['m0', 'urgent', 'm1'])
    await close()
  })

  test('drops a message whose visibility ended while it waited', async () => {
    const { queue, gate, begun, consume, close } = setUp()
    await queue.push('x')
    consume()
    await eventually('it waits for a permit', async () => gate.waiting === 1)
    await queue.clear()
    gate.grant()
    await queue.push('y')
    await eventually('it waits for a permit', async () => gate.waiting === 1)
    gate.grant()
    await eventually('the next begins', async () => begun.length > 0)
    expect(begun).toEqual([['y', 1]])
    await close()
  })
})

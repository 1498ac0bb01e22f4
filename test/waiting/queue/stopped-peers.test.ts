import { describe, expect, test } from '@jest/globals'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { eventually } from '../../support/eventually.js'
import { Lateness } from '../../support/lateness.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

let names = 0
const nextName = () => `peers-${names++}`

const blockedClients = () => redis.blockedClients()

/** A stopped process: it blocks like a consumer, so Redis gives it a wake-up, which it never handles. */
async function stoppedProcess(name: string) {
  const before = await blockedClients()
  const client = redis.client()
  client.bzpopmin(`spillway:{${name}}:queue:wake`, 0).catch(() => {})
  await eventually('it blocks', async () => (await blockedClients()) > before)
  return client
}

/** Consumes on a client of its own, and notes how late each message was, and how late the machine was meanwhile. */
async function idleConsumer(name: string, concurrency = 1) {
  const before = await blockedClients()
  const queue = new DelayQueue<number>(redis.client(), name)
  const lateMs: number[] = []
  const consumer = queue.consume(
    async ({ dueAt }) => {
      lateMs.push(Date.now() - dueAt)
    },
    { concurrency },
  )
  await eventually('it waits', async () => (await blockedClients()) > before)
  const machine = await Lateness.of(redis)
  const close = async () => {
    await machine.stop()
    await consumer.close()
    await queue.close()
  }
  const tookEachWithin = async (ms: number) =>
    expect(Math.max(...lateMs)).toBeLessThanOrEqual(ms + (await machine.stop()))
  return { lateMs, tookEachWithin, close }
}

const ten = (delay: (i: number) => number) =>
  Array.from({ length: 10 }, (_, i) => ({ payload: i, options: { delay: delay(i) } }))

describe('beside processes that are stopped, an idle consumer', () => {
  test.each([
    ['due at once', () => 0],
    ['due one after another', (i: number) => 100 + 10 * i],
  ])('takes ten messages, %s, within 500 ms, though a stopped process was woken first', async (_, delay) => {
    const name = nextName()
    await stoppedProcess(name)
    const idle = await idleConsumer(name)
    const pusher = new DelayQueue<number>(redis.client(), name)
    await pusher.pushMany(ten(delay))
    await eventually('all are delivered', async () => idle.lateMs.length === 10, 3000)
    await idle.tookEachWithin(500)
    await Promise.all([idle.close(), pusher.close()])
  })

  test('takes them within 500 ms although the pusher ends at once', async () => {
    const name = nextName()
    await stoppedProcess(name)
    const idle = await idleConsumer(name)
    const client = redis.client()
    await new DelayQueue<number>(client, name).pushMany(ten(() => 50))
    client.disconnect()
    await eventually('all are delivered', async () => idle.lateMs.length === 10, 3000)
    await idle.tookEachWithin(500)
    await idle.close()
  })

  test('takes them within 2.5 s though five stopped processes were woken, because it looks every two seconds', async () => {
    const name = nextName()
    for (let i = 0; i < 5; i++) await stoppedProcess(name)
    const idle = await idleConsumer(name)
    const pusher = new DelayQueue<number>(redis.client(), name)
    await pusher.pushMany(ten(() => 0))
    await eventually('all are delivered', async () => idle.lateMs.length === 10, 5000)
    await idle.tookEachWithin(2500)
    await Promise.all([idle.close(), pusher.close()])
  })

  test('takes, within 2.5 s, the messages that a saturated consumer cannot take, although stopped processes are woken first', async () => {
    const name = nextName()
    await stoppedProcess(name)
    const before = await blockedClients()
    const busyQueue = new DelayQueue<number>(redis.client(), name)
    let end = () => {}
    const busy = busyQueue.consume(() => new Promise<void>(resolve => (end = resolve)))
    await eventually('it waits', async () => (await blockedClients()) > before)
    await stoppedProcess(name)
    const idle = await idleConsumer(name)
    const pusher = new DelayQueue<number>(redis.client(), name)
    await pusher.pushMany(ten(() => 0))
    await eventually('all others are delivered', async () => idle.lateMs.length === 9, 5000)
    expect(busy.running).toBe(1)
    await idle.tookEachWithin(2500)
    end()
    await Promise.all([busy.close(), idle.close()])
    await Promise.all([busyQueue.close(), pusher.close()])
  })

  test('takes over the messages that a closed consumer watched', async () => {
    const name = nextName()
    const [first, second] = [await idleConsumer(name), await idleConsumer(name)]
    const idle = await idleConsumer(name)
    const pusher = new DelayQueue<number>(redis.client(), name)
    await pusher.pushMany(ten(() => 600))
    await eventually(
      'two others know',
      async () => (await redis.client().exists(`spillway:{${name}}:queue:wake`)) === 0,
    )
    // Time for them to begin to watch over it.
    await new Promise(resolve => setTimeout(resolve, 150))
    await Promise.all([first.close(), second.close()])
    await eventually('all are delivered', async () => idle.lateMs.length === 10, 3000)
    await idle.tookEachWithin(500)
    await Promise.all([idle.close(), pusher.close()])
  })
})

test('a lone consumer asks once for each wake-up, and no process asks after its answer', async () => {
  const name = nextName()
  const idle = await idleConsumer(name)
  const pusher = new DelayQueue<number>(redis.client(), name)
  const calls = async () => {
    const stats = await redis.client().info('commandstats')
    return (
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]) + Number(/cmdstat_bzpopmin:calls=(\d+)/.exec(stats)?.[1])
    )
  }
  for (let i = 0; i < 3; i++) {
    await pusher.push(i)
    await eventually('it is delivered', async () => idle.lateMs.length === i + 1)
    // The subject is what is asked while nothing happens.
    await new Promise(resolve => setTimeout(resolve, 400))
  }
  const before = await calls()
  const machine = await Lateness.of(redis)
  await pusher.push(3)
  await eventually('it is delivered', async () => idle.lateMs.length === 4)
  // The subject is what is asked while nothing happens.
  await new Promise(resolve => setTimeout(resolve, 800))
  const asked = (await calls()) - before
  // Push, fetch, acknowledgement, block; the pusher forgets what it has sent; the consumer may have looked once, and
  // blocked again.
  expect(asked).toBeLessThanOrEqual(7 + 2 * Math.floor((await machine.stop()) / 50))
  await Promise.all([idle.close(), pusher.close()])
})

import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import type { HttpOptions } from '../../../src/http/rate-limit/options.js'
import { RateLimitGate } from '../../../src/http/rate-limit/rate-limit.js'
import { ResponseWatch } from '../../../src/http/response-watch.js'
import { RedisStore } from '../../../src/redis/store/redis-store.js'
import { ManualClock } from '../../../src/testing.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'

interface Request {
  readonly key: string
  readonly id: number
}

const redis = testRedis()
let client: Redis
let names = 0
beforeAll(() => {
  client = redis.client()
})

/** Services of several processes over one queue and one store; time stands still until it is told to move. */
function setUp(
  policy: string,
  { processes = 1, ...more }: { processes?: number; maxPerKey?: number; maxSize?: number } = {},
) {
  const clock = new ManualClock(START)
  const name = `defer ${names++}`
  const { maxPerKey = 1000, maxSize } = more
  const queueOf = (connection: Redis) => new DelayQueue<Request>(connection, name, { clock, maxSize })
  const guards = Array.from({ length: processes }, () => {
    const connection = redis.client()
    const options: HttpOptions<Request, object> = {
      policy,
      key: req => req.key,
      store: new RedisStore(connection, { clock, prefix: name }),
      deadline: '20s',
      defer: { queue: queueOf(connection), message: req => req, maxPerKey, timeout: '20s' },
    }
    return new RateLimitGate(options, {
      name: 'Plain',
      address: () => undefined,
      peer: () => '',
      trust: () => 'nobody',
      requestHeader: () => undefined,
      responseHeader: () => undefined,
      // What a leaky bucket admits waits for its turn as long as its client is there.
      watch: () => new ResponseWatch(() => ({ gone: false, stuck: false, taken: 0, watch() {}, unwatch() {} })),
      decision: () => undefined,
    })
  })
  let asked = 0
  /** How many are passed on, deferred and refused. */
  const ask = async (count: number, key = 'k') => {
    const answers = await Promise.all(
      Array.from({ length: count }, () => guards[asked % processes].answer({ key, id: asked++ }, {})),
    )
    const statuses = answers.map(({ refusal }) => refusal?.status ?? 200)
    return [200, 202, 429].map(status => statuses.filter(one => one === status).length)
  }
  return { clock, name, ask, queue: queueOf(client) }
}

/** The most that lie in any span of so many ms. */
function mostIn(spanMs: number, moments: readonly number[]): number {
  const sorted = [...moments].sort((a, b) => a - b)
  let most = 0
  for (let first = 0, last = 0; last < sorted.length; last++) {
    while (sorted[last] - sorted[first] >= spanMs) first++
    most = Math.max(most, last - first + 1)
  }
  return most
}

test('500 messages at 10 per second and new requests together never exceed the policy', async () => {
  const { clock, ask, queue } = setUp('10/1s', { processes: 3 })
  // First those that pass: if processes reach the limit at the same instant, an allowed request may be deferred too
  // (see docs/decisions).
  expect(await ask(10)).toEqual([10, 0, 0])
  expect(await ask(500)).toEqual([0, 500, 0])
  const moments: number[] = new Array(10).fill(START)
  let late = 0
  while (moments.length < 510 + late) {
    clock.advance(100)
    const deliveries = await queue.receive({ count: 1000 })
    for (const delivery of deliveries) {
      moments.push(clock.now())
      await delivery.ack()
    }
    // Now and then a fresh request comes: it stands behind them.
    if (clock.now() % 5000 === 0 && late < 8) {
      late++
      expect(await ask(1)).toEqual([0, 1, 0])
    }
  }
  expect(mostIn(1000, moments)).toBe(10)
  expect(Math.max(...moments)).toBeLessThanOrEqual(START + 51_800)
  // All have left, and the last eight of them still count.
  expect(await ask(3)).toEqual([2, 1, 0])
  clock.advance(3000)
  expect(await ask(10)).toEqual([10, 0, 0])
  expect(await ask(2)).toEqual([0, 2, 0])
}, 60_000)

test.each([
  '5/1s',
  '5/1s fixed-window',
  '5/1s sliding-counter',
  '5/1s token-bucket',
  '5/1s leaky-bucket',
  '3/1s; 50/1m',
])('under %s several processes give each message its own moment, in order', async policy => {
  const { clock, ask, queue, name } = setUp(policy, { processes: 2 })
  await ask(30)
  const due = (await queue.stats()).delayed
  expect(due).toBeGreaterThanOrEqual(25)
  const moments: number[] = []
  while (moments.length < due) {
    clock.advance(50)
    for (const delivery of await queue.receive({ count: 100 })) {
      moments.push(delivery.dueAt)
      await delivery.ack()
    }
  }
  // The fixed window and the counter allow twice the quota across a boundary; none of them more.
  expect(mostIn(1000, moments)).toBeLessThanOrEqual(/fixed|counter/.test(policy) ? 10 : 5)
  expect(new Set(moments).size).toBeGreaterThanOrEqual(due / 5 - 1)
  expect(await client.keys(`*${name}*:schedule:*`)).not.toEqual([])
  for (const key of await client.keys(`*${name}*:schedule:*`)) expect(await client.pttl(key)).toBeGreaterThan(0)
})

test('one client fills neither the queue nor the schedule of other keys', async () => {
  const { ask, queue } = setUp('1/1s', { processes: 2, maxPerKey: 20 })
  expect(await ask(1)).toEqual([1, 0, 0])
  expect(await ask(99)).toEqual([0, 20, 79])
  expect(await ask(2, 'other')).toEqual([1, 1, 0])
  expect((await queue.stats()).delayed).toBe(21)
})

test('a message that the full queue refuses leaves its turn to the next', async () => {
  const { ask, queue } = setUp('1/1s', { maxSize: 2 })
  expect(await ask(5)).toEqual([1, 2, 2])
  await queue.clear()
  await ask(1)
  expect((await queue.stats()).nextDueAt).toBe(START + 3000)
})

test('processes that defer messages of one key at the same time give no moment twice', async () => {
  const { clock, ask, queue } = setUp('1/1s', { processes: 8 })
  const [passed, deferred] = await ask(41)
  // A request that passes the limiter while another process opens the schedule may be deferred with the others.
  expect(passed + deferred).toBe(41)
  clock.advance(100_000)
  const dues = (await queue.receive({ count: 100 })).map(({ dueAt }) => dueAt - START)
  expect(dues).toEqual(Array.from({ length: deferred }, (_, i) => (i + 1) * 1000))
})

test('requests of one process keep their order: an allowed request passes, although the next one is deferred', async () => {
  const { clock, ask } = setUp('10/1s')
  for (let round = 0; round < 3; round++) {
    expect(await ask(11)).toEqual([10, 1, 0])
    clock.advance(3000)
  }
})

test('while nothing is deferred, a request costs one lookup of the schedules', async () => {
  const { ask, name } = setUp('100/1s')
  expect(await ask(50)).toEqual([50, 0, 0])
  expect(await client.keys(`*${name}*:schedule:*`)).toEqual([])
})

test('when the server’s clock is set back, a schedule goes on as the queue does', async () => {
  const { clock, ask, queue } = setUp('1/1s')
  const second = async () => {
    clock.advance(1000)
    const deliveries = await queue.receive({ count: 10 })
    for (const delivery of deliveries) await delivery.ack()
    return deliveries.map(({ dueAt }) => dueAt - clock.now())
  }
  expect(await ask(1)).toEqual([1, 0, 0])
  expect(await ask(3)).toEqual([0, 3, 0])
  clock.advance(-3_600_000)
  // It comes behind them, by a second.
  expect(await ask(1)).toEqual([0, 1, 0])
  for (let i = 0; i < 4; i++) expect(await second()).toEqual([0])
  expect(await second()).toEqual([])
  expect(await ask(1)).toEqual([1, 0, 0])
  // Now the queue is empty, and its clock is forgotten.
  clock.advance(-3_600_000)
  expect(await ask(1)).toEqual([0, 1, 0])
  expect(await second()).toEqual([0])
})

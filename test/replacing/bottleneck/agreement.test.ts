import { describe, expect, jest, test } from '@jest/globals'
import { Bottleneck } from '../../../src/replacing/bottleneck/index.js'
import { Job, Queue } from '../../../src/replacing/bottleneck/job.js'
import { LocalStore } from '../../../src/replacing/bottleneck/local-store.js'
import {
  type LimiterSettings,
  STORE_DEFAULTS,
  type StoreOptions,
  withDefaults,
} from '../../../src/replacing/bottleneck/options.js'
import { keysOf, RedisStore } from '../../../src/replacing/bottleneck/redis-store.js'
import {
  BLOCKED,
  type Errand,
  FULL,
  type LimiterStore,
  type Tick,
  TOO_HEAVY,
  WAITS,
} from '../../../src/replacing/bottleneck/store.js'
import { ManualClock } from '../../../src/testing.js'
import { type Random, randomFrom } from '../../support/random.js'
import { testRedis } from '../../support/test-redis.js'

const server = testRedis()
const { LEAK, OVERFLOW, OVERFLOW_PRIORITY, BLOCK } = Bottleneck.strategy
const START = 1_700_000_000_000

/** The store in this process and that in Redis, with one clock. */
async function pairOf(options: LimiterSettings, clock: ManualClock) {
  const connection = new Bottleneck.IORedisConnection({ client: server.client() })
  let redis: RedisStore | undefined
  const openStore = (limiter: Bottleneck, given: LimiterSettings) => {
    redis = new RedisStore(connection, limiter, given, false, clock)
    return redis
  }
  const limiter = new Bottleneck({ ...options, connection: { datastore: 'ioredis', openStore } as never })
  await limiter.ready()
  const local = new LocalStore(withDefaults(options, STORE_DEFAULTS), null, 'local', () => {}, clock)
  return { local, redis: redis as unknown as RedisStore, connection, close: () => limiter.disconnect() }
}

function randomSettings({ pick, integer }: Random): Partial<StoreOptions> {
  return {
    maxConcurrent: pick([null, null, 1, 2, 5]),
    minTime: pick([0, 0, 10, 250]),
    highWater: pick([null, 0, 1, 3]),
    strategy: pick([LEAK, OVERFLOW, OVERFLOW_PRIORITY, BLOCK]),
    penalty: pick([null, 0, 40]),
    reservoir: pick([null, integer(0, 8)]),
    reservoirRefreshInterval: pick([null, 7, 100]),
    reservoirRefreshAmount: pick([null, 3, 6]),
    reservoirIncreaseInterval: pick([null, 9, 120]),
    reservoirIncreaseAmount: pick([null, 1, 4]),
    reservoirIncreaseMaximum: pick([null, 5]),
  }
}

function randomErrand(random: Random): Errand | undefined {
  const { pick, integer } = random
  const verb = pick<Errand['verb'] | undefined>([
    ...Array.from({ length: 5 }, () => undefined),
    ...(['running', 'done', 'queued', 'reservoir', 'check', 'add', 'set'] as const),
  ])
  if (verb === undefined) return undefined
  const all = Object.entries(randomSettings(random))
  const changes = verb === 'set' ? Object.fromEntries(all.filter(() => pick([true, false]))) : undefined
  return { verb, value: integer(0, 4), changes, resolve: () => {}, reject: () => {} }
}

/** A process with one limiter, whose every call goes to both stores. */
class Process {
  readonly queue = new Queue()
  inbox: Job[] = []
  running: Job[] = []
  errand: Errand | undefined

  constructor(
    readonly random: Random,
    readonly stores: { readonly local: LimiterStore; readonly redis: LimiterStore },
  ) {}

  async step(): Promise<void> {
    const { random, queue } = this
    const { integer, pick } = random
    const freed = this.running.filter(() => pick([true, false, false]))
    this.running = this.running.filter(job => !freed.includes(job))
    for (let i = pick([0, 0, 1, 1, 2, 4]); i > 0; i--) {
      const options = { weight: pick([0, 1, 1, 1, 2, 3]), priority: integer(3, 6), expiration: pick([null, 500]) }
      this.inbox.push(new Job(() => {}, [], options, Promise))
    }
    this.errand ??= randomErrand(random)
    const tick: Tick = {
      freed,
      ended: freed.reduce((sum, { options }) => sum + options.weight, 0),
      heads: queue.heads(integer(1, 3)),
      queued: queue.length,
      received: this.inbox,
      held: this.running.reduce((sum, { options }) => sum + options.weight, 0),
      longestMs: this.running.length > 0 ? -1 : 0,
      errand: this.errand,
    }
    const local = await this.stores.local.tick(tick)
    const { againMs, renewMs, dropsQueue, ...answer } = await this.stores.redis.tick(tick)
    // Redis tells whole ms; and of itself it knows when the client should look after others.
    expect({ ...answer, dropsQueue }).toEqual({
      waits: local.waits,
      verdicts: local.verdicts,
      result: local.result,
      running: local.running,
      reservoir: local.reservoir,
      maxConcurrent: local.maxConcurrent,
      strategy: local.strategy,
      dropsQueue: local.dropsQueue,
    })
    this.#apply(tick, local.waits, local.verdicts, local.strategy)
    if (local.result !== undefined) this.errand = undefined
    // After new settings a process asks at once.
    if (queue.length > 0 && tick.errand?.verb !== 'set')
      expect(againMs).toBe(Math.max(1, Math.min(5000, local.againMs)))
    expect(renewMs).toBeGreaterThan(0)
  }

  #apply({ heads, received }: Tick, waits: readonly number[], verdicts: readonly number[], strategy: number): void {
    const { queue } = this
    for (let i = 0; i < waits.length; i++) this.running.push(queue.shift() as Job)
    expect(this.running.slice(this.running.length - waits.length)).toEqual(heads.slice(0, waits.length))
    for (const [i, verdict] of verdicts.entries()) {
      const job = received[i]
      if (verdict >= 0) this.running.push(job)
      else if (verdict === WAITS) queue.push(job)
      else if (verdict === BLOCKED) while (queue.shift() !== undefined) {}
      else if (verdict === FULL && strategy !== OVERFLOW) {
        const least = job.options.priority + (strategy === OVERFLOW_PRIORITY ? 1 : 0)
        if (queue.shiftLast(least) !== undefined) queue.push(job)
      } else expect([FULL, TOO_HEAVY]).toContain(verdict)
    }
    this.inbox = received.slice(verdicts.length)
  }
}

describe('the store in the process and the script in Redis', () => {
  test.each(Array.from({ length: 40 }, (_, i) => `bottleneck ${i}`))(
    'answer random calls at the same times alike, field by field: %s',
    async seed => {
      const random = randomFrom(seed)
      const clock = new ManualClock(START)
      const { local, redis, close } = await pairOf({ ...(randomSettings(random) as object), id: seed }, clock)
      const process = new Process(random, { local, redis })
      for (let i = 0; i < 60; i++) {
        clock.advance(random.pick([0, 0, 1, 3, 10, 99, 100, 101, 260, 1000]))
        await process.step()
      }
      await close()
    },
  )

  test('a call that arrives once more after later ones changes nothing', async () => {
    const { redis, connection, close } = await pairOf({ id: 'late', reservoir: 9 }, new ManualClock(START))
    const sent = jest.spyOn(connection.port, 'evalsha')
    const tick = { freed: [], ended: 0, heads: [], queued: 0, received: [], held: 0, longestMs: -1, errand: undefined }
    const job = new Job(() => {}, [], {}, Promise)
    expect((await redis.tick({ ...tick, received: [job] })).verdicts).toEqual([0])
    const late = sent.mock.calls.at(-1) as Parameters<typeof connection.port.evalsha>
    expect((await redis.tick({ ...tick, held: 1, longestMs: -1 })).running).toBe(1)
    const state = () => Promise.all([keysOf('late')[0], keysOf('late')[3]].map(key => server.client().hgetall(key)))
    const before = await state()
    await connection.port.evalsha(...late)
    expect(await state()).toEqual(before)
    await close()
  })

  test('#73: what is kept of processes that have gone goes with their leases', async () => {
    const clock = new ManualClock(START)
    const tick = { freed: [], ended: 0, heads: [], queued: 0, received: [], held: 1, longestMs: -1, errand: undefined }
    for (let i = 0; i < 20; i++) {
      const { redis, close } = await pairOf({ id: 'gone' }, clock)
      await redis.tick(tick)
      await close()
    }
    clock.advance(30_001)
    const { redis, close } = await pairOf({ id: 'gone' }, clock)
    expect((await redis.tick(tick)).running).toBe(1)
    const [, clients, line, facts] = keysOf('gone')
    const client = server.client()
    expect([await client.zcard(clients), await client.zcard(line)]).toEqual([1, 0])
    // Two are the sums.
    expect(await client.hlen(facts)).toBe(3)
    await close()
  })

  test.each([
    ['reservoirRefreshInterval', { reservoirRefreshInterval: 90, reservoirRefreshAmount: 1 }],
    ['reservoirIncreaseInterval', { reservoirIncreaseInterval: 90, reservoirIncreaseAmount: 1 }],
  ])('a reservoir keeps its times to the ms, however late it is asked: %s', async (id, settings) => {
    const clock = new ManualClock(START)
    const { local, redis, close } = await pairOf({ id, reservoir: 0, ...settings }, clock)
    const random = randomFrom('times')
    const job = new Job(() => {}, [], { weight: 1 }, Promise)
    let launches = 0
    for (const end = START + 90 * 200; clock.now() < end; ) {
      const tick = {
        freed: [],
        ended: 0,
        heads: [job],
        queued: 1,
        received: [],
        held: 0,
        longestMs: -1,
        errand: undefined,
      }
      const answers = [await local.tick(tick), await redis.tick(tick)]
      const isLaunched = answers.map(({ waits }) => waits.length === 1)
      expect(isLaunched[1]).toBe(isLaunched[0])
      const due = Math.floor((clock.now() - START) / 90)
      if (isLaunched[0]) launches++
      expect(launches).toBeLessThanOrEqual(due)
      // The next one is due at the beginning + k × interval, whenever this one was noticed.
      if (!isLaunched[0]) {
        expect(answers.map(({ againMs }) => againMs)).toEqual([
          START + 90 * (due + 1) - clock.now(),
          expect.any(Number),
        ])
        expect(launches).toBe(due)
      }
      clock.advance(isLaunched[0] ? 0 : random.pick([1, 7, 30, 60, 89]))
    }
    expect(launches).toBeGreaterThanOrEqual(197)
    await close()
  })
})

import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { AutoBlock, type BlockOptions, parseBlock } from '../../../src/http/rate-limit/auto-block.js'
import { RedisStore } from '../../../src/index.js'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { optionsOf, RateLimiter, type RateLimiterOptions } from '../../../src/limiter/rate-limiter.js'
import type { Store } from '../../../src/limiter/store.js'
import { ManualClock } from '../../../src/testing.js'
import { forCases } from '../../support/cases.js'
import { eventually } from '../../support/eventually.js'
import { START } from '../../support/stories.js'
import { StubStore } from '../../support/stub-store.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
let prefixes = 0
beforeAll(() => {
  client = redis.client()
})

/** Only timeouts are fake. */
const NOT_TIMERS = [
  'Date',
  'hrtime',
  'nextTick',
  'performance',
  'queueMicrotask',
  'setImmediate',
  'clearImmediate',
  'setInterval',
  'clearInterval',
] as const
afterEach(() => void jest.useRealTimers())

/** A limiter whose denials are counted. */
function struck(block: BlockOptions, options: RateLimiterOptions) {
  const limiter = new RateLimiter({ deadline: '5s', ...options })
  const autoBlock = new AutoBlock(parseBlock(block), optionsOf(limiter).store!)
  const ask = async (key: string | Record<string, string> = 'k', cost = 1) => {
    const decision = await limiter.consume(key, cost)
    return decision.allowed ? decision : autoBlock.countDenial(limiter, decision)
  }
  return { limiter, ask }
}

describe.each<[string, (clock: ManualClock) => Store]>([
  ['memory', clock => new MemoryStore({ clock })],
  ['Redis', clock => new RedisStore(client, { clock, prefix: `strikes ${prefixes++}` })],
])('a key that is denied too often, on %s,', (_, makeStore) => {
  let store: Store
  afterEach(() => store.close?.())
  const setUp = (block: BlockOptions, policy = '1/1m') => {
    const clock = new ManualClock(START)
    store = makeStore(clock)
    return { clock, ...struck(block, { policy, store }) }
  }

  test('is blocked from the last counted denial until the end of the block', async () => {
    const { clock, ask } = setUp({ after: 3, for: '1h' })
    await ask()
    clock.advance(10_000)
    expect(await ask()).toMatchObject({ allowed: false, retryAfterMs: 50_000 })
    expect((await ask()).blocked).toBeUndefined()
    expect(await ask()).toMatchObject({ allowed: false, blocked: true, retryAfterMs: 3_600_000 })
    clock.advance(3_599_999)
    expect(await ask()).toMatchObject({ allowed: false, blocked: true, retryAfterMs: 1 })
    clock.advance(1)
    expect(await ask()).toMatchObject({ allowed: true })
  })

  test('may be blocked for as long as any limit counts', async () => {
    const { ask } = setUp({ after: 1, for: '3650000d', factor: 2, max: '3650000d' }, '1/3650000d')
    await ask()
    expect(await ask()).toMatchObject({ allowed: false, blocked: true, retryAfterMs: 3_650_000 * 86_400_000 })
  })

  test('blocks no other key', async () => {
    const { ask } = setUp({ after: 1, for: '1h' })
    await ask()
    expect(await ask()).toMatchObject({ blocked: true })
    expect(await ask('other')).toMatchObject({ allowed: true })
  })

  test('gets a new count when the window has passed since its first denial', async () => {
    const { clock, ask } = setUp({ after: 2, for: '1h', window: '10s' })
    await ask()
    await ask()
    clock.advance(10_000)
    expect((await ask()).blocked).toBeUndefined()
    clock.advance(9999)
    expect((await ask()).blocked).toBe(true)
  })

  test('after its block needs as many denials again', async () => {
    const { clock, ask } = setUp({ after: 2, for: '2m' })
    for (let i = 0; i < 3; i++) await ask()
    clock.advance(120_000)
    await ask()
    expect((await ask()).blocked).toBeUndefined()
    expect((await ask()).blocked).toBe(true)
  })

  test('is blocked for longer each time, at most `max`, and begins anew `forget` after its last block has ended', async () => {
    const { clock, ask } = setUp({ after: 1, for: '10s', factor: 2, max: '50s', forget: '100s', window: '5s' }, '1/1s')
    const block = async () => {
      await ask()
      const { blocked, retryAfterMs } = await ask()
      expect(blocked).toBe(true)
      return retryAfterMs
    }
    const lengths: number[] = []
    for (const pauseMs of [0, 99_000, 100_000, 0, 0]) {
      lengths.push(await block())
      clock.advance((lengths.at(-1) as number) + pauseMs)
    }
    expect(lengths).toEqual([10_000, 20_000, 40_000, 50_000, 50_000])
    clock.advance(100_001)
    expect(await block()).toBe(10_000)
  })

  test('is not counted while it is blocked, and the block is not made longer', async () => {
    const { clock, ask } = setUp({ after: 1, for: '1h' })
    await ask()
    await ask()
    clock.advance(1000)
    for (let i = 0; i < 5; i++) expect((await ask()).retryAfterMs).toBe(3_599_000)
  })

  test('is not counted for costs that can never fit', async () => {
    const { ask } = setUp({ after: 1, for: '1h' })
    const decision = await ask('k', 2)
    expect([decision.retryAfterMs, decision.blocked]).toEqual([Number.POSITIVE_INFINITY, undefined])
    expect(await ask()).toMatchObject({ allowed: true })
  })

  test('is blocked under the limit that denied it, whatever its other keys are', async () => {
    const { ask } = setUp({ after: 1, for: '1h' }, '1/1m name=ip; 9/1h name=user')
    await ask({ ip: 'a', user: 'u' })
    expect(await ask({ ip: 'a', user: 'v' })).toMatchObject({ blocked: true, key: 'a', limit: { name: 'ip' } })
    expect(await ask({ ip: 'b', user: 'u' })).toMatchObject({ allowed: true })
  })
})

test('refusals that the deny cache gives are counted without asking Redis for each', async () => {
  const store = new RedisStore(client, { prefix: `strikes ${prefixes++}` })
  const { ask } = struck({ after: 200, for: '1h' }, { policy: '10/1h', store })
  const calls = async () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? 0)
  await ask()
  const before = await calls()
  let blockedAt = 0
  for (let i = 2; i <= 300; i++) if ((await ask()).blocked && blockedAt === 0) blockedAt = i
  // Ten pass, and the 200th denial blocks.
  expect(blockedAt).toBe(210)
  expect(await calls()).toBeLessThanOrEqual(before + 30)
})

test('denials in several processes at once block the key together', async () => {
  const prefix = `strikes ${prefixes++}`
  const processes = [0, 1, 2, 3].map(() => {
    const store = new RedisStore(redis.client(), { prefix })
    return struck({ after: 40, for: '1h' }, { policy: '1/1h', store })
  })
  await processes[0].ask()
  let denied = 0
  for (;;) {
    const decisions = await Promise.all(processes.map(({ ask }) => ask()))
    if (decisions.some(({ blocked }) => blocked)) break
    denied += decisions.length
    // Real time between two requests, because each process tells of its denials by a timer.
    await new Promise(resolve => setTimeout(resolve, 10))
  }
  // Each process tells of its denials after 100 ms at the latest: about ten of each.
  expect(denied).toBeGreaterThanOrEqual(36)
  expect(denied).toBeLessThanOrEqual(40 + 4 * 12)
})

describe('denials at once over many connections make one block, as they would one after another:', () => {
  const CONNECTIONS = 8
  let clients: Redis[]
  beforeAll(() => {
    clients = Array.from({ length: CONNECTIONS }, () => redis.client())
  })
  /** Processes that share a key's counts; each has its own connection, and remembers denials of its own. */
  const processes = (block: BlockOptions, clock?: ManualClock, denyCache = true) => {
    const prefix = `strikes ${prefixes++}`
    const services = clients.map(client =>
      struck(block, { policy: '5/20ms', store: new RedisStore(client, { prefix, clock }), denyCache }),
    )
    /** The block that so many requests at once find or make, ms; 0: none. */
    const burst = async (requests: number) => {
      const asked = Array.from({ length: requests }, (_, i) => services[i % CONNECTIONS].ask())
      const decisions = await Promise.all(asked)
      const blocked = decisions.filter(({ blocked }) => blocked)
      const denied = decisions.filter(({ allowed }) => !allowed)
      return {
        blockMs: Math.max(0, ...blocked.map(({ retryAfterMs }) => retryAfterMs)),
        blocked: blocked.length,
        denied: denied.length,
      }
    }
    return { services, burst }
  }
  const SIZES = [15, 16, 18, 20, 24, 30, 40, 100, 300]

  test.each(SIZES)('%d requests, four times', async requests => {
    const clock = new ManualClock(START)
    const { burst } = processes({ after: 10, for: '1s', factor: 2, window: '1m' }, clock)
    const blocks: number[] = []
    for (let i = 0; i < 4; i++) {
      const { blockMs, blocked, denied } = await burst(requests)
      // Five pass; of the denials, those before the tenth may be answered before there is a block.
      expect([denied, blocked > denied - 10]).toEqual([requests - 5, true])
      blocks.push(blockMs)
      clock.advance(blockMs)
    }
    expect(blocks).toEqual([1000, 2000, 4000, 8000])
  })

  test('by the clock of Redis', async () => {
    const { burst } = processes({ after: 10, for: '1m', factor: 2 })
    expect((await burst(300)).blockMs).toBe(60_000)
  })

  test('bursts of any size, at any time', () =>
    forCases(60, 'bursts', async random => {
      const clock = new ManualClock(START)
      const after = random.integer(2, 30)
      const block = { after, for: '1s', factor: 2, max: '10s', forget: '20s', window: '5s' }
      // Without the deny cache, every denial is reported at once.
      const { burst } = processes(block, clock, false)
      let [counted, windowEndsAt, number, endsAt] = [0, 0, 0, 0]
      for (let i = 0; i < 8; i++) {
        const now = clock.now()
        if (now >= windowEndsAt) counted = 0
        const requests = random.integer(1, 60)
        const { blockMs, denied } = await burst(requests)
        if (now < endsAt) expect([denied, blockMs]).toEqual([requests, endsAt - now])
        else {
          if (counted === 0 && denied > 0) windowEndsAt = now + 5000
          counted += denied
          number = counted < after ? number : now - endsAt <= 20_000 ? number + 1 : 1
          const lengthMs = counted < after ? 0 : Math.min(10_000, 1000 * 2 ** (number - 1))
          expect(blockMs).toBe(lengthMs)
          if (lengthMs > 0) {
            counted = 0
            endsAt = now + lengthMs
          }
        }
        clock.advance(random.pick([20, 500, 1000, 5000, blockMs, 25_000]))
      }
    }))
})

test('denials that processes remember count together, also when no request comes after them', async () => {
  const prefix = `strikes ${prefixes++}`
  const processes = Array.from({ length: 4 }, () => {
    const store = new RedisStore(redis.client(), { prefix })
    return struck({ after: 20, for: '1h' }, { policy: '1/1h', store })
  })
  await processes[0].ask()
  // None of them alone makes as many, and all but the first of each are remembered denials, which cost Redis nothing.
  for (const { ask } of processes) for (let i = 0; i < 7; i++) await ask()
  await eventually('blocked', async () => (await processes[0].limiter.peek('k')).blocked === true)
})

test('denials that a process reports late, from before the end of a block, have no part in the next one', async () => {
  // The second process does not come to report by its timer.
  jest.useFakeTimers({ doNotFake: [...NOT_TIMERS] })
  const clock = new ManualClock(START)
  const prefix = `strikes ${prefixes++}`
  const [first, second] = [false, true].map(denyCache =>
    struck(
      { after: 8, for: '1s', factor: 2 },
      { policy: '1/1h', store: new RedisStore(redis.client(), { prefix, clock }), denyCache },
    ),
  )
  await first.ask()
  const blocked = async ({ ask }: typeof first, times: number) => {
    const asked: boolean[] = []
    for (let i = 0; i < times; i++) asked.push((await ask()).blocked ?? false)
    return asked.lastIndexOf(true) === -1 ? 0 : asked.indexOf(true) + 1
  }
  // The second process reports one denial, and then has some of which nobody knows.
  expect(await blocked(second, 6)).toBe(0)
  expect(await blocked(first, 7)).toBe(7)
  clock.advance(1000)
  expect(await blocked(second, 1)).toBe(0)
  expect(await blocked(first, 10)).toBe(7)
  jest.useRealTimers()
})

test('a store without strikes is told of one block for denials at once', async () => {
  const store = new StubStore()
  const { ask } = struck({ after: 3, for: '1h' }, { policy: '1/1m', store, denyCache: false })
  store.deny(500)
  const decisions = await Promise.all(Array.from({ length: 20 }, () => ask()))
  expect(decisions.filter(({ blocked }) => blocked)).toHaveLength(19)
  expect(store.calls.filter(call => call.startsWith('block'))).toEqual(['block k@1-per-1m 3600000'])
})

test('a store that cannot block is refused', () => {
  const store = Object.assign(new StubStore(), { block: undefined })
  const attempt = () => new AutoBlock(parseBlock({ after: 3, for: '1h' }), store)
  expect(attempt).toThrow(PolicyError)
  expect(attempt).toThrow(
    'rateLimit: block: the store an object of class StubStore has no block(): expected a store that has',
  )
})

test('keys of any length are counted apart', async () => {
  const store = new MemoryStore({ clock: new ManualClock(START) })
  const { ask } = struck({ after: 3, for: '1h' }, { policy: '1/1m', store })
  const long = 'x'.repeat(15_000)
  for (let i = 0; i < 4; i++) await ask(long)
  expect((await ask(long)).blocked).toBe(true)
  expect((await ask(`${long}!`)).allowed).toBe(true)
})

test('while the store fails no denial is counted', async () => {
  const store = new StubStore()
  const { limiter, ask } = struck({ after: 1, for: '1h' }, { policy: '1/1m', store, onStoreFailure: 'closed' })
  store.answer = async () => {
    throw new Error('down')
  }
  for (let i = 0; i < 3; i++) expect(await ask()).toMatchObject({ allowed: false, degraded: true, source: 'closed' })
  expect(store.calls.filter(call => call.startsWith('block'))).toEqual([])
  await limiter.close()
})

test('a block that the store does not take leaves the denial as it was', async () => {
  const store = new StubStore()
  const { ask } = struck({ after: 1, for: '1h' }, { policy: '1/1m', store, denyCache: false })
  store.deny(500)
  store.act = async () => {
    throw new Error('down')
  }
  const decision = await ask()
  expect([decision.allowed, decision.retryAfterMs, decision.blocked]).toEqual([false, 500, undefined])
  expect(store.calls.filter(call => call.startsWith('block'))).toHaveLength(1)
})

import { describe, expect, test } from '@jest/globals'
import { RedisStore } from '../../../src/index.js'
import { StoreError } from '../../../src/limiter/core/errors.js'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import type { Charge } from '../../../src/limiter/store.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

const charges: readonly Charge[] = [{ key: 'k', limit: parsePolicy('5/1m')[0] }]

/** A client of a real server whose answers to scripts are changed on their way. */
function answering(reply: unknown) {
  return Object.assign(redis.client(), { evalsha: async () => reply, eval: async () => reply })
}

test('six limits of five kinds are one script call', async () => {
  const client = redis.client()
  const calls = async () => Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(await client.info('commandstats'))?.[1] ?? 0)
  const policy = parsePolicy(
    '9/1s token-bucket; 20/1m fixed-window; 50/10m sliding-counter; 100/1h; 500/1d; 900/30d leaky-bucket',
  )
  const store = new RedisStore(client, { prefix: 'six' })
  const six = (key: string) => policy.map(limit => ({ key, limit }))
  await store.consume(six('to learn the script'), 1)
  const before = await calls()
  expect(await store.consume(six('k'), 1)).toHaveLength(6)
  expect((await calls()) - before).toBe(1)
  await Promise.all(Array.from({ length: 32 }, (_, i) => store.consume(six(`k ${i}`), 1)))
  expect((await calls()) - before).toBe(2)
})

test('decisions of one turn of the event loop are one call, or as few as maxBatch allows', async () => {
  const client = redis.client()
  const calls = async () => Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(await client.info('commandstats'))?.[1] ?? 0)
  const store = new RedisStore(client, { prefix: 'turns', maxBatch: 50 })
  await store.consume(charges, 1)
  for (const [decisions, expected] of [
    [1, 1],
    [50, 1],
    [51, 2],
    [400, 8],
  ]) {
    const before = await calls()
    const keys = Array.from({ length: decisions }, (_, i) => String(i % 7))
    const remaining = await Promise.all(
      keys.map(async key => (await store.peek([{ key, limit: charges[0].limit }], 1))[0].remaining),
    )
    expect(remaining).toEqual(keys.map(() => 4))
    expect((await calls()) - before).toBe(expected)
  }
})

test('callers that ask again as soon as they are answered are divided into two calls, so that server and process work at the same time', async () => {
  const client = redis.client()
  const calls = async () => Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(await client.info('commandstats'))?.[1] ?? 0)
  const store = new RedisStore(client, { prefix: 'halves' })
  await store.consume(charges, 1)
  const rounds = async (callers: number, count: number) => {
    const before = await calls()
    await Promise.all(
      Array.from({ length: callers }, async () => {
        for (let i = 0; i < count; i++) await store.peek(charges, 1)
      }),
    )
    return (await calls()) - before
  }
  expect(await rounds(64, 1)).toBe(1)
  expect(await rounds(64, 5)).toBe(1 + 4 * 2)
  // Too few to be worth it.
  expect(await rounds(31, 5)).toBe(5)
})

test('ioredis writes a decision as one text: with a buffer among the arguments it would take twice as long', async () => {
  const client = redis.client()
  const store = new RedisStore(client, { prefix: 'text' })
  for (let i = 0; i < 2; i++) await store.consume(charges, 1)
  const { stream } = client as unknown as { stream: { write(chunk: unknown): boolean } }
  const chunks: unknown[] = []
  const { write } = stream
  stream.write = chunk => {
    chunks.push(chunk)
    return write.call(stream, chunk)
  }
  await store.consume(charges, 1)
  expect(chunks).toEqual([expect.stringContaining('evalsha')])
})

describe('a reply of the wrong shape fails the decision, and nothing else', () => {
  // A rejection that nobody hears would end this process, and with it the test.
  test.each([[null], [undefined], ['OK'], [7], [[]], [{}]])('%p', async reply => {
    const store = new RedisStore(answering(reply))
    await expect(store.consume(charges, 1)).rejects.toThrow(StoreError)
    await expect(store.peek(charges, 1)).rejects.toThrow(/^Redis answered .*, expected a list of numbers/)
    await new Promise(resolve => setImmediate(resolve))
  })

  test.each([[[1]], [[1, null]], [[1, 'x', 'y']]])('%p', async reply => {
    const store = new RedisStore(answering(reply))
    await expect(store.consume(charges, 1)).rejects.toThrow(StoreError)
  })
})

test('a clock that fails is a failure of the decision, and nothing worse', async () => {
  let broken = false
  const clock = {
    now() {
      if (broken) throw new Error('no time')
      return 1_700_000_000_000
    },
  }
  const store = new RedisStore(redis.client(), { clock, prefix: 'clock' })
  expect(await store.consume(charges, 1)).toMatchObject([{ allowed: true, remaining: 4 }])
  broken = true
  await expect(store.consume(charges, 1)).rejects.toThrow('the clock failed: no time')
  await expect(store.refund(charges, 1)).rejects.toThrow('no time')
  const limiter = new RateLimiter({ policy: '5/1m', store, onStoreFailure: 'open' })
  expect(await limiter.consume('k')).toMatchObject({ allowed: true, source: 'open' })
  broken = false
  expect(await store.consume(charges, 1)).toMatchObject([{ allowed: true, remaining: 3 }])
})

test.each([false, true])(
  'a clock that fails at times leaves each process to count alone (leases: %s)',
  async leases => {
    let broken = true
    const clock = {
      now() {
        if (broken) throw new Error('no time')
        return 1_700_000_000_000
      },
    }
    const store = new RedisStore(redis.client(), { clock, leases, prefix: `counting alone ${leases}` })
    const limiter = new RateLimiter({ policy: '100/1m fixed-window', store, observer: {}, deadline: '5s' })
    const remaining = async (): Promise<[boolean, number]> => {
      const { source, remaining } = await limiter.consume('k')
      return [source === 'fallback', remaining]
    }
    for (let spent = 1; spent <= 2; spent++) expect(await remaining()).toEqual([true, 100 - spent])
    broken = false
    for (let spent = 1; spent <= 20; spent++) expect(await remaining()).toEqual([false, 100 - spent])
    broken = true
    let isAlone = false
    while (!isAlone) [isAlone] = await remaining()
    expect(await remaining()).toEqual([true, 96])
    await limiter.close()
  },
)

test('a client that throws is a failure of the decision, and nothing worse', async () => {
  const client = Object.assign(redis.client(), {
    evalsha() {
      throw new Error('watched too closely')
    },
  })
  const store = new RedisStore(client)
  await expect(store.consume(charges, 1)).rejects.toThrow('Redis failed to decide: watched too closely')
  await expect(store.refund(charges, 1)).rejects.toThrow('Redis failed to refund: watched too closely')
})

describe('while the client seeks its first connection', () => {
  /** A client of the server that is ready when it is told to be. */
  async function starting() {
    const client = redis.client()
    await client.ping()
    const ready = new Set<() => void>()
    let status = 'connecting'
    return {
      get status() {
        return status
      },
      evalsha: client.evalsha.bind(client),
      eval: client.eval.bind(client),
      connect: async () => {},
      on(event: string, listener: () => void) {
        if (event === 'ready') ready.add(listener)
      },
      start() {
        status = 'ready'
        for (const listener of ready) listener()
      },
    }
  }

  test('decisions wait until their deadline; later they are not carried out', async () => {
    const client = await starting()
    const store = new RedisStore(client, { prefix: 'held' })
    const limiters = [100, 5000].map(deadline => new RateLimiter({ policy: '50/1m', store, deadline }))
    const decisions = limiters.map(limiter => limiter.consume('k'))
    expect(await decisions[0]).toMatchObject({ degraded: true })
    // A connection that takes more than a second.
    await new Promise(resolve => setTimeout(resolve, 1100))
    client.start()
    expect(await decisions[1]).toMatchObject({ source: 'redis', remaining: 49 })
    expect(await limiters[1].peek('k', 0)).toMatchObject({ source: 'redis', remaining: 49 })
  })

  test('a caller that asks again right after its deadline also waits for the connection', async () => {
    const client = await starting()
    const store = new RedisStore(client, { maxBatch: 2, prefix: 'again' })
    let again: Promise<unknown> | undefined
    const patient = new RateLimiter({ policy: '50/1m', store, deadline: 5000 })
    const limiter = new RateLimiter({
      policy: '50/1m',
      store,
      deadline: 100,
      observer: {
        storeFailed() {
          again ??= patient.consume('again')
        },
      },
    })
    expect(await limiter.consume('old')).toMatchObject({ degraded: true })
    const rest = ['b', 'c', 'd'].map(key => patient.consume(key))
    client.start()
    expect(await again).toMatchObject({ source: 'redis' })
    expect((await Promise.all(rest)).map(({ source }) => source)).toEqual(['redis', 'redis', 'redis'])
  })
})

test('a call holds about a millisecond of work: fewer decisions of many limits than of one', async () => {
  const client = redis.client()
  const calls = async () => Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(await client.info('commandstats'))?.[1] ?? 0)
  const store = new RedisStore(client, { prefix: 'work' })
  const six = (algorithm: string) => parsePolicy([1, 2, 3, 4, 5, 6].map(hours => `9/${hours}h ${algorithm}`).join(';'))
  for (const [policy, atLeast] of [
    [parsePolicy('9/1h fixed-window'), 1],
    [parsePolicy('9/1h'), 1],
    [six('token-bucket'), 3],
    [six('sliding-window'), 6],
  ] as const) {
    const consume = (key: string) =>
      store.consume(
        policy.map(limit => ({ key, limit })),
        1,
      )
    await consume('to learn the script')
    const before = await calls()
    await Promise.all(Array.from({ length: 128 }, (_, i) => consume(`k ${i}`)))
    const made = (await calls()) - before
    expect(made).toBeGreaterThanOrEqual(atLeast)
    expect(made).toBeLessThanOrEqual(atLeast + 1)
  }
})

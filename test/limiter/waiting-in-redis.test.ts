import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { StoreError } from '../../src/limiter/core/errors.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../src/testing.js'
import { childProgram } from '../support/child-program.js'
import { eventually } from '../support/eventually.js'
import { Lateness } from '../support/lateness.js'
import * as lines from '../support/lines.js'
import { stateKeys } from '../support/state-keys.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})
afterEach(() => client.flushall())

const KINDS = ['2/1s', '2/1s token-bucket', '2/1s leaky-bucket burst=2'] as const

const limiterOf = (policy: string, options: Partial<RateLimiterOptions> = {}, over: Redis = client) =>
  new RateLimiter({ policy, store: new RedisStore(over), deadline: '5s', denyCache: false, ...options })

/** Resolves when so many wait for the key, of all processes. */
const inLine = (count: number, key = 'k', over: Redis = client) => lines.inLine(over, `*{${key}}*:line`, count)

/** The key of what has been spent. */
const stateOf = async () => (await stateKeys(client)).filter(key => !/:line|!/.test(key))[0]

/** Waits and gives up. */
async function withdrawn(limiter: RateLimiter, key: string): Promise<void> {
  await limiter.acquire(key)
  const control = new AbortController()
  const waiting = limiter.acquire(key, { signal: control.signal })
  await limiter.peek(key, 0)
  control.abort(new Error('withdrawn'))
  await waiting
}

describe('a waiter', () => {
  test('does not wake the others: 30 on 20 per second cost at most two script calls each, in order, and one that gives up frees its place', async () => {
    const limiter = limiterOf('200/10s token-bucket burst=1')
    // The server learns the scripts.
    await limiterOf('1/1s').acquire('other', { timeout: 0 })
    await expect(withdrawn(limiterOf('1/1h'), 'another')).rejects.toThrow('withdrawn')
    await limiter.peek('k', 0)
    const before = await lines.scriptCalls(client)
    const control = new AbortController()
    const order: number[] = []
    const startedAt = performance.now()
    const waiting = Array.from({ length: 31 }, async (_, i) => {
      try {
        await limiter.acquire('k', i === 15 ? { signal: control.signal } : {})
        order.push(i)
      } catch (error) {
        expect([i, error]).toEqual([15, control.signal.reason])
      }
    })
    await limiter.peek('k', 0)
    control.abort(new Error('no more'))
    await Promise.all(waiting)
    const tookMs = performance.now() - startedAt
    expect(order).toEqual(Array.from({ length: 31 }, (_, i) => i).filter(i => i !== 15))
    expect((await lines.scriptCalls(client)) - before).toBeLessThanOrEqual(2 * 30 + 3)
    expect(tookMs).toBeGreaterThanOrEqual(29 * 50 - 1)
    // Had its place stayed taken, the last one would have come 50 ms later; that is seen where time is counted, in
    // Redis.
    expect((await limiter.peek('k', 0)).resetAfterMs).toBeLessThanOrEqual(50)
  })

  test.each(KINDS)('leaves no key without a lifetime (%s)', async policy => {
    const limiter = limiterOf(policy)
    const control = new AbortController()
    const waiting = Array.from({ length: 6 }, (_, i) =>
      limiter.acquire('k', i > 2 ? { signal: control.signal } : {}).catch(() => {}),
    )
    const endless = async () => {
      const keys = await stateKeys(client)
      expect(keys.length).toBeGreaterThan(0)
      const lives = await Promise.all(keys.map(async key => [key, await client.pttl(key)] as const))
      return lives.filter(([, ms]) => ms === -1 || ms > 60_000)
    }
    await limiter.peek('k', 0)
    expect(await endless()).toEqual([])
    control.abort()
    await limiter.peek('k', 0)
    expect(await endless()).toEqual([])
    await limiter.reset('k')
    await Promise.all(waiting)
  })
})

/** Joins the line and leaves it: the process asks, and is granted what fits. */
async function withdraws(limiter: RateLimiter): Promise<void> {
  const control = new AbortController()
  const extra = limiter.acquire('k', { signal: control.signal })
  await limiter.peek('k', 0)
  control.abort(new Error('withdrawn'))
  await expect(extra).rejects.toThrow('withdrawn')
  await limiter.peek('k', 0)
}

describe('waiters of different limits in one line', () => {
  test.each(['sliding-window', 'fixed-window'] as const)(
    'are each measured by their own limit, and keep their order (%s)',
    async algorithm => {
      const limiterWith = (quota: number) => {
        const policy = { name: 'shared', quota, window: '1h', algorithm } as const
        return new RateLimiter({ policy, store: new RedisStore(redis.client()), deadline: '5s', denyCache: false })
      }
      const [low, high] = [limiterWith(1), limiterWith(3)]
      const order: string[] = []
      const wait = (limiter: RateLimiter, who: string) =>
        limiter.acquire('k').then(({ allowed }) => order.push(`${who} ${allowed}`))
      await high.consume('k', 2)
      const all = [wait(low, 'low')]
      await inLine(1)
      all.push(wait(high, 'high'))
      await inLine(2)
      all.push(wait(low, 'last'))
      await inLine(3)
      // One is spent, which is too much for a limit of one: neither does the higher limit's refund grant it, nor does
      // anybody overtake it.
      await high.refund('k', 1)
      await withdraws(high)
      await withdraws(low)
      await inLine(3)
      expect(order).toEqual([])
      await high.refund('k', 1)
      await eventually('two are granted', async () => order.length === 2)
      await inLine(1)
      expect((await high.peek('k', 0)).remaining).toBe(1)
      await high.refund('k', 2)
      await Promise.all(all)
      expect(order).toEqual(['low true', 'high true', 'last true'])
      expect((await high.peek('k', 0)).remaining).toBe(2)
    },
  )
})

describe('a step of the clock while a line waits', () => {
  test.each([
    // What was spent before counts as spent at the moment of the step, so that a window passes first.
    ['back', -3_600_000, [0, 2, 4]],
    ['on', 3_600_000, [2, 4]],
  ])(
    'an hour %s: no request waits for longer than a window, and never more than the quota is granted',
    async (_, stepMs, grants) => {
      const clock = new ManualClock(Date.now())
      const limiter = new RateLimiter({
        policy: '2/2s',
        store: new RedisStore(client, { clock }),
        denyCache: false,
        deadline: '5s',
      })
      await limiter.consume('k', 2)
      let granted = 0
      const all = Array.from({ length: 4 }, () => limiter.acquire('k').then(() => granted++))
      await inLine(4)
      clock.advance(stepMs)
      // Behind four who wait for two a window there are three windows at most.
      expect((await limiter.peek('k')).retryAfterMs).toBeLessThanOrEqual(6000)
      for (const count of grants) {
        await withdraws(limiter)
        await eventually(`${count} are granted`, async () => granted >= count)
        expect(granted).toBe(count)
        clock.advance(2000)
      }
      await Promise.all(all)
      // Sends the last withdrawal now. Sent during the next test, whose clock is an hour away, it would change what
      // that test spends.
      await limiter.close()
    },
  )
})

describe('an ask', () => {
  test.each(KINDS)('that the store answers late takes nothing (%s)', async policy => {
    // In an hour nothing comes back by itself.
    const limiter = limiterOf(policy.replace('1s', '1h'), { deadline: 50, onStoreFailure: 'closed' })
    await limiter.consume('k')
    expect((await limiter.peek('k', 0)).remaining).toBe(1)
    redis.pause()
    await expect(limiter.acquire('k')).rejects.toThrow(StoreError)
    redis.unpause()
    const patient = limiterOf(policy.replace('1s', '1h'))
    await eventually('it is carried out and given back', async () => (await client.keys('*:sent:*')).length > 0)
    await eventually('it is given back', async () => (await patient.peek('k', 0)).remaining === 1)
  })

  test('that the store refused late gives nothing back', async () => {
    const limiter = limiterOf('1/1h', { deadline: 50, onStoreFailure: 'closed' })
    await limiter.consume('k')
    redis.pause()
    await expect(limiter.acquire('k', { timeout: '1m' })).rejects.toThrow(StoreError)
    redis.unpause()
    await eventually('it is carried out', async () => (await client.keys('*:sent:*')).length > 0)
    // As long as it would take to give something back.
    await new Promise(resolve => setTimeout(resolve, 50))
    expect((await limiterOf('1/1h').peek('k', 0)).remaining).toBe(0)
  })

  test('for a key with a foreign value counts it as unused', async () => {
    const limiter = limiterOf('2/1s', { onStoreFailure: 'closed' })
    await limiter.acquire('k')
    await client.set(await stateOf(), 'something else')
    expect(await limiter.acquire('k')).toMatchObject({ allowed: true, degraded: false, remaining: 1 })
  })

  test('of a line with a foreign value fails, and spends nothing; under local it waits in its process', async () => {
    const limiter = limiterOf('2/1h', { onStoreFailure: 'closed' })
    await limiter.acquire('k')
    await client.set(`${await stateOf()}:line:meta`, 'something else')
    const standing = await limiter.peek('k', 0)
    await expect(limiter.acquire('k')).rejects.toThrow(/WRONGTYPE/)
    expect((await limiter.peek('k', 0)).resetAfterMs).toBeLessThanOrEqual(standing.resetAfterMs)
    expect(await limiterOf('2/1h', { onStoreFailure: 'local' }).acquire('k')).toMatchObject({ remaining: 0 })
  })

  test('of a line of another version fails with an error that names the version', async () => {
    const limiter = limiterOf('1/1h', { onStoreFailure: 'closed' })
    await limiter.acquire('k')
    await client.hset(`${await stateOf()}:line:meta`, 'v', '9')
    await expect(limiter.acquire('k')).rejects.toThrow(/the waiting line has version 9, this process expects version 1/)
  })
})

describe('a grant that its process reads only in the next window takes no unit of others', () => {
  const setUp = async () => {
    const clock = new ManualClock(Date.now())
    const limiter = new RateLimiter({
      policy: '10/1s fixed-window',
      store: new RedisStore(client, { clock }),
      denyCache: false,
      deadline: '5s',
    })
    // The server learns the scripts.
    await limiter.acquire('other', { timeout: 0 })
    await limiter.consume('other')
    const control = new AbortController()
    redis.pause()
    const waiting = limiter.acquire('k', { signal: control.signal })
    // The ask is sent at the end of the turn, with the time of this window.
    await new Promise(setImmediate)
    clock.advance(1000)
    const others = limiter.consume('k', 10)
    return { clock, limiter, control, waiting, others }
  }

  test('if the waiter has given up', async () => {
    const { limiter, control, waiting, others } = await setUp()
    control.abort(new Error('no more'))
    redis.unpause()
    await expect(waiting).rejects.toThrow('no more')
    expect(await others).toMatchObject({ allowed: true })
    // The grant is given back by then.
    await limiter.close()
    expect((await limiter.peek('k', 0)).remaining).toBe(0)
  })

  test('if it is too old to be used', async () => {
    const { clock, limiter, waiting, others } = await setUp()
    // A tenth of the window in real time makes a grant late.
    await new Promise(resolve => setTimeout(resolve, 150))
    redis.unpause()
    expect(await others).toMatchObject({ allowed: true })
    // The eleventh of its window has to wait for the next one.
    const granted = waiting.then(() => 'granted')
    expect(await Promise.race([granted, inLine(1).then(() => 'waits')])).toBe('waits')
    clock.advance(1000)
    await withdraws(limiter)
    expect(await waiting).toMatchObject({ allowed: true, remaining: 9 })
    await limiter.close()
  })
})

describe('acquire while no server answers', () => {
  const nobody = (onStoreFailure: RateLimiterOptions['onStoreFailure'], policy = '2/200ms') =>
    limiterOf(policy, { onStoreFailure, deadline: 50 }, redis.track(client.duplicate({ port: 1, lazyConnect: true })))

  test('local waits in this process, in the order of the requests', async () => {
    const limiter = nobody('local')
    const order: number[] = []
    const startedAt = performance.now()
    await Promise.all(
      Array.from({ length: 5 }, async (_, i) => {
        expect(await limiter.acquire('k')).toMatchObject({ allowed: true, source: 'fallback', degraded: true })
        order.push(i)
      }),
    )
    expect(order).toEqual([0, 1, 2, 3, 4])
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(399)
    await expect(limiter.acquire('k', { cost: 2, timeout: 0 })).rejects.toMatchObject({ code: 'SPILLWAY_TIMEOUT' })
  })

  test('open lets pass, closed rejects with StoreError, both within the deadline', async () => {
    const startedAt = performance.now()
    const open = nobody('open')
    for (let i = 0; i < 5; i++) expect(await open.acquire('k')).toMatchObject({ allowed: true, source: 'open' })
    for (const policy of ['1/1h', '1/1h fixed-window']) {
      await expect(nobody('closed', policy).acquire('k')).rejects.toThrow(StoreError)
    }
    expect(performance.now() - startedAt).toBeLessThan(7 * 50 + 2000)
  })
})

/** A process that acquires this many times, one after the other, and prints the number of each grant. */
class Acquirer {
  readonly child: ChildProcess
  readonly lines: string[] = []
  /** When each line came, by `performance.now()`. */
  readonly times: number[] = []

  constructor(count: number, policy: string) {
    const source = `
      import { Redis } from 'ioredis'
      import { RateLimiter, RedisStore } from './src/index.ts'
      const client = new Redis('${redis.url}')
      const limiter = new RateLimiter({ policy: '${policy}', store: new RedisStore(client), deadline: '10s' })
      await limiter.peek('k', 0)
      console.log('ready')
      process.stdin.once('data', async () => {
        await Promise.all(Array.from({ length: ${count} }, (_, i) => limiter.acquire('k').then(() => console.log('granted ' + i))))
        process.exit()
      })`
    this.child = spawn(process.execPath, [childProgram(source)], {
      env: { ...process.env, NODE_OPTIONS: '' },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    createInterface({ input: this.child.stdout! }).on('line', line => {
      this.lines.push(line)
      this.times.push(performance.now())
    })
  }

  has(line: string): Promise<void> {
    return eventually(`the process prints ${line}`, async () => this.lines.includes(line))
  }
}

test('two processes stand in one line, and one that is killed while it waits delays those behind by at most its own turn or a second, once', async () => {
  const policy = '200/10s token-bucket burst=1'
  const [one, two] = [new Acquirer(10, policy), new Acquirer(10, policy)]
  try {
    await Promise.all([one.has('ready'), two.has('ready')])
    const late = await Lateness.of(redis, two.child)
    one.child.stdin!.write('go\n')
    await one.has('granted 0')
    two.child.stdin!.write('go\n')
    await one.has('granted 2')
    one.child.kill('SIGKILL')
    const killedAt = performance.now()
    await two.has('granted 9')
    const lateMs = await late.stop()
    // The seven that died would have taken 350 ms: so the delay is a second at most, and then a grant comes every 50
    // ms.
    expect(two.times[1] - killedAt).toBeLessThan(1000 + 50 + 5 + lateMs)
    // With a burst of 1 the time by which a grant is late is lost for all behind it.
    expect(two.times[10] - two.times[1]).toBeLessThan(9 * 50 + 5 + lateMs)
    expect(two.lines).toEqual(['ready', ...Array.from({ length: 10 }, (_, i) => `granted ${i}`)])
    // The turns of the killed process stayed unused.
    const limiter = limiterOf(policy)
    expect((await limiter.peek('k', 0)).resetAfterMs).toBeLessThanOrEqual(50)
    expect(await limiter.acquire('k')).toMatchObject({ allowed: true, source: 'redis' })
    expect(await lines.lengthOf(client, '*:line')).toBeLessThanOrEqual(1)
  } finally {
    for (const { child } of [one, two]) child.kill('SIGKILL')
  }
}, 30_000)

describe('newcomers do not overtake waiters of many units', () => {
  const MB = 1_000_000
  test.each(['sliding-window', 'fixed-window', 'token-bucket'])('under one limit or several (%s)', async algorithm => {
    const policies = [
      `${100 * MB}/1h ${algorithm}`,
      `${100 * MB}/1h ${algorithm}; ${200 * MB}/1h ${algorithm} name=other`,
    ]
    for (const [i, policy] of policies.entries()) {
      const limiter = limiterOf(policy, { name: `l${i}` })
      const key = `k${i}`
      await limiter.consume(key, 90 * MB)
      const left = new AbortController()
      const waiting = limiter.acquire(key, { cost: 60 * MB, signal: left.signal }).catch(() => 'left')
      await eventually('it waits', async () => (await client.keys(`*{${key}}*:asks`)).length === 1)
      const refused = { allowed: false, source: 'redis' }
      expect(await limiter.consume(key)).toMatchObject(refused)
      expect(await limiter.consume(key, 5 * MB)).toMatchObject(refused)
      expect(await Promise.all([1, 5 * MB].map(cost => limiter.consume(key, cost)))).toMatchObject([refused, refused])
      expect(await limiter.consumeUpTo(key, 5 * MB)).toMatchObject(refused)
      left.abort()
      expect(await waiting).toBe('left')
    }
  })
})

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { CostError, NotInitializedError, StoreError, TimeoutError } from '../../../src/limiter/core/errors.js'
import type { WaitOptions } from '../../../src/limiter/core/wait.js'
import { ManualClock } from '../../../src/testing.js'
import type { RateOptions } from '../../../src/waiting/rate/options.js'
import { SharedRateLimiter, type SharedRateLimiterOptions } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { eventually } from '../../support/eventually.js'
import * as lines from '../../support/lines.js'
import { RedisServer } from '../../support/redis-server.js'
import { type Taken, taking } from '../../support/taking.js'
import { TcpProxy } from '../../support/tcp-proxy.js'

const START = 1_700_000_000_000
/** The time limit for immediate events, while turns are a minute away. */
const SOON_MS = 800

let redis: RedisServer
let admin: Redis
const opened = new Set<SharedRateLimiter>()
const unhandled: unknown[] = []
const note = (error: unknown) => unhandled.push(error)

beforeAll(async () => {
  redis = await RedisServer.start()
  admin = redis.client()
})
afterAll(() => redis.stop())
beforeEach(() => {
  process.on('unhandledRejection', note)
})
afterEach(async () => {
  await Promise.all([...opened].map(limiter => limiter.close()))
  opened.clear()
  process.off('unhandledRejection', note)
  expect(unhandled.splice(0)).toEqual([])
})

let names = 0
const fresh = () => `line-${names++}`
/** Each on a connection of its own, as if in a process of its own. */
function open(
  name: string,
  options: SharedRateLimiterOptions = {},
  client: object = redis.client(),
): SharedRateLimiter {
  const limiter = new SharedRateLimiter(client, name, options)
  opened.add(limiter)
  return limiter
}

const keyOf = (name: string, part: string) => `spillway:{${name}}:rate:${part}`
const inLine = (name: string, count: number, part = 'line') => lines.inLine(admin, keyOf(name, part), count)
const take = (limiter: SharedRateLimiter, permits = 1, options?: WaitOptions) =>
  taking(limiter.acquire(permits, options))

/** How many wait, of all processes. */
const waitingIn = (name: string) => admin.zcard(keyOf(name, 'line'))

/**
 * A spent rate: a new request waits a minute. The clock stands still, so that only a message can end a wait earlier.
 */
async function spent(rate: number, options: Partial<RateOptions> = {}) {
  const name = fresh()
  const clock = new ManualClock(START)
  const limiter = open(name, { clock, clientId: 'a' })
  await limiter.setRate({ rate, interval: 60_000, ...options })
  await limiter.tryAcquire(rate)
  return { name, clock, limiter, other: (clientId = 'a') => open(name, { clock, clientId }) }
}

describe('waiters', () => {
  test('are served in the order of their requests, a thousand at once in one process', async () => {
    const limiter = open(fresh())
    await limiter.setRate({ rate: 100, interval: 25 })
    const order: number[] = []
    await Promise.all(
      Array.from({ length: 1000 }, async (_, i) => {
        await limiter.acquire()
        order.push(i)
      }),
    )
    expect(order).toEqual(Array.from({ length: 1000 }, (_, i) => i))
  })

  test('do not delay a request for 0 permits, and it does not advance them', async () => {
    const { name, limiter } = await spent(1)
    const waiting = [take(limiter), take(limiter)]
    await inLine(name, 2)
    await limiter.acquire(0)
    expect(await limiter.tryAcquire(0)).toBe(true)
    // As long as news of a permit would take.
    await sleep(50)
    expect(waiting.map(({ granted }) => granted)).toEqual([false, false])
    expect(await waitingIn(name)).toBe(2)
  })

  test('cost at most two script calls each', async () => {
    const name = fresh()
    const limiter = open(name)
    await limiter.setRate({ rate: 1, interval: 100 })
    await limiter.acquire()
    // The first wait of a process begins to listen for news.
    await limiter.acquire()
    const before = await lines.scriptCalls(admin)
    await Promise.all([limiter.acquire(), limiter.acquire(), limiter.acquire()])
    expect((await lines.scriptCalls(admin)) - before).toBeLessThanOrEqual(6)
  })

  test('are never granted before their time', async () => {
    const limiter = open(fresh())
    await limiter.setRate({ rate: 2, interval: 50 })
    const grantedAt: number[] = []
    await Promise.all(
      Array.from({ length: 11 }, async () => {
        await limiter.acquire()
        grantedAt.push(performance.now())
      }),
    )
    // Five intervals lie between the first two and the last: of the server, in whole ms.
    expect(grantedAt[10] - grantedAt[0]).toBeGreaterThan(5 * 50 - 25)
  })
})

describe('a timeout', () => {
  test('that ends before the turn rejects at once, and takes nothing', async () => {
    const { name, limiter } = await spent(1)
    const askedAt = performance.now()
    expect(await limiter.tryAcquire(1, { timeout: '59s' })).toBe(false)
    await expect(limiter.acquire(1, { timeout: '59s' })).rejects.toThrow(TimeoutError)
    await expect(limiter.acquire(1, { timeout: 0 })).rejects.toThrow(/the turn would come in 60000 ms/)
    expect(performance.now() - askedAt).toBeLessThan(5000)
    expect(await admin.exists(keyOf(name, 'line'))).toBe(0)
  })

  test('that ends after the turn leads to a grant', async () => {
    const limiter = open(fresh())
    await limiter.setRate({ rate: 1, interval: 400 })
    // Their turns come after 400, 800 and 800 ms: none of them near the end of a timeout.
    const answers = await Promise.all([0, 750, 750, 1500].map(timeout => limiter.tryAcquire(1, { timeout })))
    expect(answers).toEqual([true, true, false, true])
  })

  test('at or below 0 does not wait', async () => {
    const { limiter } = await spent(1)
    expect(await limiter.tryAcquire(1, { timeout: -5 })).toBe(false)
    await limiter.release(1)
    expect(await limiter.tryAcquire(1, { timeout: 0 })).toBe(true)
  })
})

describe('waiters further back move up', () => {
  test('at once when the rate is raised, as far as it goes', async () => {
    const { name, limiter, other } = await spent(1)
    const waiting: Taken<void>[] = []
    for (const count of [1, 2, 3]) {
      waiting.push(take(other()))
      await inLine(name, count)
    }
    const setAt = performance.now()
    await limiter.setRate({ rate: 3, interval: 60_000 }, { keepState: true })
    await Promise.all(waiting.slice(0, 2).map(({ done }) => done))
    expect(waiting[1].endedAt - setAt).toBeLessThan(SOON_MS)
    expect(waiting[2].granted).toBe(false)
    expect(await waitingIn(name)).toBe(1)
    await limiter.setRate({ rate: 3, interval: 60_000 })
    await waiting[2].done
    expect(await limiter.availablePermits()).toBe(2)
  })

  test('before any later request after the abort', async () => {
    const { name, limiter } = await spent(1)
    const abort = new AbortController()
    const first = take(limiter, 1, { signal: abort.signal })
    await inLine(name, 1)
    abort.abort()
    const second = take(limiter, 1, { timeout: '90s' })
    await first.done
    await inLine(name, 1)
    expect(await waitingIn(name)).toBe(1)
    expect(second.error).toBeUndefined()
  })
})

describe('close', () => {
  test('gives back a grant to a request in flight', async () => {
    const name = fresh()
    const limiter = open(name)
    await limiter.setRate({ rate: 5, interval: '1m' })
    const closing = open(name)
    const lost = take(closing, 2)
    await closing.close()
    await lost.done
    expect(lost.error).toBeInstanceOf(StoreError)
    expect(await limiter.availablePermits()).toBe(5)
  })
})

describe('a rate that falls while requests wait', () => {
  test('delays turns, and never grants more than itself', async () => {
    const name = fresh()
    const [a, b] = [open(name), open(name)]
    await a.setRate({ rate: 4, interval: 100 })
    await a.acquire(4)
    const waiting = Array.from({ length: 4 }, (_, i) => take(i % 2 ? a : b))
    await inLine(name, 4)
    await a.setRate({ rate: 1, interval: 100 }, { keepState: true })
    await Promise.all(waiting.map(({ done }) => done))
    const ends = waiting.map(({ endedAt }) => endedAt).sort((x, y) => x - y)
    expect(ends[3] - ends[0]).toBeGreaterThan(3 * 100 - 25)
  })

  test('rejects larger requests with CostError, and the others move up', async () => {
    const { name, limiter, other } = await spent(5)
    const five = take(other(), 5)
    await inLine(name, 1)
    const two = take(other(), 2)
    await inLine(name, 2)
    await limiter.setRate({ rate: 4, interval: 60_000 }, { keepState: true })
    await five.done
    expect(five.error).toBeInstanceOf(CostError)
    expect(await waitingIn(name)).toBe(1)
    await limiter.setRate({ rate: 2, interval: 60_000 })
    await two.done
    expect(two.granted).toBe(true)
  })

  test('with another mode makes all waiters ask again', async () => {
    const { name, limiter, other } = await spent(1)
    const waiting = [take(other('a')), take(other('b'))]
    await inLine(name, 2)
    await limiter.setRate({ rate: 1, interval: 60_000, mode: 'per-client' })
    await Promise.all(waiting.map(({ done }) => done))
    expect(waiting.map(({ granted }) => granted)).toEqual([true, true])
    expect([await other('a').tryAcquire(), await other('b').tryAcquire(), await other('c').tryAcquire()]).toEqual([
      false,
      false,
      true,
    ])
  })
})

describe('the end of a limiter', () => {
  test('by delete rejects the waiters of every client with NotInitializedError', async () => {
    const { name, limiter, other } = await spent(1, { mode: 'per-client' })
    const b = other('b')
    await b.tryAcquire()
    const waiting = [take(other('a')), take(b), take(b)]
    await inLine(name, 1, 'line:a')
    await inLine(name, 2, 'line:b')
    const deletedAt = performance.now()
    expect(await limiter.delete()).toBe(true)
    await Promise.all(waiting.map(({ done }) => done))
    for (const { error, endedAt } of waiting) {
      expect(error).toBeInstanceOf(NotInitializedError)
      expect(endedAt - deletedAt).toBeLessThan(SOON_MS)
    }
    expect(await admin.keys(keyOf(name, 'l*'))).toEqual([])
  })

  test('by expire rejects waiters whose turn would come later, and the others keep their turns', async () => {
    const { name, clock, limiter, other } = await spent(1)
    const waiting = [take(other())]
    await inLine(name, 1)
    waiting.push(take(other()))
    await inLine(name, 2)
    await limiter.expire('90s')
    await waiting[1].done
    expect(waiting[1].error).toBeInstanceOf(NotInitializedError)
    expect(await waitingIn(name)).toBe(1)
    await expect(limiter.acquire()).rejects.toThrow(NotInitializedError)
    clock.advance(60_000)
    await limiter.setRate({ rate: 1, interval: 60_000 }, { keepState: true })
    await waiting[0].done
    expect(waiting[0].granted).toBe(true)
  })
})

describe('a lost message', () => {
  let proxy: TcpProxy
  beforeAll(async () => {
    proxy = await TcpProxy.start(redis.port)
  })
  afterAll(() => proxy.stop())
  const channels = async () => (await admin.pubsub('CHANNELS')) as string[]

  test('about a delete, a smaller rate or another mode still reaches every waiter', async () => {
    const ends: readonly (readonly [(limiter: SharedRateLimiter) => Promise<unknown>, unknown])[] = [
      [limiter => limiter.delete(), expect.any(NotInitializedError)],
      [limiter => limiter.expire(1000), expect.any(NotInitializedError)],
      [limiter => limiter.setRate({ rate: 1, interval: 60_000 }, { keepState: true }), expect.any(CostError)],
      [limiter => limiter.setRate({ rate: 2, interval: 60_000, mode: 'per-client' }), undefined],
      [
        async limiter => {
          await limiter.delete()
          await limiter.setRate({ rate: 2, interval: 60_000 })
        },
        undefined,
      ],
    ]
    for (const [end, error] of ends) {
      const { name, clock, limiter } = await spent(2)
      const before = await channels()
      const b = open(name, { clock, clientId: 'a' }, redis.client({ port: proxy.port }))
      const waiting = take(b, 2)
      await inLine(name, 1)
      // It must listen before its messages are lost.
      await eventually('listens', async () => (await channels()).some(channel => !before.includes(channel)))
      proxy.swallow()
      await end(limiter)
      proxy.cut()
      proxy.release()
      await waiting.done
      expect(waiting.error).toEqual(error)
      expect(waiting.granted).toBe(error === undefined)
      if (waiting.granted) expect(await b.availablePermits()).toBe(0)
    }
  })

  const deafClient = () => Object.create(redis.client(), { duplicate: { value: undefined } })

  test('does not make a rejected waiter give back the grants of others', async () => {
    const { name, clock, limiter } = await spent(5)
    const deaf = open(name, { clock, clientId: 'a' }, deafClient())
    const abort = new AbortController()
    const five = take(deaf, 5, { signal: abort.signal })
    await inLine(name, 1)
    await limiter.setRate({ rate: 4, interval: 60_000 })
    await five.done
    expect(five.error).toBeInstanceOf(CostError)
    expect(await limiter.tryAcquire(4)).toBe(true)
    abort.abort()
    await inLine(name, 0)
    expect(await limiter.availablePermits()).toBe(0)
  })

  test('keeps the place of a waiter that fits again when the change is noticed', async () => {
    const { name, clock, limiter } = await spent(5)
    const before = await channels()
    const far = open(name, { clock, clientId: 'a' }, redis.client({ port: proxy.port }))
    const five = take(far, 5)
    await inLine(name, 1)
    await eventually('listens', async () => (await channels()).some(channel => !before.includes(channel)))
    proxy.swallow()
    await limiter.setRate({ rate: 4, interval: 60_000 })
    await limiter.setRate({ rate: 5, interval: 60_000 })
    expect(await limiter.tryAcquire(1)).toBe(false)
    proxy.cut()
    proxy.release()
    await five.done
    expect(five.granted).toBe(true)
    expect(await limiter.tryAcquire(1)).toBe(false)
  })

  test('without any listening connection grants no waiter before its turn', async () => {
    const name = fresh()
    const [deaf, other] = [open(name, {}, deafClient()), open(name)]
    await other.setRate({ rate: 4, interval: 100 })
    await other.acquire(4)
    const waiting = Array.from({ length: 4 }, () => take(deaf))
    await inLine(name, 4)
    await other.setRate({ rate: 1, interval: 100 }, { keepState: true })
    await Promise.all(waiting.map(({ done }) => done))
    const ends = waiting.map(({ endedAt }) => endedAt)
    expect(ends).toEqual([...ends].sort((x, y) => x - y))
    expect(ends[3] - ends[0]).toBeGreaterThan(3 * 100 - 25)
  })

  test('together with all data, as by FLUSHALL, is a NotInitializedError as soon as it is noticed', async () => {
    const server = await RedisServer.start()
    const limiter = open('flushed', {}, server.client())
    await limiter.setRate({ rate: 1, interval: 60_000 })
    await limiter.acquire()
    const waiting = take(limiter)
    await eventually('waits', async () => (await server.client().zcard(keyOf('flushed', 'line'))) === 1)
    await server.restart()
    await waiting.done
    expect(waiting.error).toBeInstanceOf(NotInitializedError)
    await limiter.close()
    await server.stop()
  }, 30_000)
})

describe('a storm of acquires, aborts, releases, rates and lost connections', () => {
  test('loses and duplicates no permit', async () => {
    const name = fresh()
    const limiters = Array.from({ length: 6 }, () => open(name))
    let [rate, out, granted, seed] = [5, 0, 0, 1]
    // No interval ends meanwhile: what is out stays out until it is given back.
    const set = () => limiters[0].setRate({ rate, interval: '1h' }, { keepState: true })
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % below
    }
    await set()
    const waiting: Promise<void>[] = []
    const aborts: AbortController[] = []
    for (let i = 0; i < 600; i++) {
      const limiter = limiters[random(6)]
      const permits = 1 + random(3)
      const abort = new AbortController()
      aborts.push(abort)
      waiting.push(
        limiter.acquire(permits, { signal: abort.signal }).then(
          () => {
            out += permits
            granted++
          },
          error => expect(error).toBe(abort.signal.reason),
        ),
      )
      const what = random(60)
      if (what < 25) aborts[random(aborts.length)].abort()
      if (what === 30) void admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      if (what > 50) {
        rate = Math.max(5, rate + random(20) - 8)
        await set()
      }
      if (what > 40 && what < 45 && out > 0) {
        const back = 1 + random(Math.min(out, 10))
        out -= back
        await limiters[random(6)].release(back)
      }
      // The storm takes real time, so that grants and news arrive in its midst.
      if (what % 10 === 0) await sleep(random(4))
    }
    // Whatever the clock did during the storm, there are permits for more than a hundred waiters.
    rate += 400
    await set()
    await eventually('many are granted', async () => granted > 100)
    for (const abort of aborts) abort.abort()
    await Promise.all(waiting)
    // Raised above all that is out, what is not available is what was granted.
    rate = 10_000
    await eventually('all is given back that was not granted', async () => {
      await set()
      return (await limiters[0].availablePermits()) === rate - out
    })
    expect(await admin.exists(keyOf(name, 'line'))).toBe(0)
  })
})

describe('a reply that is lost', () => {
  let proxy: TcpProxy
  beforeAll(async () => {
    proxy = await TcpProxy.start(redis.port)
  })
  afterAll(() => proxy.stop())

  /** Cuts the connection when the request has been carried out and before it is answered; the client sends it again. */
  async function cutAfter(carriedOut: () => Promise<boolean>, call: () => Promise<unknown>): Promise<unknown> {
    proxy.delayMs = () => 60_000
    const result = call()
    result.catch(() => {})
    await eventually('carried out', carriedOut)
    proxy.delayMs = () => 0
    proxy.cut()
    return result
  }

  /**
   * Two permits of five are granted, by a rate set just before, to a caller that goes before it hears of them; then,
   * before they are given back, `meanwhile` happens.
   */
  async function unheard(
    options: SharedRateLimiterOptions,
    meanwhile: (near: SharedRateLimiter) => Promise<unknown>,
  ): Promise<SharedRateLimiter> {
    const name = fresh()
    const client = redis.client({ port: proxy.port })
    const [far, near] = [open(name, options, client), open(name, options)]
    const rate = { rate: 5, interval: '1h' } as const
    // Redis knows the scripts, and so carries out what it is sent once.
    await near.setRate(rate)
    await near.acquire(1)
    await far.exists()
    proxy.delayMs = () => 60_000
    const abort = new AbortController()
    // Both in one write.
    const set = far.setRate(rate)
    const gone = far.acquire(2, { signal: abort.signal })
    await eventually('granted', async () => (await near.availablePermits()) === 3)
    abort.abort()
    await expect(gone).rejects.toBe(abort.signal.reason)
    await meanwhile(near)
    proxy.delayMs = () => 0
    const { accepted } = proxy
    proxy.cut()
    await eventually('it is connected again', async () => proxy.accepted > accepted && client.status === 'ready')
    await set
    // Until the server has what it gives back.
    await far.close()
    return near
  }

  test('loses no permit of a grant that a release has taken for the oldest of its own', async () => {
    // As a rule the rate is set and the grant made in one ms.
    for (let i = 0; i < 5; i++) {
      const near = await unheard({}, async near => {
        // A grant of a later ms.
        await sleep(2)
        await near.acquire(3)
        await near.release(3)
      })
      expect(await near.availablePermits()).toBe(5)
    }
  })

  test('gives nothing back of a grant that was forgotten since', async () => {
    // Even in the ms of that grant.
    const near = await unheard({ clock: new ManualClock(START) }, async near => {
      await near.setRate({ rate: 5, interval: '1h' })
      await near.acquire(5)
    })
    expect(await near.availablePermits()).toBe(0)
  })

  test('counts once: of a rate and of a release', async () => {
    const name = fresh()
    const client = redis.client({ port: proxy.port })
    const [far, near] = [open(name, {}, client), open(name)]
    await far.exists()
    const available = async (count: number) => (await near.availablePermits()) === count
    const rate = { rate: 5, interval: '10m' } as const
    expect(
      await cutAfter(
        () => near.exists(),
        () => far.trySetRate(rate),
      ),
    ).toBe(true)
    await far.acquire(5)
    await cutAfter(
      () => available(2),
      () => far.release(2),
    )
    expect(await available(2)).toBe(true)
  })

  test('although another request of the same sender followed it', async () => {
    const name = fresh()
    const [far, near] = [open(name, {}, redis.client({ port: proxy.port })), open(name)]
    await near.setRate({ rate: 50, interval: '10m' })
    await far.exists()
    const all = () => Promise.all(Array.from({ length: 30 }, () => far.tryAcquire()))
    expect(await cutAfter(async () => (await near.availablePermits()) === 20, all)).toEqual(new Array(30).fill(true))
    expect(await near.availablePermits()).toBe(20)
  })
})

describe('a Redis that hangs', () => {
  test('is a StoreError within about five seconds, or the timeout; its late grants are given back', async () => {
    const server = await RedisServer.start()
    const limiter = new SharedRateLimiter(server.client(), 'hung')
    await limiter.setRate({ rate: 10, interval: '1m' })
    await limiter.tryAcquire(1)
    server.pause()
    const askedAt = performance.now()
    const short = limiter.tryAcquire(2, { timeout: 200 }).then(answer => [answer, performance.now() - askedAt])
    const abort = new AbortController()
    const aborted = take(limiter, 1, { signal: abort.signal })
    const calls = [take(limiter, 3), take(limiter, 1, { timeout: '1h' })]
    const others = Promise.allSettled([
      limiter.tryAcquire(1),
      limiter.getConfig(),
      limiter.expire('1h'),
      limiter.exists(),
    ])
    const [answer, afterMs] = await short
    expect(answer).toBe(false)
    expect(afterMs).toBeLessThan(1000)
    abort.abort()
    await aborted.done
    await Promise.all(calls.map(({ done }) => done))
    for (const { error, endedAt } of calls) {
      expect(error).toBeInstanceOf(StoreError)
      expect(endedAt - askedAt).toBeLessThan(6500)
    }
    for (const result of await others)
      expect(result).toMatchObject({ status: 'rejected', reason: expect.any(StoreError) })
    server.unpause()
    await eventually('what came late is given back', async () => (await limiter.availablePermits()) === 9)
    expect(await server.client().exists(keyOf('hung', 'line'))).toBe(0)
    await limiter.close()
    await server.stop()
  }, 30_000)

  test('that is dead is a StoreError with the message of the client', async () => {
    const server = await RedisServer.start()
    const client = server.client({ maxRetriesPerRequest: 1, retryStrategy: () => 10 })
    const limiter = new SharedRateLimiter(client, 'dead')
    await limiter.setRate({ rate: 1, interval: '1m' })
    await server.kill()
    const error = await limiter.acquire().catch(error => error)
    expect(error).toBeInstanceOf(StoreError)
    expect(error.cause).toBeInstanceOf(Error)
    await limiter.close()
    await server.stop()
  }, 30_000)
})

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { TimeoutError } from '../../src/limiter/core/errors.js'
import { politeFetch } from '../../src/outgoing/index.js'
import type { PoliteOptions } from '../../src/outgoing/options.js'
import { ofCases } from '../support/cases.js'
import { eventually } from '../support/eventually.js'
import { randomFrom } from '../support/random.js'
import { RedisServer } from '../support/redis-server.js'

const A = 'http://partner.test'
const URL_A = `${A}/`

/** A partner that notes when each call arrives, by this process's clock, and answers after some ms. */
class StrictPartner {
  readonly at: number[] = []
  answerMs = () => 0

  readonly fetch = (async () => {
    this.at.push(performance.now())
    const ms = this.answerMs()
    if (ms > 0) await sleep(ms)
    return new Response('ok')
  }) as typeof fetch

  /** The most calls in any interval. */
  most(intervalMs: number): number {
    let [most, from] = [0, 0]
    for (let to = 0; to < this.at.length; to++) {
      while (this.at[to] - this.at[from] >= intervalMs) from++
      most = Math.max(most, to - from + 1)
    }
    return most
  }
}

/** Calls all at once; when the partner has got so many, those that have not left are aborted. */
async function burst(partner: StrictPartner, options: PoliteOptions, count: number, enough: number): Promise<void> {
  const polite = politeFetch({ ...options, fetch: partner.fetch, maxWait: '10m' })
  const ending = new AbortController()
  const calls = Array.from({ length: count }, () => polite(URL_A, { signal: ending.signal }).catch(() => {}))
  await eventually('the partner has got enough', () => partner.at.length >= enough, 60_000)
  ending.abort()
  await Promise.all(calls)
}

describe('in one process', () => {
  test.each([
    [2000, 10, 300],
    [5000, 500, 500],
  ])('%i calls of one turn keep to %i in %i ms: a unit counts from the sending', async (count, rate, intervalMs) => {
    const partner = new StrictPartner()
    await burst(partner, { limits: { [A]: { rate, interval: intervalMs } } }, count, 3 * rate)
    expect(partner.most(intervalMs)).toBe(rate)
  })

  test('streams that last longer than the interval count until they have ended, and an interval more', async () => {
    let [open, most, opened] = [0, 0, 0]
    const stream = () => {
      const last = opened++ % 3 === 0 ? 5 : 3
      let parts = 0
      return new ReadableStream({
        type: 'bytes',
        start() {
          open++
          most = Math.max(most, open)
        },
        async pull(controller) {
          await sleep(100)
          controller.enqueue(new TextEncoder().encode('part'))
          if (++parts < last) return
          open--
          controller.close()
        },
      })
    }
    const budget = {
      rate: 1000,
      interval: 200,
      cost: () => 100,
      settle: async (answer: Response) => {
        await answer.text()
        return 100
      },
    }
    const polite = politeFetch({
      fetch: (async () => new Response(stream())) as typeof fetch,
      limits: { [A]: { budgets: [budget] } },
    })
    await Promise.all(Array.from({ length: 25 }, async () => (await polite(URL_A)).text()))
    expect(most).toBe(10)
  })

  test('a call that waits for a stream is not refused for a wait that nobody knows, but by its own maxWait', async () => {
    const budget = { rate: 1, interval: 100, settle: () => new Promise<undefined>(() => {}) }
    const polite = politeFetch({
      fetch: (async () => new Response('ok')) as typeof fetch,
      limits: { [A]: { budgets: [budget] } },
      maxWait: 400,
    })
    await polite(URL_A)
    const startedAt = performance.now()
    await expect(polite(URL_A)).rejects.toBeInstanceOf(TimeoutError)
    expect(performance.now() - startedAt).toBeGreaterThan(390)
  })
})

describe('over Redis', () => {
  const [RATE, INTERVAL] = [10, 1800]
  const limits = { [A]: { rate: RATE, interval: INTERVAL } }
  const redis = new RedisServer()
  const clients: { disconnect(): void }[] = []
  beforeAll(() => redis.start())
  afterEach(async () => {
    for (const client of clients.splice(0)) client.disconnect()
    await redis.client().flushall()
  })
  afterAll(() => redis.stop())
  const clientOf = () => {
    const client = redis.client()
    clients.push(client)
    return client
  }

  test.each<[what: string, fault: () => Promise<void>]>([
    ['its data are lost', async () => void (await redis.client().flushall())],
    [
      'it hangs for less than an interval',
      async () => {
        redis.pause()
        await sleep(1300)
        redis.unpause()
      },
    ],
    [
      'it restarts empty',
      async () => {
        await redis.kill()
        await redis.restart()
      },
    ],
  ])('%s: one process sends no more than the rate in any interval', async (what, fault) => {
    const partner = new StrictPartner()
    const polite = politeFetch({ client: clientOf(), limits, fetch: partner.fetch, maxWait: '1m', observer: {} })
    const calls = Array.from({ length: 3 * RATE }, () => polite(URL_A))
    await eventually('the first calls have left', () => partner.at.length >= RATE)
    await fault()
    await Promise.all(calls)
    expect([what, partner.most(INTERVAL)]).toEqual([what, RATE])
  })

  test('what has left while Redis was away is told to it before anybody leaves who asks after that', async () => {
    const partner = new StrictPartner()
    const options = { limits, fetch: partner.fetch, observer: {} }
    const [one, other] = [clientOf(), clientOf()].map(client => politeFetch({ ...options, client }))
    await one(URL_A)
    partner.at.length = 0
    redis.pause()
    const alone = Array.from({ length: RATE - 1 }, () => one(URL_A))
    await Promise.all(alone)
    redis.unpause()
    // The process has something to say, and nothing to wait for.
    await eventually('Redis was told', async () => {
      const [key] = await redis.client().keys('*budget*units')
      return Number(key && (await redis.client().hget(key, 'used'))) >= RATE - 1
    })
    await Promise.all(Array.from({ length: RATE }, () => other(URL_A)))
    expect(partner.most(INTERVAL)).toBeLessThanOrEqual(RATE)
  })

  test.each([[20_000, 200, 500]])(
    '%i calls of one turn keep to %i in %i ms',
    async (count, rate, intervalMs) => {
      const partner = new StrictPartner()
      const own = { [A]: { rate, interval: intervalMs } }
      await burst(partner, { client: clientOf(), limits: own, observer: {} }, count, 6 * rate)
      expect(partner.most(intervalMs)).toBe(rate)
    },
    60_000,
  )

  test('units of a stream count for other processes, too, until an interval after it has ended', async () => {
    const partner = new StrictPartner()
    const endedAt: number[] = []
    const settle = async () => {
      await sleep(700)
      endedAt.push(performance.now())
      return 1
    }
    const budgets = [{ rate: 2, interval: 200, settle }]
    const options = { limits: { [A]: { budgets } }, fetch: partner.fetch, observer: {} }
    const [one, other] = [clientOf(), clientOf()].map(client => politeFetch({ ...options, client }))
    await Promise.all([one(URL_A), one(URL_A)])
    await other(URL_A)
    expect(partner.at[2] - endedAt[0]).toBeGreaterThanOrEqual(200)
    expect(partner.at[2] - endedAt[0]).toBeLessThan(400)
  })

  test('what a call has cost that was thought to cost nothing is told, though nothing was counted meanwhile', async () => {
    const cost = () => 0
    const settle = async () => {
      await sleep(100)
      return 7
    }
    const budgets = [{ rate: 10, interval: '1m', cost, settle } as const]
    const polite = politeFetch({ client: clientOf(), limits: { [A]: { budgets } }, fetch: new StrictPartner().fetch })
    await polite(URL_A)
    await eventually('Redis was told', async () => {
      const [key] = await redis.client().keys('*budget*units')
      return key !== undefined && (await redis.client().hget(key, 'used')) === '7'
    })
  })

  test('units and places of a process that is gone are free when its lease is over', async () => {
    const partner = new StrictPartner()
    const gone = clientOf()
    partner.answerMs = () => 60_000
    const options = { limits: { [A]: { concurrency: 2 } }, fetch: partner.fetch, observer: {} }
    const polite = politeFetch({ ...options, client: gone })
    const ending = new AbortController()
    void polite(URL_A).catch(() => {})
    void polite(URL_A).catch(() => {})
    await eventually('both have left', () => partner.at.length === 2)
    // A process that is killed says nothing any more.
    gone.disconnect()
    partner.answerMs = () => 0
    const startedAt = performance.now()
    await politeFetch({ ...options, client: clientOf() })(URL_A, { signal: ending.signal })
    expect(performance.now() - startedAt).toBeLessThan(7000)
  }, 20_000)

  test('hangs, flushes, restarts and bursts at random: one process sends no more than the rate in any interval', async () => {
    const random = randomFrom('what left')
    for (let round = 0; round < ofCases(2); round++) {
      const partner = new StrictPartner()
      const [rate, intervalMs] = [random.integer(1, 40), random.pick([100, 300, 700])]
      const allLimits = { [A]: { rate, interval: intervalMs, concurrency: 50 } }
      partner.answerMs = () => random.pick([0, 0, 5, 40, intervalMs])
      const polite = politeFetch({
        client: clientOf(),
        limits: allLimits,
        fetch: partner.fetch,
        maxWait: '1m',
        observer: {},
      })
      const ending = new AbortController()
      const calls: Promise<unknown>[] = []
      const told: string[] = []
      for (let step = 0; step < 12; step++) {
        const what = random.pick(['calls', 'calls', 'burst', 'wait', 'flush', 'hang', 'restart'])
        told.push(what)
        if (what === 'calls' || what === 'burst') {
          const count = what === 'calls' ? random.integer(1, 2 * rate) : 5 * rate
          for (let i = 0; i < count; i++) calls.push(polite(URL_A, { signal: ending.signal }).catch(() => {}))
        } else if (what === 'flush') await redis.client().flushall()
        else if (what === 'hang') {
          redis.pause()
          await sleep(random.integer(10, 1300))
          redis.unpause()
        } else if (what === 'restart') {
          await redis.kill()
          await redis.restart()
        }
        await sleep(random.integer(0, intervalMs))
      }
      ending.abort()
      await Promise.all(calls)
      expect([round, told, partner.most(intervalMs)]).toEqual([round, told, Math.min(rate, partner.at.length)])
    }
  }, 120_000)
})

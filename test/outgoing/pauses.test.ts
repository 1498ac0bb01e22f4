import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { PolicyError, StoreError, TimeoutError } from '../../src/limiter/core/errors.js'
import { type PoliteOptions, politeFetch } from '../../src/outgoing/index.js'
import { eventually } from '../support/eventually.js'
import { RedisServer } from '../support/redis-server.js'
import { SteppedClock } from '../support/stepped-clock.js'
import { testRedis } from '../support/test-redis.js'
import { warnings } from '../support/warnings.js'
import { PartnerServer } from './partner-server.js'

const HOUR = 3_600_000
let partner: PartnerServer
const warned = warnings()
const ofPauses = () => warned.textsOf('SPILLWAY_PAUSE')
beforeEach(async () => {
  partner = await PartnerServer.start()
})
afterEach(async () => {
  await partner.stop()
})

const waitOf = async (call: Promise<unknown>): Promise<number> => {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(TimeoutError)
  return (error as TimeoutError).retryAfterMs as number
}

describe('a pause that a partner asks for', () => {
  test.each(['31536000', '99999999999', '9'.repeat(40)])(
    'is cut to an hour, and one warning says so: %s s',
    async asked => {
      const polite = politeFetch({ maxWait: 0 })
      partner.refuse(429, asked)
      await Promise.all([polite(partner.origin), polite(partner.origin)])
      const waitMs = await waitOf(polite(partner.origin))
      expect(waitMs).toBeLessThanOrEqual(HOUR)
      expect(waitMs).toBeGreaterThan(HOUR - 60_000)
      const told = ofPauses()
      expect(told).toHaveLength(1)
      expect(told[0]).toMatch(`politeFetch: ${partner.origin} asked for a pause of `)
      expect(told[0]).toContain('which is cut to 1h (longestPause)')
    },
  )

  test('is cut to longestPause of this partner, which needs no other limit', async () => {
    const limits = { [partner.origin]: { longestPause: '2h' } }
    const polite = politeFetch({ maxWait: 0, limits })
    partner.refuse(503, '7000')
    await polite(partner.origin)
    expect(await waitOf(polite(partner.origin))).toBeGreaterThan(6_900_000)
    expect(ofPauses()).toEqual([])
    const strict = politeFetch({ maxWait: 0, limits: { [partner.origin]: { longestPause: '5s' } } })
    await strict(partner.origin)
    expect(await waitOf(strict(partner.origin))).toBeLessThanOrEqual(5000)
    expect(ofPauses()).toHaveLength(1)
  })

  test('is cut as well if a RateLimit field asks for it', async () => {
    partner.answer = (_, response) => void response.writeHead(200, { ratelimit: '"day";r=0;t=86400' }).end()
    const polite = politeFetch({ maxWait: 0 })
    await polite(partner.origin)
    expect(await waitOf(polite(partner.origin))).toBeLessThanOrEqual(HOUR)
  })
})

describe('resume', () => {
  test('ends the pause for new calls and for those that wait', async () => {
    const polite = politeFetch({ maxWait: '1h', retries: 0 })
    partner.refuse(429, '60')
    await polite(partner.origin)
    partner.allow()
    const waiting = polite(partner.origin)
    await sleep(20)
    expect(partner.requests).toHaveLength(1)
    await polite.resume(`${partner.origin.toUpperCase()}/`)
    expect((await waiting).status).toBe(200)
    expect((await polite(partner.origin)).status).toBe(200)
  })

  test('a call that resume lets go still ends with its signal, and a later pause holds', async () => {
    const polite = politeFetch({ maxWait: '1h', retries: 0 })
    partner.refuse(429, '60')
    await polite(partner.origin)
    const ending = new AbortController()
    const waiting = polite(partner.origin, { signal: ending.signal })
    await sleep(20)
    await polite.resume(partner.origin)
    ending.abort()
    await expect(waiting).rejects.toBe(ending.signal.reason)
    expect((await polite(partner.origin)).status).toBe(429)
    expect(await waitOf(politeFetchOf(polite)(partner.origin, 100))).toBe(-1)
  })

  test('does nothing for a partner without a pause, and refuses what cannot be a partner', async () => {
    const polite = politeFetch()
    await polite.resume('https://nobody.example')
    await expect(polite.resume('nobody.example')).rejects.toThrow(PolicyError)
    await expect(polite.resume('nobody.example')).rejects.toThrow('write "https://nobody.example"')
    await expect(polite.resume('')).rejects.toThrow(PolicyError)
    await expect(polite.resume(undefined as never)).rejects.toThrow(PolicyError)
    await politeFetch({ partner: () => 'search' }).resume('any name')
  })
})

/** Calls with a signal of so many ms; -1 when that has ended the wait. */
function politeFetchOf(polite: ReturnType<typeof politeFetch>) {
  return async (url: string, ms: number): Promise<never> => {
    const reason = new TimeoutError('', { retryAfterMs: -1 })
    const ending = new AbortController()
    setTimeout(() => ending.abort(reason), ms)
    await polite(url, { signal: ending.signal })
    throw new Error('it did not wait')
  }
}

describe('over Redis', () => {
  const redis = testRedis()
  afterEach(async () => void (await redis.client().flushall()))

  const open = (options: PoliteOptions = {}, server = redis) => {
    const polite = politeFetch({ client: server.client(), maxWait: '1s', retries: 0, ...options })
    return polite
  }

  const told = () => eventually('Redis has the pause', async () => (await redis.client().keys('*:pause')).length > 0)

  test('resume ends the pause in all processes, also in those that have read it and those whose calls wait', async () => {
    const [one, two, three] = [open(), open(), open({ maxWait: '1h' })]
    partner.refuse(429, '600')
    await one(partner.origin)
    expect(await waitOf(two(partner.origin))).toBeGreaterThan(590_000)
    const waiting = three(partner.origin)
    await sleep(50)
    expect(partner.requests).toHaveLength(1)
    partner.allow()
    // A process that has never called this partner.
    await open().resume(partner.origin)
    expect((await waiting).status).toBe(200)
    // As long as an answer of Redis is remembered.
    await sleep(200)
    expect((await one(partner.origin)).status).toBe(200)
    expect((await two(partner.origin)).status).toBe(200)
  })

  test('a pause that begins after a resume holds in all processes', async () => {
    const [one, two] = [open(), open()]
    partner.refuse(429, '600')
    await one(partner.origin)
    await two.resume(partner.origin)
    await sleep(200)
    await one(partner.origin)
    await sleep(250)
    expect(await waitOf(two(partner.origin))).toBeGreaterThan(590_000)
  })

  test('a pause that Redis learns of late stays ended if it was resumed meanwhile; otherwise it holds for its rest', async () => {
    const server = await RedisServer.start()
    try {
      const client = server.client()
      const cut = politeFetch({ client, maxWait: '1s', retries: 0 })
      partner.allow()
      await cut(partner.origin)
      const ended = once(client, 'end')
      client.disconnect()
      await ended
      partner.refuse(429, '600')
      await cut(partner.origin)
      expect(await waitOf(cut(partner.origin))).toBeGreaterThan(590_000)
      // A pause is reported with its age, which Redis knows as exactly as the report is quick. The resume comes clearly
      // later than the pause.
      await sleep(200)
      const other = open({}, server)
      await other.resume(partner.origin)
      await client.connect()
      partner.allow()
      // The first calls may find that Redis has not answered this process again yet.
      const status = () =>
        cut(partner.origin).then(
          answer => answer.status,
          () => sleep(20),
        )
      while ((await status()) !== 200);
      expect((await other(partner.origin)).status).toBe(200)
    } finally {
      await server.stop()
    }
  })

  test('a pause that began while Redis was away reaches the others when it is back', async () => {
    const client = redis.client()
    const cut = politeFetch({ client, maxWait: '1s', retries: 0 })
    await cut(partner.origin)
    const ended = once(client, 'end')
    client.disconnect()
    await ended
    partner.refuse(429, '600')
    await cut(partner.origin)
    await client.connect()
    // The next call reports it, perhaps without waiting for the answer of Redis.
    for (const admin = redis.client(); (await admin.keys('*:pause')).length === 0; await sleep(20)) {
      await waitOf(cut(partner.origin))
    }
    expect(await waitOf(open()(partner.origin))).toBeGreaterThan(590_000)
  })

  test('without Redis, resume ends the pause here and says that the others were not told', async () => {
    const server = await RedisServer.start()
    const polite = open({}, server)
    partner.refuse(429, '600')
    await polite(partner.origin)
    await server.stop()
    partner.allow()
    await expect(polite.resume(partner.origin)).rejects.toThrow(StoreError)
    expect((await polite(partner.origin)).status).toBe(200)
  })

  test('a process keeps to its own longestPause, whatever another one has told Redis', async () => {
    partner.refuse(429, '7200')
    await open({ limits: { [partner.origin]: { longestPause: '2h' } } })(partner.origin)
    await told()
    expect(await waitOf(open()(partner.origin))).toBeLessThanOrEqual(HOUR)
    const [key] = await redis.client().keys('*:pause')
    expect(await redis.client().pttl(key)).toBeGreaterThan(HOUR)
  })

  test('a server clock that is set back makes no pause longer, and a later pause holds', async () => {
    const clock = await SteppedClock.make()
    const server = await RedisServer.start({ env: clock.env })
    try {
      partner.refuse(429, '600')
      await open({}, server)(partner.origin)
      await sleep(50)
      await clock.set(-HOUR)
      expect(await waitOf(open({}, server)(partner.origin))).toBeLessThanOrEqual(600_000)
      await open({}, server).resume(partner.origin)
      await clock.set(-2 * HOUR)
      const one = open({}, server)
      expect((await one(partner.origin)).status).toBe(429)
      await sleep(50)
      expect(await waitOf(open({}, server)(partner.origin))).toBeGreaterThan(590_000)
    } finally {
      await server.stop()
      await clock.remove()
    }
  })

  test('the lifetime of the key decides nothing', async () => {
    partner.refuse(429, '600')
    await open()(partner.origin)
    await told()
    const [key] = await redis.client().keys('*:pause')
    await redis.client().persist(key)
    expect(await waitOf(open()(partner.origin))).toBeGreaterThan(590_000)
  })
})

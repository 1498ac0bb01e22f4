import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { Miniflare } from 'miniflare'
import { RedisServer } from '../support/redis-server.js'
import { RestFront } from '../support/rest-front.js'
import { bundled } from './bundling.js'

/**
 * Real Workers: workerd itself. There, requests share the objects of a program and nothing else: a timer or a promise
 * of one request is dropped when that request has ended, and must not be needed by another. While a program loads,
 * nothing may be drawn at random and no timer may be set.
 */
describe('in Workers of Cloudflare', () => {
  let redis: RedisServer
  let front: RestFront
  const workers: Miniflare[] = []

  beforeAll(async () => {
    redis = await RedisServer.start()
    front = await RestFront.start(redis)
  })
  afterAll(async () => {
    await front.stop()
    await redis.stop()
  })
  afterEach(async () => {
    await Promise.all(workers.splice(0).map(worker => worker.dispose()))
    await redis.client().flushall()
  })

  /** A Worker whose `routes` answer by path. `made`: what it makes when it loads, outside of any request. */
  async function workerOf(made: string, routes: Record<string, string>, flags: string[] = []): Promise<Ask> {
    const program = `
      import { Redis } from '@upstash/redis/cloudflare'
      import * as spillway from 'spillway'
      import * as http from 'spillway/fetch'
      const access = ${JSON.stringify(front.access)}
      const client = new Redis(access)
      ${made}
      const routes = {
        ${Object.entries(routes).map(([path, body]) => `'/${path}': async (request, context) => ${body}`)}
      }
      export default {
        async fetch(request, env, context) {
          const url = new URL(request.url)
          try {
            const answer = await routes[url.pathname](request, context)
            return answer instanceof Response ? answer : Response.json(answer ?? null)
          } catch (error) {
            return new Response(String(error.stack), { status: 500 })
          }
        }
      }`
    const { code } = await bundled(program, { format: 'esm', conditions: ['workerd', 'worker', 'browser'] })
    const worker = new Miniflare({
      modules: true,
      script: code,
      compatibilityDate: '2026-01-01',
      compatibilityFlags: flags,
    })
    workers.push(worker)
    await worker.ready
    return async path => {
      const response = await worker.dispatchFetch(`http://worker.example/${path}`)
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
      return JSON.parse(text)
    }
  }
  type Ask = (path: string) => Promise<unknown>
  const times = <T>(count: number, act: () => Promise<T>): Promise<T[]> =>
    Promise.all(Array.from({ length: count }, act))

  const LIMITER = `
    const store = new spillway.RedisStore(client)
    const limiter = new spillway.RateLimiter({ policy: '100/1m', store, deadline: '2s' })
    const fixed = new spillway.RateLimiter({ policy: '3/1m fixed-window', store, deadline: '2s', name: 'fixed' })
  `
  const DECIDE = {
    consume: "(await limiter.consume('me')).remaining",
    source: "(await limiter.consume('me')).source",
    fixed: "(await fixed.consume('me')).allowed",
    peek: "(await limiter.peek('me', 0)).remaining",
    forget: "{ void limiter.refund('me', 1); return 'sent' }",
    later: "{ context.waitUntil(limiter.refund('me', 1)); return 'sent' }",
  }

  test.each([[[]], [['nodejs_compat']]])(
    'a limiter over Redis is made outside of the handler, and decides: %j',
    async flags => {
      const ask = await workerOf(LIMITER, DECIDE, flags)
      expect(await ask('source')).toBe('redis')
      expect([await ask('consume'), await ask('consume'), await ask('peek')]).toEqual([98, 97, 97])
      expect([await ask('fixed'), await ask('fixed'), await ask('fixed'), await ask('fixed')]).toEqual([
        true,
        true,
        true,
        false,
      ])
    },
  )

  test.each([[[]], [['nodejs_compat']]])('requests at once are decided, each in its own: %j', async flags => {
    const ask = await workerOf(LIMITER, DECIDE, flags)
    for (let round = 0; round < 3; round++) {
      const left = await times(8, () => ask('consume'))
      expect(new Set(left).size).toBe(8)
    }
    expect(await ask('peek')).toBe(76)
  })

  test('a call that its request does not await ends nothing', async () => {
    const ask = await workerOf(LIMITER, DECIDE)
    expect(await ask('consume')).toBe(99)
    for (let round = 0; round < 3; round++) {
      expect(await ask('forget')).toBe('sent')
      expect(await ask('source')).toBe('redis')
    }
    const before = (await ask('peek')) as number
    expect(await ask('later')).toBe('sent')
    // It was awaited after the answer, in the time of its own request.
    let now = before
    for (let tries = 0; tries < 100 && now === before; tries++) now = (await ask('peek')) as number
    expect(now).toBe(before + 1)
  })

  test('what is kept in an instance is used by its requests, and a second instance counts the same', async () => {
    const asks = [await workerOf(LIMITER, DECIDE), await workerOf(LIMITER, DECIDE)]
    const answers: unknown[] = []
    for (let i = 0; i < 6; i++) answers.push(await asks[i % 2]('consume'))
    expect(answers).toEqual([99, 98, 97, 96, 95, 94])
  })

  test('middleware limits requests by their address', async () => {
    const made = `const limit = http.rateLimit({
      policy: '2/1m', store: new spillway.RedisStore(client), deadline: '2s', key: request => request.headers.get('x-user') ?? 'me',
    })`
    const guarded = `{
      const { refusal, decision } = await limit(request)
      return refusal === undefined ? decision.remaining : refusal.status
    }`
    const ask = await workerOf(made, { limited: guarded })
    expect([await ask('limited'), await ask('limited'), await ask('limited')]).toEqual([1, 0, 429])
  })

  test('shared objects may be made while the program loads, and serve the request that makes them', async () => {
    const made = `
      new spillway.Semaphore(client, 'unused', { permits: 2 })
      new spillway.SharedRateLimiter(client, 'unused')
      new spillway.DelayQueue(client, 'unused')
    `
    const own = 'const client = new Redis(access)'
    const ask = await workerOf(made, {
      take: `{ ${own}; return (await new spillway.Semaphore(client, 'permits', { permits: 2 }).tryAcquire()) !== null }`,
      rate: `{
        ${own}
        const rate = new spillway.SharedRateLimiter(client, 'rate')
        await rate.trySetRate({ rate: 2, interval: '1m' })
        return rate.tryAcquire()
      }`,
      push: `{ ${own}; return typeof (await new spillway.DelayQueue(client, 'jobs').push({ hello: 'world' })) }`,
    })
    expect([await ask('take'), await ask('take'), await ask('take')]).toEqual([true, true, false])
    expect([await ask('rate'), await ask('rate'), await ask('rate')]).toEqual([true, true, false])
    expect(await times(4, () => ask('push'))).toEqual(['string', 'string', 'string', 'string'])
  })

  test('in memory, every request that waits has its turn', async () => {
    const made = "const limiter = new spillway.RateLimiter({ policy: '1/50ms' })"
    const ask = await workerOf(made, {
      wait: "{ const { allowed } = await limiter.acquire('me', { timeout: '20s' }); return allowed }",
    })
    expect(await times(8, () => ask('wait'))).toEqual(Array.from({ length: 8 }, () => true))
  })
})

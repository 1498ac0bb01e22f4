import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createClient } from 'redis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { freePort } from '../support/free-port.js'
import { RedisServer } from '../support/redis-server.js'
import { TcpProxy } from '../support/tcp-proxy.js'

let redis: RedisServer
let proxy: TcpProxy
beforeAll(async () => {
  redis = await RedisServer.start()
  proxy = await TcpProxy.start(redis.port)
})
afterAll(async () => {
  await proxy.stop()
  await redis.stop()
})

/** A limiter of a process that has just started, as far as Redis can tell. */
function newcomer(prefix: string, options: { connectDeadline?: number; deadline?: number } = {}): RateLimiter {
  const { connectDeadline, deadline } = options
  const store = new RedisStore(redis.client({ port: proxy.port }), { prefix, connectDeadline })
  return new RateLimiter({ policy: '2/60s', store, deadline })
}

describe('the first decision of a process', () => {
  test('is made by Redis although connecting and loading the script take longer than the deadline: of 2/60s two of five short processes pass', async () => {
    proxy.delayMs = () => 15
    await redis.client().script('FLUSH')
    const decisions = []
    for (let i = 0; i < 5; i++) decisions.push(await newcomer('short').consume('k'))
    proxy.delayMs = () => 0
    expect(decisions.map(({ source }) => source)).toEqual(Array(5).fill('redis'))
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, false, false, false])
  })

  test.each(['consumeUpTo', 'acquire', 'charge'] as const)('%s has as much time', async verb => {
    proxy.delayMs = () => 15
    const limiter = newcomer(verb)
    const verbs = {
      consumeUpTo: () => limiter.consumeUpTo('k', 1),
      acquire: () => limiter.acquire('k'),
      charge: () => limiter.charge('k'),
    }
    await verbs[verb]()
    proxy.delayMs = () => 0
    expect((await newcomer(verb).peek('k', 0)).remaining).toBe(1)
  })

  test('takes no longer than connectDeadline, and a decision after the first answer no longer than its deadline', async () => {
    proxy.swallow()
    const limiter = newcomer('slow', { connectDeadline: 300 })
    const askedAt = performance.now()
    expect((await limiter.consume('k')).source).toBe('fallback')
    const tookMs = performance.now() - askedAt
    expect(tookMs).toBeGreaterThanOrEqual(299)
    expect(tookMs).toBeLessThan(900)
    proxy.release()

    const answered = newcomer('hangs later', { connectDeadline: 5000 })
    expect((await answered.consume('k')).source).toBe('redis')
    proxy.swallow()
    const askedLater = performance.now()
    expect((await answered.consume('k')).source).toBe('fallback')
    expect(performance.now() - askedLater).toBeLessThan(1000)
    proxy.release()
  })

  test('shares connectDeadline with those behind it: beside a hung Redis twenty take 1 s and their deadlines', async () => {
    proxy.swallow()
    const limiter = newcomer('twenty')
    const startedAt = performance.now()
    for (let i = 0; i < 20; i++) expect((await limiter.consume('k')).source).toBe('fallback')
    const tookMs = performance.now() - startedAt
    proxy.release()
    expect(tookMs).toBeGreaterThanOrEqual(999)
    expect(tookMs).toBeLessThan(5000)
  })

  test('waits for the rest of connectDeadline, or for its own deadline if that ends later', async () => {
    proxy.swallow()
    const limiter = newcomer('rest', { connectDeadline: 600, deadline: 300 })
    const timed = async () => {
      const askedAt = performance.now()
      expect((await limiter.consume('k')).source).toBe('fallback')
      return { askedAt, tookMs: performance.now() - askedAt }
    }
    const startedAt = performance.now()
    const first = timed()
    await new Promise(done => setTimeout(done, 100))
    const second = timed()
    await new Promise(done => setTimeout(done, 400))
    const third = timed()
    const took = await Promise.all([first, second, third])
    proxy.release()
    expect(took[2].askedAt - startedAt).toBeGreaterThan(300)
    for (const { askedAt, tookMs } of took) {
      const least = Math.max(600 - (askedAt - startedAt), 300)
      expect(tookMs).toBeGreaterThanOrEqual(least - 20)
      expect(tookMs).toBeLessThan(least + 250)
    }
  })

  test('has its deadline alone with connectDeadline 0', async () => {
    proxy.swallow()
    const askedAt = performance.now()
    expect((await newcomer('without', { connectDeadline: 0 }).consume('k')).source).toBe('fallback')
    expect(performance.now() - askedAt).toBeLessThan(500)
    proxy.release()
  })
})

describe('a refused connection ends the wait at once', () => {
  test.each(['ioredis', 'node-redis'])('with %s', async name => {
    const port = await freePort()
    const client =
      name === 'ioredis'
        ? redis.client({ port })
        : createClient({ socket: { host: '127.0.0.1', port, reconnectStrategy: () => 10_000 } })
    client.on('error', () => {})
    if ('isOpen' in client) client.connect().catch(() => {})
    const limiter = new RateLimiter({ policy: '2/60s', store: new RedisStore(client, { connectDeadline: '30s' }) })
    expect((await limiter.consume('k')).source).toBe('fallback')
    await expect(limiter.refund('k')).rejects.toThrow('not connected')
    expect((await limiter.acquire('k')).source).toBe('fallback')
    if ('destroy' in client) client.destroy()
  })
})

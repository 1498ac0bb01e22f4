import { expect, test } from '@jest/globals'
import express from 'express'
import Koa from 'koa'
import request from 'supertest'
import { rateLimit } from '../../../src/http/adapters/express.js'
import { rateLimit as koaRateLimit } from '../../../src/http/adapters/koa.js'
import { RedisStore } from '../../../src/index.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { LivePolicies } from '../../../src/operating/live/live-policies.js'
import { ManualClock } from '../../../src/testing.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

/** On a busy machine Redis may take longer than the default: a decision without it would count elsewhere. */
const deadline = '5s'

let prefixes = 0
const liveOf = () => new LivePolicies(redis.client(), { defaults: { api: '2/1m' }, prefix: `p${++prefixes}` })
const stores = (): Array<[string, MemoryStore | RedisStore]> => [
  ['memory', new MemoryStore({ clock: new ManualClock(0) })],
  ['Redis', new RedisStore(redis.client(), { prefix: `s${++prefixes}` })],
]

test('Express: the next request obeys a change, counts go on, and the header names the live name', async () => {
  for (const [, store] of stores()) {
    const live = liveOf()
    const app = express()
    app.use(
      rateLimit({
        store,
        key: req => req.get('x-user'),
        policy: live.policy('api', req => req.get('x-user')),
        deadline,
      }),
    )
    app.get('/', (_, res) => void res.end('ok'))
    const ask = async (user: string) => {
      const { status, headers } = await request(app).get('/').set('x-user', user)
      return [status, headers['ratelimit-policy'], headers.ratelimit]
    }
    expect(await ask('ann')).toEqual([200, '"api";q=2;w=60', expect.stringMatching(/^"api";r=1;/)])
    expect((await ask('ann'))[0]).toBe(200)
    expect((await ask('ann'))[0]).toBe(429)
    await live.set('api', '5/1m')
    // Two of five are spent.
    expect(await ask('ann')).toEqual([200, '"api";q=5;w=60', expect.stringMatching(/^"api";r=2;/)])
    await live.set('api', '3/1m', { key: 'ann' })
    expect(await ask('ann')).toEqual([429, '"api";q=3;w=60', expect.anything()])
    expect(await ask('bob')).toEqual([200, '"api";q=5;w=60', expect.stringMatching(/^"api";r=4;/)])
    await live.clear('api', { key: 'ann' })
    expect((await ask('ann'))[0]).toBe(200)
    await live.close()
  }
})

test('Koa: the same, by the context', async () => {
  const live = liveOf()
  const app = new Koa()
  app.silent = true
  app.use(koaRateLimit({ key: ctx => ctx.get('x-user'), policy: live.policy('api', ctx => ctx.get('x-user')) }))
  app.use(ctx => {
    ctx.body = 'ok'
  })
  const server = app.listen(0)
  const ask = async () => (await request(server).get('/').set('x-user', 'ann')).status
  expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429])
  await live.set('api', '3/1m', { key: 'ann' })
  expect([await ask(), await ask()]).toEqual([200, 429])
  server.close()
  await live.close()
})

test('RateLimiter: a function of the key, for consume and acquire', async () => {
  for (const [source, store] of stores()) {
    const live = liveOf()
    const limiter = new RateLimiter({ store, policy: live.policy('api', (key: string) => key), deadline })
    const allowed = async (key: string) => (await limiter.consume(key)).allowed
    expect([await allowed('ann'), await allowed('ann'), await allowed('ann')]).toEqual([true, true, false])
    await live.set('api', '4/1m', { key: 'ann' })
    expect([await allowed('ann'), await allowed('ann'), await allowed('ann')]).toEqual([true, true, false])
    expect((await limiter.peek('ann', 0)).limit).toMatchObject({ name: 'api', quota: 4 })
    await live.set('api', '0/1m')
    expect(await allowed('bob')).toBe(false)
    expect(await limiter.consume('ann', 0)).toMatchObject({ allowed: true, remaining: 0 })
    if (source === 'memory')
      expect((await limiter.acquire('ann', { timeout: 0 }).catch(error => error)).name).toBe('TimeoutError')
    await live.close()
  }
})

test('a lower limit applies at once, also in a process that remembers earlier decisions', async () => {
  const store = new RedisStore(redis.client(), { prefix: `s${++prefixes}` })
  const live = liveOf()
  await live.set('api', '100/1m')
  const limiter = new RateLimiter({ store, policy: live.policy('api'), deadline })
  for (let i = 0; i < 10; i++) expect((await limiter.consume('ann')).allowed).toBe(true)
  await live.set('api', '5/1m', { until: '1h' })
  expect(await limiter.consume('ann')).toMatchObject({ allowed: false, remaining: 0 })
  await live.set('api', '11/1m', { until: '1h' })
  expect(await limiter.consume('ann')).toMatchObject({ allowed: true, remaining: 0 })
  await live.close()
})

import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, beforeAll, expect, test } from '@jest/globals'
import express from 'express'
import type { Redis } from 'ioredis'
import request from 'supertest'
import { rateLimit } from '../../../src/http/adapters/express.js'
import { RedisStore } from '../../../src/index.js'
import { CHANNEL_OF, isHeard, type Observer } from '../../../src/limiter/core/observer.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { Bottleneck } from '../../../src/replacing/bottleneck/index.js'
import { ManualClock } from '../../../src/testing.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { RedisServer } from '../../support/redis-server.js'
import { StubStore } from '../../support/stub-store.js'
import { testRedis } from '../../support/test-redis.js'
import { warnings } from '../../support/warnings.js'
import { Recorder } from './recorder.js'

type Message = { readonly event: string } & Record<string, unknown>

const warned = warnings()
const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

const endings: Array<() => void> = []
afterEach(() => {
  for (const end of endings.splice(0)) end()
})

/** Who has begun what happens: a channel is one for the process, and what another file began may still tell. */
const begun = new AsyncLocalStorage<object>()

/** The messages of a channel from now on, of what this test begins. */
function hear(channel: string): Message[] {
  const messages: Message[] = []
  const listener = (message: unknown) => {
    if (begun.getStore() === endings) messages.push(message as Message)
  }
  begun.enterWith(endings)
  subscribe(`spillway:${channel}`, listener)
  endings.push(() => unsubscribe(`spillway:${channel}`, listener))
  return messages
}

const of = (messages: readonly Message[], event: string) => messages.filter(message => message.event === event)

let names = 0
const fresh = () => `channels-${names++}`

test('decided: each decision and its limiter, of a limiter that is older than the subscription, until it ends', async () => {
  const limiter = new RateLimiter({ policy: '1/1m', name: 'api' })
  await limiter.consume('before')
  const messages = hear('decided')
  const decisions = [await limiter.consume('k'), await limiter.consume('k'), limiter.decide('k')]
  await limiter.peek('k')
  expect(messages).toEqual(decisions.map(decision => ({ event: 'decided', decision, limiter: 'api' })))
  for (const end of endings.splice(0)) end()
  await limiter.consume('after')
  expect(messages).toHaveLength(3)
})

test('decided: of a middleware, an acquire and a settlement that looks only; an observer is told of the same', async () => {
  const recorder = new Recorder()
  const app = express()
  app.use(rateLimit({ policy: '5/1m', cost: 0, settle: () => 1, observer: recorder.observer }))
  app.use((_req, res) => void res.send('hello'))
  const limiter = new RateLimiter({ policy: '5/1m', observer: recorder.observer })
  const messages = hear('decided')
  await request(app).get('/').expect(200)
  await limiter.acquire('k')
  expect(messages.map(({ decision }) => decision)).toEqual(recorder.of('decided'))
  expect(messages).toHaveLength(2)
})

test('store: answers, failures, and a breaker once for all limiters of the store, with and without an observer', async () => {
  const server = await RedisServer.start()
  endings.push(() => void server.stop())
  const store = new RedisStore(server.client())
  const options = { policy: '100/1m', store, deadline: '100ms' } as const
  const recorder = new Recorder()
  const limiters = [new RateLimiter(options), new RateLimiter({ ...options, observer: recorder.observer })]
  await limiters[0].consume('k')
  const messages = hear('store')
  await limiters[0].consume('k')
  expect(messages).toEqual([{ event: 'storeAnswered', durationMs: expect.any(Number), decisions: 1 }])
  const consume = async () => {
    for (const limiter of limiters) await limiter.consume('k')
  }
  server.pause()
  await eventually('the breaker opens', async () => {
    await consume()
    return recorder.count('breakerOpened') > 0
  })
  server.unpause()
  await eventually('the breaker closes', async () => {
    await consume()
    return recorder.count('breakerClosed') > 0
  })
  expect(of(messages, 'storeFailed')[0]).toEqual({ event: 'storeFailed', error: expect.any(Error) })
  expect(of(messages, 'storeFailed').length).toBeGreaterThan(recorder.count('storeFailed'))
  expect(of(messages, 'breakerOpened')).toEqual([{ event: 'breakerOpened', error: expect.any(Error) }])
  expect(of(messages, 'breakerClosed')).toEqual([{ event: 'breakerClosed' }])
})

test('store: units bought in advance, and those that expire', async () => {
  const store = new RedisStore(client, { clock: new ManualClock(1_000_000), prefix: fresh(), leases: true })
  const options = { policy: '1000/1s', store, deadline: '10s' } as const
  const recorder = new Recorder()
  const limiters = [1, 2].map(() => new RateLimiter({ ...options, observer: recorder.observer }))
  const messages = hear('store')
  for (let i = 0; i < 30; i++) await limiters[i % 2].consume('k')
  await Promise.all(limiters.map(limiter => limiter.close()))
  for (const event of ['leaseBought', 'leaseExpired'] as const) {
    expect(of(messages, event)).toEqual(recorder.of(event).map(fields => ({ event, ...fields })))
  }
  expect(recorder.count('leaseBought')).toBeGreaterThan(0)
})

test('store: the consumers of a queue that cannot work', async () => {
  const rate = new SharedRateLimiter(client, fresh())
  const name = fresh()
  const queue = new DelayQueue(client, name)
  await queue.push('work')
  const messages = hear('store')
  const consumer = queue.consume(async () => {}, { limiter: rate })
  await eventually('it is told', () => of(messages, 'consumerFailed').length > 0)
  expect(messages.find(({ event }) => event === 'consumerFailed')).toEqual({
    event: 'consumerFailed',
    queue: name,
    error: expect.any(Error),
  })
  await consumer.close()
  await Promise.all([queue.close(), rate.close()])
})

test('waited and held: a semaphore that is older than the subscription', async () => {
  const name = fresh()
  const semaphore = new Semaphore(client, name, { permits: 1 })
  const early = await semaphore.acquire()
  const [waited, held] = [hear('waited'), hear('held')]
  await early.release()
  const lease = await semaphore.acquire()
  expect(await semaphore.tryAcquire()).toBeNull()
  const object = 'semaphore'
  const [{ holds, ...holding }] = of(held, 'holding')
  expect(holding).toEqual({ event: 'holding', object, name })
  expect([...(holds as Set<object>)]).toEqual([expect.objectContaining({ permits: 1, lease: lease.id })])
  await lease.release()
  expect(of(waited, 'waited')).toEqual([
    { event: 'waited', object, name, waitMs: expect.any(Number), outcome: 'granted' },
    { event: 'waited', object, name, waitMs: expect.any(Number), outcome: 'timeout' },
  ])
  // What began before the subscription is not reported.
  expect(of(held, 'held')).toEqual([{ event: 'held', object, name, heldMs: expect.any(Number), lost: false }])
  await eventually('no permit is in use', () => of(waited, 'level').at(-1)?.inUse === 0)
  expect(of(waited, 'level')[0]).toMatchObject({ event: 'level', object, name })
  await semaphore.close()
})

test('waited: an acquire of a limiter, and a request that a leaky bucket delays', async () => {
  const limiter = new RateLimiter({ policy: '10/1s', name: 'line' })
  const app = express()
  app.use(rateLimit({ policy: '10/1s leaky-bucket', name: 'leaky' }))
  app.use((_req, res) => void res.send('hello'))
  const messages = hear('waited')
  await limiter.acquire('k')
  await request(app).get('/').expect(200)
  await request(app).get('/').expect(200)
  const waits = of(messages, 'waited').map(({ object, name, outcome }) => [object, name, outcome])
  expect(waits).toEqual([
    ['limiter', 'line', 'granted'],
    ['limiter', 'leaky', 'granted'],
  ])
})

test('held: the weight of the jobs of a Bottleneck', async () => {
  const limiter = new Bottleneck({ id: 'jobs', maxConcurrent: 1 })
  const held = hear('held')
  expect(await limiter.schedule({ weight: 1 }, async () => 5)).toBe(5)
  await eventually('the job has ended', () => of(held, 'held').length > 0)
  expect(of(held, 'held')).toEqual([
    { event: 'held', object: 'bottleneck', name: 'jobs', heldMs: expect.any(Number), lost: false },
  ])
})

test('delivered: deliveries and how they ended; a dead letter once for two objects of a queue', async () => {
  const clock = new ManualClock(1_000_000)
  const name = fresh()
  const options = { clock, maxAttempts: 1, visibility: '1m' } as const
  const queues = [new DelayQueue<string>(client, name, options), new DelayQueue<string>(client, name, options)]
  const [messages, levels] = [hear('delivered'), hear('waited')]
  await queues[0].pushMany([{ payload: 'a' }, { payload: 'b' }])
  const [first] = await queues[0].receive({ count: 2 })
  await first.ack()
  clock.advance(60_000)
  expect(await queues[0].receive()).toEqual([])
  const delivery = { event: 'delivered', queue: name, latenessMs: expect.any(Number), attempt: 1 }
  expect(messages).toEqual([
    delivery,
    delivery,
    { event: 'settledDelivery', queue: name, outcome: 'ack', durationMs: expect.any(Number) },
    { event: 'settledDelivery', queue: name, outcome: 'dead', durationMs: 0 },
  ])
  await eventually('its depth is told', () => of(levels, 'level').length > 0)
  expect(levels[0]).toMatchObject({ event: 'level', object: 'queue', name, overdueMs: 0 })
  await Promise.all(queues.map(queue => queue.close()))
})

test('a subscriber takes no warning of an outage away', async () => {
  const messages = hear('store')
  const store = new StubStore()
  store.answer = async () => {
    throw new Error('down')
  }
  const limiter = new RateLimiter({ policy: '100/1m', store })
  for (let i = 0; i < 40; i++) await limiter.consume('k')
  expect(of(messages, 'storeFailed').length).toBeGreaterThan(0)
  expect(warned.textsOf('SPILLWAY_STORE')).toHaveLength(1)
})

test('every event has a channel', () => {
  for (const name of ['decided', 'store', 'waited', 'held', 'delivered']) hear(name)
  expect(Object.keys(CHANNEL_OF).filter(event => !isHeard(undefined, event as keyof Observer))).toEqual([])
  for (const end of endings.splice(0)) end()
  expect(Object.keys(CHANNEL_OF).filter(event => isHeard(undefined, event as keyof Observer))).toEqual([])
})

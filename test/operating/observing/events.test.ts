import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import express, { type Request, type Response } from 'express'
import type { Redis } from 'ioredis'
import request from 'supertest'
import { concurrencyLimit, rateLimit } from '../../../src/http/adapters/express.js'
import { RedisStore } from '../../../src/index.js'
import type { Observer } from '../../../src/limiter/core/observer.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import type { Lease } from '../../../src/waiting/semaphore/lease.js'
import { Semaphore } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { StubStore } from '../../support/stub-store.js'
import { testRedis } from '../../support/test-redis.js'
import { warnings } from '../../support/warnings.js'
import { METHODS, Recorder } from './recorder.js'

const warned = warnings()

const redis = testRedis()
let client: Redis
let recorder: Recorder
let observer: Observer
beforeAll(() => {
  client = redis.client()
})
beforeEach(() => {
  recorder = new Recorder()
  observer = recorder.observer
})

let names = 0
const fresh = () => `events-${names++}`

describe('decisions', () => {
  test('in shadow mode an allowed refusal is marked; other decisions are not', async () => {
    const limiter = new RateLimiter({ policy: '1/1m', shadow: true, observer })
    const strict = new RateLimiter({ policy: '1/1m', observer })
    const decisions = [await limiter.consume('k'), await limiter.consume('k'), await limiter.peek('k')]
    decisions.push(await strict.consume('k'), await strict.consume('k'))
    expect(decisions.map(({ allowed, shadow }) => [allowed, shadow])).toEqual([
      [true, false],
      [true, true],
      [true, true],
      [true, false],
      [false, false],
    ])
    expect(recorder.of('decided').map(({ shadow }) => shadow)).toEqual([false, true, false, false])
  })

  test('an observer that throws or rejects costs a process warning, and changes no decision', async () => {
    const bad = Object.fromEntries(
      METHODS.map(method => [
        method,
        () => {
          throw new Error(method)
        },
      ]),
    )
    const limiter = new RateLimiter({ policy: '2/1m', observer: bad })
    const later = new RateLimiter({
      policy: '2/1m',
      observer: {
        decided: async () => {
          throw new Error('later')
        },
      },
    })
    const allowed: boolean[] = []
    for (const one of [limiter, later]) for (let i = 0; i < 3; i++) allowed.push((await one.consume('k')).allowed)
    const semaphore = new Semaphore(client, fresh(), { permits: 1, observer: bad })
    expect(await semaphore.use(async () => 5)).toBe(5)
    const queue = new DelayQueue<string>(client, fresh(), { observer: bad })
    await queue.push('work')
    const [delivery] = await queue.receive({ wait: '5s' })
    await delivery.ack()
    await Promise.all([queue.close(), semaphore.close()])
    // A warning is emitted in a later turn of the event loop.
    await sleep(0)
    expect(allowed).toEqual([true, true, false, true, true, false])
    expect(new Set(warned.texts)).toEqual(
      new Set(
        ['decided', 'waited', 'held', 'holding', 'level', 'delivered', 'settledDelivery']
          .map(name => `observer.${name} threw: ${name}`)
          .concat('observer.decided threw: later'),
      ),
    )
  })
})

describe('the store', () => {
  test('its answer to many decisions of one turn is one event with their number; changes and peeks are events too', async () => {
    const limiter = new RateLimiter({
      policy: '100/1m',
      store: new RedisStore(client),
      name: fresh(),
      observer,
      deadline: '5s',
    })
    await limiter.consume('first')
    await Promise.all(Array.from({ length: 20 }, () => limiter.consume('k')))
    await Promise.all([limiter.peek('k'), limiter.peek('k')])
    await limiter.reset('k')
    expect(recorder.of('storeAnswered').map(({ decisions }) => decisions)).toEqual([1, 20, 2, 0])
    for (const { durationMs } of recorder.of('storeAnswered')) expect(durationMs).toBeGreaterThan(0)
    expect(recorder.of('decided')).toHaveLength(21)
    expect(recorder.count('storeFailed')).toBe(0)
  })

  test('a store that answers at once is not measured', async () => {
    const limiter = new RateLimiter({ policy: '100/1m', store: new MemoryStore(), observer })
    await limiter.consume('k')
    await limiter.reset('k')
    expect(recorder.events.map(([method]) => method)).toEqual(['decided'])
  })

  test('when a breaker opens or closes, every observer of its store is called once, whichever decision caused it', async () => {
    const store = new StubStore()
    const allow = store.answer
    const other = new Recorder()
    const late = new Recorder()
    const limiter = new RateLimiter({ policy: '100/1m', store, name: 'a', observer })
    const second = new RateLimiter({ policy: '100/1m', store, name: 'b', observer: other.observer })
    const twin = new RateLimiter({ policy: '50/1m', store, name: 'c', observer })
    store.answer = async () => {
      throw new Error('down')
    }
    for (let i = 0; i < 40; i++) await limiter.consume('k')
    const third = new RateLimiter({ policy: '100/1m', store, name: 'd', observer: late.observer })
    store.answer = allow
    await eventually('the breaker is closed', async () => {
      await second.consume('k')
      await third.consume('k')
      expect(recorder.count('breakerClosed')).toBe(1)
    })
    await twin.consume('k')
    expect([recorder.count('breakerOpened'), recorder.count('breakerClosed')]).toEqual([1, 1])
    expect([other.count('breakerOpened'), other.count('breakerClosed')]).toEqual([1, 1])
    expect([late.count('breakerOpened'), late.count('breakerClosed')]).toEqual([0, 0])
    expect([recorder.count('storeFailed'), other.count('storeFailed')]).toEqual([20, 0])
  })
})

describe('waiting', () => {
  test('acquire of a limiter reports each outcome, the number of waiters, and its return to 0', async () => {
    const limiter = new RateLimiter({ policy: '1/500ms', observer, name: 'line' })
    const gone = new AbortController()
    const startedAt = performance.now()
    const outcomes = [
      limiter.acquire('k'),
      limiter.acquire('k'),
      limiter.acquire('k', { signal: gone.signal }),
      limiter.acquire('k', { timeout: 5 }),
    ].map(turn =>
      turn.then(
        () => 'granted',
        error => error.name,
      ),
    )
    // On a busy machine a part of the window is over when the second one begins to wait.
    await new Promise(resolve => setImmediate(resolve))
    const askingMs = performance.now() - startedAt
    await eventually('two wait', () => expect(recorder.of('level').map(({ waiting }) => waiting)).toEqual([2]))
    gone.abort()
    expect(await Promise.all(outcomes)).toEqual(['granted', 'granted', 'AbortError', 'TimeoutError'])
    const waited = recorder.of('waited')
    expect(waited.map(({ object, name, outcome }) => [object, name, outcome])).toEqual([
      ['limiter', 'line', 'granted'],
      ['limiter', 'line', 'timeout'],
      ['limiter', 'line', 'aborted'],
      ['limiter', 'line', 'granted'],
    ])
    expect(waited[3].waitMs).toBeGreaterThanOrEqual(490 - askingMs)
    expect(recorder.of('decided')).toHaveLength(2)
    await eventually('nobody waits', () => expect(recorder.of('level').map(({ waiting }) => waiting)).toEqual([2, 0]))
  })

  test('a failed call and an immediate grant leave no level behind', async () => {
    const limiter = new RateLimiter({ policy: '10/1m', observer })
    await expect(limiter.acquire('k', { cost: 11 })).rejects.toThrow('never allows so much')
    await limiter.acquire('k')
    // As long as it takes until a level is told.
    await sleep(40)
    expect(recorder.of('waited').map(({ outcome }) => outcome)).toEqual(['granted'])
    expect(recorder.count('level')).toBe(0)
  })

  test('a shared rate reports granted and refused requests', async () => {
    const rate = new SharedRateLimiter(client, fresh(), { observer })
    await expect(rate.acquire()).rejects.toThrow('no rate is set')
    await rate.trySetRate({ rate: 1, interval: '1h' })
    expect(await rate.tryAcquire()).toBe(true)
    expect(await rate.tryAcquire()).toBe(false)
    await expect(rate.acquire(1, { signal: AbortSignal.abort() })).rejects.toThrow()
    expect(recorder.of('waited').map(({ object, outcome }) => [object, outcome])).toEqual([
      ['rate', 'granted'],
      ['rate', 'timeout'],
      ['rate', 'aborted'],
    ])
    await rate.close()
  })
})

describe('holding', () => {
  test('a semaphore lists what the process holds: permits, lease, and the moment of its grant', async () => {
    const name = fresh()
    const semaphores = [1, 2].map(() => new Semaphore(client, name, { permits: 9, observer }))
    const [one, two] = semaphores
    const first = await one.acquire({ permits: 2 })
    const second = await two.acquire()
    const [{ holds, ...told }, ...more] = recorder.of('holding')
    expect([told, more]).toEqual([{ object: 'semaphore', name }, []])
    const held = ({ id, permits, token }: Lease) => ({ permits, lease: id, since: Number(token / 1000n) })
    expect([...holds]).toEqual([held(first), held(second)])
    await first.release()
    const taken = await two.resume(second.id)
    expect([...holds].at(-1)).toEqual(held(taken as Lease))
    await taken?.release()
    await eventually('nothing is held', () => expect([...holds]).toEqual([]))
    await Promise.all(semaphores.map(each => each.close()))
  })

  test('a semaphore reports permits in use, how long they were held, and whether they were lost', async () => {
    const name = fresh()
    const semaphore = new Semaphore(client, name, { permits: 3, observer })
    // On a busy machine the first call takes so long that it is reported as waiting, before any permit is in use.
    const levels = () => recorder.of('level').filter(({ inUse }) => inUse !== undefined)
    const two = await semaphore.acquire({ permits: 2 })
    await eventually('two permits are in use', () =>
      expect(levels()).toEqual([{ object: 'semaphore', name, inUse: 2, waiting: 0 }]),
    )
    const one = await semaphore.acquire()
    expect(await semaphore.tryAcquire()).toBeNull()
    await two.release()
    expect(recorder.of('held')).toEqual([{ object: 'semaphore', name, heldMs: expect.any(Number), lost: false }])
    const signal = one.signal
    await semaphore.forceRelease(one.id)
    await eventually('the lease is lost', () => expect(signal.aborted).toBe(true))
    expect(recorder.of('held').map(({ lost }) => lost)).toEqual([false, true])
    expect(recorder.of('waited').map(({ outcome }) => outcome)).toEqual(['granted', 'granted', 'timeout'])
    await eventually('no permit is in use', () =>
      expect(levels().at(-1)).toEqual({ object: 'semaphore', name, inUse: 0, waiting: 0 }),
    )
    expect(levels()).toHaveLength(2)
    await semaphore.close()
  })

  test('levels of several objects of one name are one sum', async () => {
    const name = fresh()
    const semaphores = [1, 2].map(() => new Semaphore(client, name, { permits: 5, observer }))
    const leases = await Promise.all(semaphores.map(semaphore => semaphore.acquire()))
    const levels = () => recorder.of('level').flatMap(({ inUse }) => inUse ?? [])
    await eventually('two permits are in use', () => expect(levels().at(-1)).toBe(2))
    // On a busy machine the first calls are reported as waiting, and the next report, a second later, has both leases.
    expect([[1, 2], [2]]).toContainEqual(levels())
    for (const lease of leases) await lease.release()
    for (const semaphore of semaphores) await semaphore.close()
  })

  test.each([
    ['in the process', false],
    ['over Redis', true],
  ])('concurrencyLimit %s reports places, waiters, refusals, and clients that go away', async (_, shared) => {
    const name = fresh()
    const app = express()
    const open: Response[] = []
    const places = { name, permits: 1, wait: '5s', queue: 2, deadline: '5s', observer } as const
    app.use(concurrencyLimit(shared ? { ...places, client } : places))
    app.get('/', (_req: Request, res: Response) => void open.push(res))
    const server = app.listen(0)
    const first = request(server)
      .get('/')
      .then(({ status }) => status)
    await eventually('the first has a place', () => expect(open).toHaveLength(1))
    const second = request(server)
      .get('/')
      .then(({ status }) => status)
    await eventually('the second waits', () =>
      expect(recorder.of('level').at(-1)).toEqual({ object: 'concurrency', name, inUse: 1, waiting: 1 }),
    )
    const gone = new AbortController()
    const port = (server.address() as { port: number }).port
    const third = fetch(`http://127.0.0.1:${port}/`, { signal: gone.signal }).catch(() => 'gone')
    await eventually('the third waits', () => expect(recorder.of('level').at(-1)?.waiting).toBe(2))
    expect(
      await request(server)
        .get('/')
        .then(({ status }) => status),
    ).toBe(503)
    gone.abort()
    expect(await third).toBe('gone')
    await eventually('the third has gone', () =>
      expect(recorder.of('waited').map(({ outcome }) => outcome)).toContain('aborted'),
    )
    open[0].end()
    await eventually('the second has a place', () => expect(open).toHaveLength(2))
    open[1].end()
    expect(await Promise.all([first, second])).toEqual([200, 200])
    await eventually('all places are free', () =>
      expect(recorder.of('level').at(-1)).toEqual({ object: 'concurrency', name, inUse: 0, waiting: 0 }),
    )
    expect(recorder.of('waited').map(({ outcome }) => outcome)).toEqual(['granted', 'timeout', 'aborted', 'granted'])
    expect(recorder.of('held').map(({ lost }) => lost)).toEqual([false, false])
    if (shared) expect(recorder.count('storeAnswered')).toBeGreaterThan(0)
    server.closeAllConnections()
    server.close()
  })

  test('a request that a leaky bucket delays counts as a wait', async () => {
    const app = express()
    app.use(rateLimit({ policy: '2/1s leaky-bucket burst=3', observer, name: 'leaky' }))
    app.get('/', (_req: Request, res: Response) => void res.end())
    const server = app.listen(0)
    await Promise.all([1, 2, 3].map(() => request(server).get('/').expect(200)))
    const waited = recorder.of('waited')
    expect(waited.map(({ object, name, outcome }) => [object, name, outcome])).toEqual(
      new Array(2).fill(['limiter', 'leaky', 'granted']),
    )
    expect(waited[1].waitMs).toBeGreaterThanOrEqual(495)
    server.closeAllConnections()
    server.close()
  })
})

describe('a queue', () => {
  test('reports deliveries, how late they were, how each was settled, and its depth', async () => {
    const clock = new ManualClock(1_000_000)
    const name = fresh()
    const queue = new DelayQueue<string>(client, name, {
      clock,
      observer,
      maxAttempts: 2,
      visibility: '1m',
    })
    await queue.pushMany(['a', 'b', 'c', 'd'].map(payload => ({ payload, options: { delay: 100 } })))
    await eventually('the queue holds four', () =>
      expect(recorder.of('level')).toEqual([{ object: 'queue', name, depth: 4, overdueMs: 0 }]),
    )
    clock.advance(350)
    const receivedAt = performance.now()
    const [a, b, c, d] = await queue.receive({ count: 4 })
    const delivered = recorder.of('delivered')
    expect(delivered).toEqual(new Array(4).fill({ queue: name, latenessMs: expect.any(Number), attempt: 1 }))
    // The time of the answer's way is real.
    for (const { latenessMs } of delivered) {
      expect(latenessMs).toBeGreaterThanOrEqual(250)
      expect(latenessMs).toBeLessThanOrEqual(250 + performance.now() - receivedAt)
    }
    await a.ack()
    await b.nack({ delay: 0 })
    await c.reject('bad')
    clock.advance(60_000)
    await expect(d.ack()).rejects.toThrow('no longer ours')
    await expect(d.ack()).rejects.toThrow('no longer ours')
    const again = await queue.receive({ count: 4 })
    expect(again.map(({ id, attempt }) => [id === b.id || id === d.id, attempt])).toEqual([
      [true, 2],
      [true, 2],
    ])
    for (const delivery of again) await delivery.nack({ delay: 0 })
    expect(recorder.of('settledDelivery').map(({ outcome }) => outcome)).toEqual([
      'ack',
      'nack',
      'dead',
      'stale',
      'dead',
      'dead',
    ])
    await eventually('the queue is empty', () =>
      expect(recorder.of('level').at(-1)).toEqual({ object: 'queue', name, depth: 0, overdueMs: 0 }),
    )
    await queue.close()
  })

  test.each([
    ['', 0],
    [', although the clock of its process is an hour behind', 3_600_000],
  ])(
    'of which nothing is delivered tells each second for how long its oldest message has been due%s',
    async (_, behindMs) => {
      const now = Date.now
      const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() - behindMs)
      const name = fresh()
      const pushing = new DelayQueue(client, name)
      const queue = new DelayQueue(client, name, { observer })
      await pushing.pause()
      await pushing.push('x', { delay: 300 })
      await pushing.push('urgent', { delay: 600, priority: 9 })
      const consumer = queue.consume(async () => {})
      const overdue = () => recorder.of('level').map(({ overdueMs = 0 }) => overdueMs)
      await eventually(
        'it tells twice that they are overdue',
        () => expect(overdue().filter(ms => ms > 0).length).toBeGreaterThanOrEqual(2),
        5000,
      )
      clock.mockRestore()
      const [first, second] = overdue().filter(ms => ms > 0)
      expect(second - first).toBeGreaterThanOrEqual(900)
      await pushing.resume()
      await eventually(
        'the queue is empty',
        () => expect(recorder.of('level').at(-1)).toEqual({ object: 'queue', name, depth: 0, overdueMs: 0 }),
        5000,
      )
      await consumer.close()
      await Promise.all([pushing.close(), queue.close()])
    },
  )

  test('calls each observer once for a message whose last visibility has ended', async () => {
    const clock = new ManualClock(1_000_000)
    const name = fresh()
    const options = { clock, observer, maxAttempts: 1, visibility: '1m' }
    const queues = [new DelayQueue<string>(client, name, options), new DelayQueue<string>(client, name, options)]
    await queues[0].pushMany([{ payload: 'a' }, { payload: 'b' }])
    await queues[0].receive({ count: 2 })
    clock.advance(60_000)
    expect(await queues[1].stats()).toMatchObject({ ready: 2, dead: 0 })
    expect(recorder.count('settledDelivery')).toBe(0)
    expect(await queues[1].receive()).toEqual([])
    expect((await queues[1].stats()).dead).toBe(2)
    expect(recorder.of('settledDelivery')).toEqual(new Array(2).fill({ queue: name, outcome: 'dead', durationMs: 0 }))
    await queues[0].push('c')
    await queues[0].receive()
    clock.advance(60_000)
    expect(await queues[0].receive()).toEqual([])
    await eventually('three are settled', () => expect(recorder.count('settledDelivery')).toBe(3))
    await Promise.all(queues.map(queue => queue.close()))
  })

  test('a consumer reports the deliveries to its handlers, and unreadable messages as dead', async () => {
    const name = fresh()
    const queue = new DelayQueue<number>(client, name, { observer })
    const plain = new DelayQueue<string>(client, name, { codec: { encode: String, decode: String } })
    await plain.push('no JSON')
    for (let i = 0; i < 5; i++) await queue.push(i)
    const seen: number[] = []
    const consumer = queue.consume(async ({ payload }) => void seen.push(payload))
    await eventually('six are settled', () => expect(recorder.count('settledDelivery')).toBe(6))
    await consumer.close()
    expect(recorder.of('delivered')).toHaveLength(5)
    expect(
      recorder
        .of('settledDelivery')
        .map(({ outcome }) => outcome)
        .sort(),
    ).toEqual(['ack', 'ack', 'ack', 'ack', 'ack', 'dead'])
    await Promise.all([queue.close(), plain.close()])
  })
})

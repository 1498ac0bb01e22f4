import { EventEmitter } from 'node:events'
import { afterAll, describe, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { concurrencyLimit, rateLimit, shed } from '../src/http/adapters/express.js'
import { rateLimit as limitFetch } from '../src/http/adapters/fetch.js'
import { RateLimits } from '../src/http/adapters/nest-limits.js'
import { limitMessages } from '../src/http/adapters/ws.js'
import { DelayQueue, MemoryStore, RateLimiter, RedisStore, Semaphore, SharedRateLimiter } from '../src/index.js'
import { PolicyError } from '../src/limiter/core/errors.js'
import { adaptivePermits, followLoad, loadPolicy, processLoad } from '../src/operating/adaptive/index.js'
import { dashboard, reporter } from '../src/operating/dashboard/index.js'
import { LivePolicies } from '../src/operating/live/index.js'
import { alerts } from '../src/operating/observing/alerts/index.js'
import { openTelemetryObserver } from '../src/operating/observing/opentelemetry.js'
import { prometheusObserver } from '../src/operating/observing/prometheus.js'
import { politeFetch } from '../src/outgoing/index.js'

// Connects to nothing: wrong options are refused before anything is sent.
const client = new Redis({ lazyConnect: true })
afterAll(() => client.disconnect())

const queue = new DelayQueue(client, 'q')
const rate = new SharedRateLimiter(client, 'r')
const semaphore = new Semaphore(client, 's', { permits: 1 })
const limiter = new RateLimiter({ policy: '1/1m' })
const handler = async () => {}

/** Calls that take options, each with one option misspelt, and the message that tells what was meant. */
const calls: Array<[what: string, call: (options: never) => unknown, misspelt: object, message: string]> = [
  [
    'RedisStore',
    options => new RedisStore(client, options),
    { prefx: 'a' },
    'RedisStore: unknown option "prefx": did you mean prefix?',
  ],
  [
    'RedisStore with keyPrefix',
    options => new RedisStore(client, options),
    { keyPrefix: 'a' },
    'RedisStore: unknown option "keyPrefix": did you mean prefix?',
  ],
  [
    'MemoryStore',
    options => new MemoryStore(options),
    { maxkeys: 5 },
    'MemoryStore: unknown option "maxkeys": did you mean maxKeys?',
  ],
  [
    'RateLimiter',
    options => new RateLimiter(options),
    { polcy: '1/1m' },
    'RateLimiter: unknown option "polcy": did you mean policy?',
  ],
  [
    'LivePolicies',
    options => new LivePolicies(client, options),
    { defalts: { api: '1/1m' } },
    'LivePolicies: unknown option "defalts": did you mean defaults?',
  ],
  [
    'RateLimiter with keyPrefix',
    options => new RateLimiter(options),
    { keyPrefix: 'a' },
    'RateLimiter: unknown option "keyPrefix": the prefix of keys is an option of the store',
  ],
  [
    'RateLimiter.acquire',
    options => limiter.acquire('k', options),
    { timeuot: 5 },
    'acquire: unknown option "timeuot": did you mean timeout?',
  ],
  [
    'Semaphore',
    options => new Semaphore(client, 's', options),
    { permit: 5 },
    'Semaphore: unknown option "permit": did you mean permits?',
  ],
  [
    'Semaphore.acquire',
    options => semaphore.acquire(options),
    { leese: 5 },
    'acquire: unknown option "leese": did you mean lease?',
  ],
  [
    'Semaphore.tryAcquire',
    options => semaphore.tryAcquire(options),
    { timeOut: 5 },
    'tryAcquire: unknown option "timeOut": did you mean timeout?',
  ],
  [
    'Semaphore.use',
    options => semaphore.use(handler, options),
    { renews: true },
    'acquire: unknown option "renews": did you mean renew?',
  ],
  [
    'Semaphore.resume',
    options => semaphore.resume('id', options),
    { timeout: 5 },
    'resume: unknown option "timeout": expected lease, renew',
  ],
  [
    'SharedRateLimiter',
    options => new SharedRateLimiter(client, 'r', options),
    { clientID: 'a' },
    'SharedRateLimiter: unknown option "clientID": did you mean clientId?',
  ],
  [
    'SharedRateLimiter.acquire',
    options => rate.acquire(1, options),
    { cost: 5 },
    'acquire: unknown option "cost": expected timeout, signal',
  ],
  [
    'SharedRateLimiter.tryAcquire',
    options => rate.tryAcquire(1, options),
    { timout: 5 },
    'tryAcquire: unknown option "timout": did you mean timeout?',
  ],
  [
    'SharedRateLimiter.trySetRate',
    options => rate.trySetRate(options),
    { rate: 1, interval: '1s', keepalive: '1m' },
    'unknown option "keepalive": did you mean keepAlive?',
  ],
  [
    'SharedRateLimiter.setRate',
    options => rate.setRate({ rate: 1, interval: '1s' }, options),
    { keepstate: true },
    'setRate: unknown option "keepstate": did you mean keepState?',
  ],
  [
    'SharedRateLimiter.updateRate',
    options => rate.updateRate({ rate: 1, interval: '1s' }, options),
    { keep: true },
    'updateRate: unknown option "keep": did you mean keepState?',
  ],
  [
    'DelayQueue',
    options => new DelayQueue(client, 'q', options),
    { maxAttempt: 5 },
    'unknown option "maxAttempt": did you mean maxAttempts?',
  ],
  [
    'DelayQueue’s backoff',
    options => new DelayQueue(client, 'q', options),
    { backoff: { type: 'fixed', delay: 5, jiter: 1 } },
    'backoff: unknown option "jiter": did you mean jitter?',
  ],
  [
    'DelayQueue.push',
    options => queue.push(1, options),
    { dealy: 5 },
    'push: unknown option "dealy": did you mean delay?',
  ],
  [
    'DelayQueue.pushMany',
    options => queue.pushMany([{ payload: 1, options }]),
    { prio: 5 },
    'pushMany: unknown option "prio": did you mean priority?',
  ],
  [
    'DelayQueue.receive',
    options => queue.receive(options),
    { timeout: 5 },
    'receive: unknown option "timeout": expected count, wait, visibility, signal',
  ],
  [
    'DelayQueue.consume',
    options => queue.consume(handler, options),
    { concurency: 5 },
    'consume: unknown option "concurency": did you mean concurrency?',
  ],
  [
    'DelayQueue.dead',
    options => queue.dead(options),
    { limits: 5 },
    'dead: unknown option "limits": did you mean limit?',
  ],
  [
    'DelayQueue.redrive',
    options => queue.redrive(options),
    { id: 'a' },
    'redrive: unknown option "id": did you mean ids?',
  ],
  [
    'rateLimit',
    options => rateLimit(options),
    { addressHeaders: 'forwarded' },
    'rateLimit: unknown option "addressHeaders": did you mean addressHeader?',
  ],
  [
    'rateLimit’s block',
    options => rateLimit(options),
    { block: { after: 1, for: '1h', windows: '1m' } },
    'rateLimit: block: unknown option "windows": did you mean window?',
  ],
  [
    'rateLimit’s defer',
    options => rateLimit(options),
    { defer: { queue, message: handler, timeuot: 1 } },
    'rateLimit: defer: unknown option "timeuot": did you mean timeout?',
  ],
  [
    'concurrencyLimit',
    options => concurrencyLimit(options),
    { permits: 1, keyPrefix: 'a' },
    'concurrencyLimit: unknown option "keyPrefix": did you mean prefix?',
  ],
  [
    'rateLimit’s slowDown',
    options => rateLimit(options),
    { slowDown: { aftr: 1 } },
    'rateLimit: slowDown: unknown option "aftr": did you mean after?',
  ],
  [
    'rateLimit of spillway/fetch',
    options => limitFetch(options),
    { polcy: '1/1m' },
    'rateLimit: unknown option "polcy": did you mean policy?',
  ],
  [
    'RateLimitModule.forRoot',
    options => new RateLimits(options),
    { polcy: '1/1m' },
    'rateLimit: unknown option "polcy": did you mean policy?',
  ],
  [
    'shed',
    options => shed(options),
    { prioritys: () => 1 },
    'shed: unknown option "prioritys": did you mean priority?',
  ],
  [
    'limitMessages',
    options => limitMessages(new EventEmitter(), options),
    { polcy: '1/1m' },
    'limitMessages: unknown option "polcy": did you mean policy?',
  ],
  [
    'processLoad',
    options => processLoad(options),
    { heep: 1 },
    'processLoad: unknown option "heep": did you mean heap?',
  ],
  [
    'loadPolicy',
    options => loadPolicy('1/1m', options),
    { laod: 1 },
    'loadPolicy: unknown option "laod": did you mean load?',
  ],
  ['followLoad', options => followLoad(rate, options), { maximum: 1 }, 'followLoad: unknown option "maximum"'],
  [
    'adaptivePermits',
    options => adaptivePermits(options),
    { algoritm: 'vegas' },
    'adaptivePermits: unknown option "algoritm": did you mean algorithm?',
  ],
  [
    'dashboard',
    options => dashboard(options),
    { client, basepath: '/' },
    'dashboard: unknown option "basepath": did you mean basePath?',
  ],
  [
    'reporter',
    options => reporter(options),
    { client, topkeys: 5 },
    'reporter: unknown option "topkeys": did you mean topKeys?',
  ],
  ['alerts', options => alerts(options), { rule: [] }, 'alerts: unknown option "rule": did you mean rules?'],
  [
    'prometheusObserver',
    options => prometheusObserver(options),
    { prefx: 'a' },
    'prometheusObserver: unknown option "prefx": did you mean prefix?',
  ],
  [
    'openTelemetryObserver',
    options => openTelemetryObserver(options),
    { metr: 1 },
    'openTelemetryObserver: unknown option "metr": did you mean meter?',
  ],
  [
    'politeFetch',
    options => politeFetch(options),
    { retrys: 1 },
    'politeFetch: unknown option "retrys": did you mean retries?',
  ],
]

describe('a misspelt option is refused with the name that was meant', () => {
  test.each(calls)('%s', async (_what, call, misspelt, message) => {
    // What throws and what rejects are the same here.
    const attempt = async () => call(misspelt as never)
    await expect(attempt()).rejects.toThrow(PolicyError)
    await expect(attempt()).rejects.toThrow(message)
  })

  test.each(calls.filter(([what]) => !what.includes('’')))(
    '%s: what are no options is refused, too',
    async (_what, call) => {
      for (const given of [5, 'a', null, []]) {
        await expect((async () => call(given as never))()).rejects.toThrow(PolicyError)
      }
    },
  )
})

import { EventEmitter } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import fastify from 'fastify'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { Registry } from 'prom-client'
import { createClient } from 'redis'
import * as express from '../src/http/adapters/express.js'
import * as fastifyAdapter from '../src/http/adapters/fastify.js'
import * as fetch from '../src/http/adapters/fetch.js'
import * as h3 from '../src/http/adapters/h3.js'
import * as hono from '../src/http/adapters/hono.js'
import * as koa from '../src/http/adapters/koa.js'
import { limitTools } from '../src/http/adapters/mcp.js'
import { RateLimitModule } from '../src/http/adapters/nest.js'
import * as node from '../src/http/adapters/node.js'
import { limitMessages } from '../src/http/adapters/ws.js'
import { DelayQueue, MemoryStore, RateLimiter, RedisStore, Semaphore, SharedRateLimiter } from '../src/index.js'
import { PolicyError } from '../src/limiter/core/errors.js'
import { adaptivePermits, customLoad, loadPolicy, processLoad } from '../src/operating/adaptive/index.js'
import { dashboard, reporter } from '../src/operating/dashboard/index.js'
import { LivePolicies } from '../src/operating/live/index.js'
import { alerts } from '../src/operating/observing/alerts/index.js'
import { openTelemetryObserver } from '../src/operating/observing/opentelemetry.js'
import { prometheusObserver } from '../src/operating/observing/prometheus.js'
import { politeFetch } from '../src/outgoing/index.js'
import { PostgresStore } from '../src/sql/postgres-store.js'

// Every function and class that takes options, with options that are wrong: option-errors.txt has what each says,
// in this order. To change a message, write the file anew and read its difference line by line: users see these lines.
//
//   SPILLWAY_REWRITE=1 npx jest --selectProjects test --testPathPatterns test/option-errors
const FILE = join(import.meta.dirname, 'option-errors.txt')

// They connect to nothing: wrong options are refused before anything is sent.
const client = new Redis({ lazyConnect: true })
const nodeRedis = createClient()
const pool = new Pool()
afterAll(async () => {
  client.disconnect()
  await pool.end()
})

const { addressKey, concurrencyLimit, rateLimit, shed } = express
const queue = new DelayQueue<unknown>(client, 'q')
const rate = new SharedRateLimiter(client, 'r')
const semaphore = new Semaphore(client, 's', { permits: 1 })
const limiter = new RateLimiter({ policy: '1/1m' })
const load = customLoad(() => 0)
afterAll(() => load.close())
const nothing = () => {}
const policy = '1/1m'

/** An option with values that mean nothing. */
const each = (name: string, ...values: readonly unknown[]) => values.map(value => ({ [name]: value }))
const DURATIONS = [0, 'x']

/** Options with a wrong one; what are no options at all stays as it is. */
const plus = (right: object, given: unknown) => (isObject(given) ? { ...right, ...given } : given) as never
const isObject = (given: unknown): given is object =>
  typeof given === 'object' && given !== null && !Array.isArray(given)

/** [what takes them, how it is called, the wrong options] */
type Row = readonly [what: string, call: (given: never) => unknown, wrong: readonly unknown[]]

const LIMITER: readonly Row[] = [
  [
    'RateLimiter',
    given => new RateLimiter(plus({ policy }, given)),
    [
      { polcy: policy },
      ...each('policy', undefined, 'often', 5, null, [], '0/1x'),
      { keyPrefix: 'a' },
      ...each('store', {}, client, nodeRedis, new Map(), { consume: nothing, peek: nothing }, null),
      ...each('deadline', 0, '50', Number.POSITIVE_INFINITY),
      ...each('onStoreFailure', 'allow', null),
      ...each('localShare', 0, 1.01, Number.NaN, '0.5'),
      ...each('denyCache', -1, 0.5, 'yes'),
      { shadow: 'false' },
      ...each('name', '', 5),
      ...each('observer', 5, { decided: true }),
      // Of other packages.
      { max: 5 },
      { windowMs: 5 },
      { storeClient: client },
      { insuranceLimiter: {} },
      { ephemeralCache: false },
      { redis: client },
      { key: 'x' },
    ],
  ],
  [
    'RateLimiter with a policy that is a function',
    given => new RateLimiter(plus({ policy: () => policy }, given)),
    [...each('deadline', 0), ...each('localShare', 2), ...each('onStoreFailure', 'maybe'), ...each('store', {})],
  ],
  ['RateLimiter.acquire', given => limiter.acquire('k', given), [{ timeuot: 5 }, { timeout: 'soon' }, { signal: {} }]],
  ['RateLimiter.block, its argument', given => limiter.block('k', given), DURATIONS],
  [
    'MemoryStore',
    given => new MemoryStore(given),
    [{ maxkeys: 5 }, ...each('clock', {}, null), ...each('maxKeys', 0, 1.5, Number.POSITIVE_INFINITY, '100')],
  ],
  [
    'LivePolicies',
    given => new LivePolicies(client, plus({ defaults: { api: '1/1s' } }, given)),
    [
      { defalts: { api: policy } },
      ...each('defaults', undefined, {}, { 'a b': '1/1s' }, { api: '1' }),
      { prefx: 'a' },
      { prefix: '' },
      { observer: 1 },
    ],
  ],
]

const STORES: readonly Row[] = [
  [
    'RedisStore',
    given => new RedisStore(client, given),
    [
      { prefx: 'a' },
      { keyPrefix: 'a' },
      ...each('prefix', '', 1),
      { clock: {} },
      ...each('maxBatch', 0, 1.5),
      ...each('tags', 0, 1025, 1.5, '64'),
      ...each('shareResets', true, false),
      ...each('leases', 'yes', 1, null, [], ...each('ttl', 0, 'soon', '1h', 1001), { tll: 50 }),
    ],
  ],
  [
    'RedisStore, its client',
    given => new RedisStore(given),
    [
      ...[undefined, null, 'redis://127.0.0.1:6379', { host: '127.0.0.1', port: 6379 }, Redis, Promise.resolve()],
      { status: 'ready', evalsha: nothing },
      { status: 'ready', evalsha: 'x', eval: 'x', connect: 'x', on: 'x' },
    ],
  ],
  [
    'PostgresStore',
    given => new PostgresStore(pool, given),
    [{ prepare: 'yes' }, { remember: Number.NaN }, { table: 'a.b.c' }, { leases: true }],
  ],
  ['PostgresStore.schema', given => PostgresStore.schema(given), [{ tabel: 'limits' }]],
]

const HTTP: readonly Row[] = [
  ['rateLimit of spillway/fetch', given => fetch.rateLimit(given), [{ polcy: policy }]],
  ['addressKey of spillway/fetch', given => fetch.addressKey(given), [{ Proxies: 1 }]],
  ...Object.entries({ h3, hono, koa, node }).flatMap(([name, adapter]): Row[] => [
    [`rateLimit of spillway/${name}`, given => adapter.rateLimit(given), [{ polcy: policy }]],
    [`concurrencyLimit of spillway/${name}`, given => adapter.concurrencyLimit(given), [{ permits: 1, waits: 1 }]],
    [`addressKey of spillway/${name}`, given => adapter.addressKey(given), [{ Proxies: 1 }]],
    [`shed of spillway/${name}`, given => adapter.shed(given), [{ load, priority: () => 0, level: 4 }]],
  ]),
  [
    'rateLimit',
    given => rateLimit(given),
    [
      ...['100/1m', null, ['100/1m']],
      { polcy: policy },
      ...each('cost', Number.NaN, '1'),
      { policy, limit: 5 },
      { policy, max: 5 },
      { policy, windowMs: 5 },
      { policy, algorithm: 'fixed-window' },
      { limit: 5, max: 5 },
      { key: nothing, keyGenerator: nothing },
      ...each('windowMs', 0, '60'),
      ...['key', 'skip', 'handler'].flatMap(name => each(name, 'ip')),
      { policy: { quota: 5, window: '1m', key: 'ip' } },
      ...each('ipv6Subnet', 0, 129, true),
      ...each('statusCode', 42, '429'),
      ...each('headers', 'draft-8', false, ['draft-9'], ['draft-8', 'draft-7']),
      { message: 1n },
      ...each('store', client, null),
      { policy: () => policy, store: null },
      ...['limit', 'max', 'windowMs', 'algorithm', 'name'].flatMap(name => each(name, null)),
      { policy: { quota: 5, window: '1m', name: null } },
      ...each('proxies', -1, 1.5, Number.POSITIVE_INFINITY, true, '10.0.0.0/8', null),
      ...each('proxies', ['loopback'], ['10.0.0.1:80']),
      ...each('addressHeader', '', 'x forwarded', 7).map(given => ({ proxies: 1, ...given })),
      { addressHeader: 'cf-connecting-ip' },
      ...each('deny', '10.0.0.0/8', ['10.0.0.0/33'], [null]),
      ...each('allow', 'all', ['all']),
      // Of other packages, or misspelt.
      ...['passOnStoreError', 'onLimitReached', 'skipSuccessfulRequests', 'skipFailedRequests'].flatMap(name =>
        each(name, true),
      ),
      ...['requestPropertyName', 'standardHeaders', 'validate', 'delayAfter', 'delayMs', 'maxDelayMs'].flatMap(name =>
        each(name, 1),
      ),
      ...['points', 'duration', 'blockDuration', 'timeWindow', 'redis', 'allowList', 'nameSpace', 'identifier'].flatMap(
        name => each(name, 1),
      ),
      ...['trustProxy', 'rate', 'quota', 'client', 'onLimited', 'permits', 'window', 'keyPrefix', 'prefix'].flatMap(
        name => each(name, 1),
      ),
      // A name is suggested if it differs in a third of its letters at most, or is abbreviated.
      ...['addressHeaders', 'statuscode', 'plociy', 'POLICY', 'stor', 'onStoreFail', 'addr'].flatMap(name =>
        each(name, 1),
      ),
      ...['mystery', 'rat', 'stallion', 'passthrough', 'storeless', 'lim', 'a'].flatMap(name => each(name, 1)),
    ],
  ],
  [
    'rateLimit, slowDown',
    (given: object) => rateLimit({ policy, slowDown: { after: 1, by: 1, max: 1, ...given } }),
    [{ aftr: 1 }, { after: -1 }, { by: 0 }, { max: 'x' }, { delayMs: 1 }],
  ],
  [
    'rateLimit, block',
    given => rateLimit({ policy, block: given }),
    [
      ...[null, '1h', { for: '1h' }],
      ...each('after', 0, 1.5).map(given => ({ for: '1h', ...given })),
      { after: 3 },
      { after: 3, for: 0 },
      ...[{ windowMs: 5 }, { windows: '1m' }, { window: 'x' }, { max: '1m' }, { forget: 'x' }, { factors: 2 }].map(
        given => ({ after: 3, for: '1h', ...given }),
      ),
      ...each('factor', 0.5, Number.POSITIVE_INFINITY).map(given => ({ after: 3, for: '1h', ...given })),
      { after: Number.MAX_SAFE_INTEGER, for: '1h' },
      { after: 3, for: Number.MAX_SAFE_INTEGER },
      ...['window', 'max', 'forget'].map(name => ({ after: 3, for: '1h', [name]: '3650001d' })),
    ],
  ],
  [
    'rateLimit, defer',
    (given: object) => rateLimit({ policy, defer: { queue, message: async () => 1, ...given } as never }),
    [{ timeuot: 1 }, { maxPerKey: 100 }],
  ],
  [
    'rateLimit of spillway/koa, options of others',
    given => koa.rateLimit(given),
    ['id', 'db', 'whitelist', 'disableHeader'].flatMap(name => each(name, 1)),
  ],
  [
    'rateLimit of spillway/fastify, registered',
    async given => void (await fastify().register(fastifyAdapter.rateLimit, given)),
    [{ polcy: policy }, { policy: '1' }, { global: 1 }, { hook: 'onSend' }],
  ],
  [
    'RateLimitModule.forRoot',
    given => RateLimitModule.forRoot(given),
    [{ polcy: policy }, { ttl: 5 }, { throttlers: [] }],
  ],
  [
    'limitTools',
    given => limitTools(new Server({ name: 'service', version: '1.0.0' }), given),
    [
      undefined,
      {},
      { polcy: policy },
      { tools: 'search' },
      { tools: { search: '10/min' } },
      { policy, cost: -1 },
    ].concat([
      { policy, key: 'ann' },
      { policy, settle: 5 },
      { limiter: {} },
      { tools: { search: policy }, limiter },
      { policy, cost: 2 },
      { policy: '5/1m', tools: { search: policy }, cost: 2 },
      { limiter, cost: 2 },
      { policy, store: null },
    ] as never),
  ],
  ['limitTools of no server', given => limitTools({}, given), [{ policy }]],
  [
    'limitMessages',
    given => limitMessages(new EventEmitter(), given),
    [{ polcy: policy }, { policy, onLimit: 'ignore' }, { policy, onLimit: 'close' }, { policy, limiter }].concat([
      ...each('cost', Number.NaN, '1', 2).map(given => ({ policy, ...given })),
      { limiter, cost: 2 },
      ...each('key', Number.NaN, {}, null).map(given => ({ policy, ...given })),
      { policy, store: null },
    ] as never),
  ],
  [
    'addressKey',
    given => addressKey(given),
    ['1', { Proxies: 1 }, { proxies: -1 }, { addressHeader: 'x' }, { ipv6Subnet: 129 }],
  ],
  [
    'concurrencyLimit',
    given => concurrencyLimit(given),
    [
      ...[undefined, {}],
      ...each('permits', '5', { limit: 5, inUse: 0 }, 1.5),
      ...[
        { waits: 1 },
        { wait: 'long' },
        { queue: -1 },
        { key: 'all' },
        { client: {} },
        ...each('store', {}, client, nodeRedis),
        { name: 'ü' },
        { statusCode: 42 },
        { handler: 'busy' },
        { abandonAfter: 0 },
        { proxies: -1 },
        { addressHeader: 'x' },
        { ipv6Subnet: 0 },
        { deny: ['all'] },
        ...['keyPrefix', 'max', 'limit', 'redis', 'keyGenerator'].flatMap(name => each(name, 1)),
      ].map(given => ({ permits: 1, ...given })),
    ],
  ],
  [
    'shed',
    given => shed(plus({ load, priority: () => 0 }, given)),
    [...each('load', undefined), ...each('priority', undefined), { levels: 1 }, { level: 4 }, { windowMs: 5 }],
  ],
]

const WAITING: readonly Row[] = [
  ['Semaphore, its client', given => new Semaphore(given, 's'), [{}]],
  ['Semaphore, its name', given => new Semaphore(client, given), ['']],
  [
    'Semaphore',
    given => new Semaphore(client, 's', given),
    [{ permit: 5 }, { permits: -1 }, { idleTtl: 0 }, { clock: {} }, ...each('observer', 5, { waited: 5 })],
  ],
  [
    'Semaphore.acquire',
    given => semaphore.acquire(given),
    [{ leese: 5 }, { lease: 0 }, { timeout: 'soon' }, { signal: {} }, ...each('permits', 0, -1, 1.5, Number.NaN, '1')],
  ],
  ['Semaphore.tryAcquire', given => semaphore.tryAcquire(given), [{ timeOut: 5 }]],
  ['Semaphore.use', given => semaphore.use(async () => {}, given), [{ renews: true }]],
  ['Semaphore.resume', given => semaphore.resume('id', given), [{ timeout: 5 }]],
  ['Semaphore.resume, its id', given => semaphore.resume(given), ['']],
  ['Semaphore.setPermits, its argument', given => semaphore.setPermits(given), [1.5]],
  ['Semaphore.trySetPermits, its argument', given => semaphore.trySetPermits(given), [Number.NaN]],
  ['Semaphore.addPermits, its argument', given => semaphore.addPermits(given), [0.5]],
  ['SharedRateLimiter, its client', given => new SharedRateLimiter(given, 'r'), [{}]],
  ['SharedRateLimiter, its name', given => new SharedRateLimiter(client, given), ['', 7]],
  [
    'SharedRateLimiter',
    given => new SharedRateLimiter(client, 'r', given),
    [{ clientID: 'a' }, { prefix: '' }, { clock: {} }, { clientId: '' }, ...each('observer', 5, { waited: 5 })],
  ],
  ['SharedRateLimiter.acquire', given => rate.acquire(1, given), [{ cost: 5 }, { timeout: 'soon' }, { signal: {} }]],
  ['SharedRateLimiter.tryAcquire', given => rate.tryAcquire(1, given), [{ timout: 5 }, { timeout: Number.NaN }]],
  [
    'SharedRateLimiter.setRate',
    given => rate.setRate(given),
    [
      ...[undefined, { rate: 1, interval: '1s', keepalive: '1m' }],
      ...each('rate', 0, 1.5).map(given => ({ interval: 1000, ...given })),
      ...each('interval', 0, '1 second', '4000d').map(given => ({ rate: 1, ...given })),
      { rate: 1, interval: 1000, mode: 'PER_CLIENT' },
      { rate: 1, interval: 1000, keepAlive: 999 },
    ],
  ],
  ['SharedRateLimiter.trySetRate', given => rate.trySetRate(given), [{ rate: 1, interval: '1s', keepalive: '1m' }]],
  ['SharedRateLimiter.updateRate', given => rate.updateRate(given), [{ rate: 1, interval: '1s', keepalive: '1m' }]],
  [
    'SharedRateLimiter.setRate, its options',
    given => rate.setRate({ rate: 1, interval: '1s' }, given),
    [{ keepstate: 1 }, ...each('keepState', 1, 'yes', null)],
  ],
  [
    'SharedRateLimiter.updateRate, its options',
    given => rate.updateRate({ rate: 1, interval: '1s' }, given),
    [{ keep: 1 }, ...each('keepState', 1, 'yes', null)],
  ],
  ['SharedRateLimiter.expire, its argument', given => rate.expire(given), [0, -1, '4000d', undefined]],
  ['DelayQueue, its client', given => new DelayQueue(given, 'q'), [{}]],
  ['DelayQueue, its name', given => new DelayQueue(client, given), ['']],
  [
    'DelayQueue',
    given => new DelayQueue(client, 'q', given),
    [
      { maxAttempt: 5 },
      ...each('visibility', 0, '1 day'),
      ...each('maxAttempts', 0, 1.5),
      ...each('maxSize', -1, 1.5),
      ...each('backoff', { type: 'linear', delay: 1 }, { type: 'fixed' }),
      ...each('backoff', { type: 'fixed', delay: 1, jitter: 2 }, { type: 'fixed', delay: 5, jiter: 1 }),
      { codec: {} },
      { clock: 5 },
      ...each('observer', 5, { waited: 5 }),
    ],
  ],
  [
    'DelayQueue.push',
    given => queue.push(1, given),
    [
      { dealy: 5 },
      ...each('delay', -1, '1y', Number.MAX_SAFE_INTEGER),
      ...each('at', Number.NaN, new Date('nonsense')),
      { at: 1_700_000_000_000, delay: 5 },
      { id: '' },
      ...each('priority', 10, -1),
      { headers: { a: 1 } },
      { ttl: 0 },
      { maxAttempts: 0 },
    ],
  ],
  ['DelayQueue.push, its payload', given => queue.push(given), [nothing]],
  ['DelayQueue.pushMany', given => queue.pushMany([{ payload: 1, options: given }]), [{ prio: 5 }]],
  ['DelayQueue.pushMany, its items', given => queue.pushMany(given), ['ab', null, undefined, [{ payload: 1 }, null]]],
  ['DelayQueue.receive', given => queue.receive(given), [{ timeout: 5 }, { count: 0 }]],
  ['DelayQueue.reschedule, its argument', given => queue.reschedule('a', given), [-5]],
  ['DelayQueue.consume, its handler', given => queue.consume(given), [5]],
  [
    'DelayQueue.consume',
    given => queue.consume(async () => {}, given),
    [{ concurency: 5 }, { concurrency: 0 }, { limiter: {} }],
  ],
  ['DelayQueue.dead', given => queue.dead(given), [{ limits: 5 }]],
  ['DelayQueue.redrive', given => queue.redrive(given), [{ id: 'a' }, ...each('ids', 'abc', null, [1, 2])]],
  ['DelayQueue.discard', given => queue.discard(given), [{ id: 'a' }, ...each('ids', 'yz', null, [['a']])]],
]

const A = 'https://a.example'
const budget = { rate: 1, interval: '1s' }
const nine = Array.from({ length: 9 }, (_, i) => ({ ...budget, name: `b${i}` }))
const OUTGOING: readonly Row[] = [
  [
    'politeFetch',
    given => politeFetch(given),
    [
      { retrys: 1 },
      { limit: {} },
      ...each('limits', [], new Map([[A, budget]]), new Set()),
      ...each('retryMethods', 'GET', ['G T']),
      { retries: -1 },
      { maxWait: 'x' },
      { partner: 'a' },
      { fetch: 1 },
      { observer: 1 },
      { client: {} },
    ],
  ],
  [
    'politeFetch, a partner',
    given => politeFetch({ limits: { [given]: budget } }),
    [
      ...['https://api.example.com/v1', 'https://API.example.com:8443/?a=1', 'https://api.example.com/#top'],
      ...['https://me:secret@api.example.com', 'api.example.com', 'api.example.com/v1', 'localhost:3000'],
      ...['//api.example.com', 'ftp://api.example.com', 'null', 'two words', ''],
    ],
  ],
  [
    'politeFetch, the limits of a partner',
    given => politeFetch({ limits: { [A]: given } }),
    [
      {},
      { rat: 1, interval: '1s' },
      { rate: 0, interval: '1s' },
      { rate: 1, interval: '1' },
      { rate: 1 },
      { interval: '1s' },
      { ...budget, concurrency: 1.5 },
      ...each('longestPause', '11y', '4000d'),
      { budget: [budget] },
      ...each('budgets', nine, budget, [5], [undefined], [budget, budget]),
      { budgets: nine.slice(1), ...budget },
      { budgets: [{ ...budget, name: '5-per-1s' }], rate: 5, interval: '1s' },
    ],
  ],
  [
    'politeFetch, a budget',
    (given: object) => politeFetch({ limits: { [A]: { budgets: [{ ...budget, ...given }] } } }),
    [
      ...each('rate', 0, Number.NaN, 1.5, '1', undefined),
      ...each('interval', undefined, '1', -5, 0, '4000d'),
      { window: '1s' },
      { costs: 1 },
      { cost: 5 },
      { settle: 'x-tokens' },
      { name: '' },
    ],
  ],
]

const OPERATING: readonly Row[] = [
  [
    'processLoad',
    given => processLoad(given),
    [
      ...[{ heep: 1 }, { cpus: 1 }, { cpu: 2 }, { heap: 0 }, { utilization: 'a' }, { eventLoopDelayP99: 0 }],
      { every: '2s' },
    ],
  ],
  ['customLoad, its argument', given => customLoad(given), ['x']],
  ['customLoad, its options', given => customLoad(() => 1, given), [{ every: 50 }]],
  [
    'loadPolicy',
    given => loadPolicy(policy, plus({ load }, given)),
    [{ laod: 1 }, { minimum: 1 }, { load: undefined }, { min: 0 }, { onChange: 1 }],
  ],
  ['loadPolicy, its policy', given => loadPolicy(given, { load }), ['x']],
  [
    'adaptivePermits',
    given => adaptivePermits(given),
    [{ algorithm: 'vegas' }, { maximum: 1 }, { min: 0 }, { max: 4 }, ...each('initial', 3, 2000)],
  ],
  [
    'dashboard',
    given => dashboard(plus({ client, authorize: () => 'read' }, given)),
    [
      { basepath: '/' },
      ...each('authorize', undefined, 'write'),
      ...[{ keys: 'shown' }, { live: {} }, { basePath: 'limits' }, { hosts: 'a' }, { prefix: '' }, { readonly: true }],
      { client: {} },
    ],
  ],
  [
    'reporter',
    given => reporter(plus({ client }, given)),
    [
      { topkeys: 5 },
      ...each('every', 0, '11s'),
      ...[{ topKeys: -1 }, { keyNames: 'x' }, { alerts: {} }, { service: 5 }, { client: 5 }],
    ],
  ],
  [
    'alerts',
    given => alerts(plus({ rules: [], notify: nothing }, given)),
    [{ rule: [] }, { rules: 5 }, { notify: 5 }, { clock: 5 }, { webhook: 5 }, { rules: [null] }],
  ],
  [
    'alerts, a rule',
    (given: object) =>
      alerts({ rules: [{ name: 'r', when: 'denied-share', above: 0.1, ...given } as never], notify: nothing }),
    [
      ...[
        { name: '' },
        { when: 'denied' },
        { above: 10 },
        { over: '10ms' },
        { for: 'soon' },
        { atLeast: 1.5 },
        { after: 5 },
      ],
      ...each('above', -1, Number.NaN).map(given => ({ when: 'dead-letters', ...given })),
      { when: 'breaker-open', above: 0, limiter: 'api' },
    ],
  ],
  [
    'prometheusObserver',
    given => prometheusObserver(plus({ registry: new Registry() }, given)),
    [
      { prefx: 'a' },
      { label: {} },
      { registry: {} },
      ...each('prefix', '9', ''),
      ...each('labels', { limiter: 'x' }, { 'a-b': 'x' }, { region: 5 }, 5),
    ],
  ],
  [
    'openTelemetryObserver',
    given => openTelemetryObserver(given),
    [{ metr: 1 }, { attribute: {} }, { meter: {} }, ...each('attributes', { source: 'x' }, { a: 1 })],
  ],
]

const ROWS = [...LIMITER, ...STORES, ...HTTP, ...WAITING, ...OUTGOING, ...OPERATING]

/** What is thrown or rejected, which are the same here: its message, and its class if that is not PolicyError. */
async function errorOf(call: Row[1], given: unknown): Promise<string> {
  try {
    await call(given as never)
  } catch (error) {
    const { name, message } = error as Error
    return error instanceof PolicyError ? message : `${name}: ${message}`
  }
  return 'NO ERROR'
}

describe('what are no options is refused with PolicyError', () => {
  const takers = ROWS.filter(([what]) => !what.includes(','))
  test.each(takers.map(row => [row[0], row[1]] as const))('%s', async (_what, call) => {
    for (const given of [5, 'a', null, []])
      await expect((async () => call(given as never))()).rejects.toThrow(PolicyError)
  })
})

test('each wrong option is refused with the message of option-errors.txt', async () => {
  const lines: string[] = []
  for (const [what, call, wrong] of ROWS) {
    lines.push(`# ${what}`)
    for (const given of wrong) lines.push(await errorOf(call, given))
  }
  if (process.env.SPILLWAY_REWRITE === '1') writeFileSync(FILE, `${lines.join('\n')}\n`)
  expect(lines.filter(line => line.startsWith('NO ERROR'))).toEqual([])
  expect(lines).toEqual(readFileSync(FILE, 'utf8').trimEnd().split('\n'))
})

import { createHash } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { MemoryStore as HitMemoryStore } from 'express-rate-limit'
import {
  DelayQueue,
  MemoryStore,
  RateLimiter,
  type RateLimiterOptions,
  RedisStore,
  Semaphore,
  SharedRateLimiter,
} from '../../../src/index.js'
import type { Observer } from '../../../src/limiter/core/observer.js'
import type { Store } from '../../../src/limiter/store.js'
import { type DashboardOptions, reporter } from '../../../src/operating/dashboard/index.js'
import { FleetReports } from '../../../src/operating/dashboard/server/fleet-reports.js'
import type { ChangeRequest } from '../../../src/operating/dashboard/view.js'
import { LivePolicies } from '../../../src/operating/live/index.js'
import { LiveRecords } from '../../../src/operating/live/live-records.js'
import { politeFetch } from '../../../src/outgoing/index.js'
import { PostgresStore } from '../../../src/sql/postgres-store.js'
import { eventually } from '../../support/eventually.js'
import { RedisServer } from '../../support/redis-server.js'
import { testPostgres } from '../../support/test-postgres.js'
import { OpenDashboard } from './open-dashboard.js'

let redis: RedisServer
let client: ReturnType<RedisServer['client']>
beforeAll(async () => {
  redis = await RedisServer.start()
})
// One for each test: objects note themselves in Redis ten seconds after they were made, as long as their client is
// connected.
beforeEach(() => {
  client = redis.client()
})
afterAll(() => redis.stop())

const closing: Array<() => Promise<unknown>> = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  await client.flushall()
  client.disconnect()
})

function open<T extends { close(): Promise<unknown> }>(object: T): T {
  closing.push(() => object.close())
  return object
}

const report = (options: Partial<Parameters<typeof reporter>[0]> = {}) =>
  open(reporter({ client, every: '20ms', service: 'shop', version: '1.2.0', ...options }))
const start = async (options: Partial<DashboardOptions> = {}) =>
  open(await OpenDashboard.start({ client, authorize: () => ({ access: 'write', user: 'ann' }), ...options }))
const limiterOf = (name: string, policy: string, observer?: Observer) =>
  new RateLimiter({ policy, name, store: new RedisStore(client), deadline: '5s', ...(observer && { observer }) })

describe('limits', () => {
  test('the reports of two processes are added up: allowed, refused, sources of decisions, most refused keys', async () => {
    const [one, two] = [report(), report({ service: 'admin' })]
    const page = await start({ keys: 'plain' })
    for (const observer of [one, two]) {
      const login = limiterOf('login', '5/1h', observer)
      for (let i = 0; i < 20; i++) await login.consume('203.0.113.9')
      for (let i = 0; i < 10; i++) await login.consume(`198.51.100.${i}`)
    }
    const view = await page.shows(
      'limits',
      ({ rows, alerts, status }) =>
        alerts[0]?.title.includes('up to') && status.processes === 2 && (rows[0]?.open?.mostRefused[0]?.share ?? 0) > 0,
    )
    const [row] = view.rows
    expect(row).toMatchObject({
      limiter: 'login',
      limit: '5-per-1h',
      per: 'per address',
      facts: { quota: 5, windowMs: 3_600_000 },
    })
    // 40 of one key, of which 5 are allowed; 10 others twice.
    await eventually('all are told', async () => (await counted())['login 5-per-1h']?.[1] === 35)
    expect(await counted()).toEqual({ 'login 5-per-1h': [25, 35] })
    expect(row.open?.mostRefused.map(({ key }) => key.text)).toEqual(['203.0.113.9'])
    expect(row.open?.mostRefused[0].share).toBe(1)
    const { redis = 0, remembered = 0 } = row.open?.sources ?? {}
    expect(redis + remembered).toBeCloseTo(1)
    expect(view.status).toMatchObject({ services: 2, processes: 2, silent: 0 })
    expect(view.alerts).toMatchObject([
      {
        title: expect.stringMatching(/^login refuses up to \d\d.% of its requests$/),
        limit: row.id,
        key: { text: '203.0.113.9' },
      },
    ])
  })

  test('an idle process says so once, and then sends nothing', async () => {
    const observer = report()
    const limiter = limiterOf('idle', '5/1h', observer)
    await limiter.consume('x')
    const asked = async () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? 0)
    const page = await start()
    await page.shows('processes', ({ processes }) => processes.length === 1)
    // The last report of all is at most two intervals behind the last decision; from then on the number stands still.
    let [last, same] = [-1, 0]
    await eventually('the number stands still', async () => {
      const count = await asked()
      same = count === last ? same + 1 : 0
      last = count
      return same >= 10
    })
    const { processes } = await page.shows('processes', ({ processes }) => processes[0].idle)
    expect(processes).toMatchObject([{ silent: false }])
  })

  test('a process in which something is held tells so every 10 s, and that nothing is when it is over', async () => {
    const own = redis.client()
    await own.ping()
    // The steps of reports go by the server's clock.
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'Date'] })
    const sent = jest.spyOn(own, 'evalsha')
    const observer = report({ client: own, every: '2s' })
    const level = (inUse: number) => observer.level?.({ object: 'concurrency', name: 'reports', inUse, waiting: 0 })
    const reportsIn = async (seconds: number) => {
      const before = sent.mock.calls.length
      for (let i = 0; i < seconds; i++) {
        await jest.advanceTimersByTimeAsync(1000)
        await own.ping()
      }
      return sent.mock.calls.length - before
    }
    level(4)
    await reportsIn(5)
    const held = await reportsIn(60)
    level(0)
    // What happens is told as soon as ever.
    expect(await reportsIn(3)).toBe(1)
    await reportsIn(12)
    const over = await reportsIn(60)
    jest.useRealTimers()
    expect([held, over]).toEqual([6, 0])
    const [process] = (await (await start()).view({ page: 'processes' })).processes
    expect(process).toMatchObject({ idle: true })
  })

  test('several limits of one policy are counted separately, and a limiter in memory is shown but cannot be changed', async () => {
    const observer = report()
    const page = await start()
    const search = new RateLimiter({ policy: '2/1h; 100/1d', name: 'search', store: new MemoryStore(), observer })
    for (let i = 0; i < 3; i++) await search.consume('user:1')
    // What the first limit refuses, the second has not let through: of it nothing is spent.
    const sums = { 'search 2-per-1h': [2, 1], 'search 100-per-1d': [2, 0] }
    await eventually('all are told', async () => (await counted())['search 2-per-1h']?.[1] === 1)
    expect(await counted()).toEqual(sums)
    const { rows } = await page.view({ page: 'limits', open: [] })
    expect(rows.map(({ limit }) => limit)).toEqual(['2-per-1h', '100-per-1d'])
    expect(rows[0]).toMatchObject({ changeable: false, per: 'per key' })
    expect(await page.act({ act: 'reset', limiter: 'search', key: 'user:1' })).toMatchObject({
      status: 400,
      error:
        'limiter "search": it does not count in this Redis but in the memory of its processes, so its keys cannot be ' +
        'changed from here',
    })
  })

  describe('of a limiter over another store are shown with it, and its keys cannot be changed', () => {
    const database = testPostgres()
    const isRefused = async (words: string, shown: string, limiterWith: (observer: Observer) => RateLimiter) => {
      const page = await start()
      await limiterWith(report()).consume('user:1')
      const { rows } = await page.shows('limits', ({ rows }) => Object.keys(rows[0]?.open?.sources ?? {}).length > 0)
      expect(rows[0].open?.sources).toEqual({ [shown]: 1 })
      for (const act of [{ act: 'block', for: '1h' }, { act: 'unblock' }, { act: 'reset' }] as const) {
        expect(await page.act({ ...act, limiter: 'other', key: 'user:1' })).toMatchObject({
          status: 400,
          error:
            `limiter "other": it does not count in this Redis but in ${words}, so its keys cannot be changed ` +
            'from here',
        })
      }
      expect((await page.view({ page: 'changes' })).changes).toEqual([])
    }
    const over = (store: RateLimiterOptions['store']) => (observer: Observer) =>
      new RateLimiter({ policy: '5/1h', name: 'other', store, observer, deadline: '5s' })

    test('PostgreSQL', async () => {
      const store = new PostgresStore(database.pool())
      await store.createTable()
      await isRefused('PostgreSQL', 'postgres', over(store))
    })

    // Not every Node that runs these tests has SQLite: what the store says is what counts.
    test('SQLite', () =>
      isRefused('SQLite', 'sqlite', ({ decided }) =>
        over(new MemoryStore())({
          decided: (decision, limiter) => decided?.({ ...decision, source: 'sqlite' }, limiter),
        }),
      ))

    test('one made for express-rate-limit', () => isRefused('a store of its own', 'own', over(new HitMemoryStore())))

    test('Redis, under another prefix', () =>
      isRefused(
        'Redis under another prefix',
        'elsewhere',
        over(new RedisStore(redis.client(), { prefix: 'elsewhere' })),
      ))
  })

  test('a limiter over Redis can be changed, even if its first decision was made without Redis', async () => {
    const observer = report()
    const page = await start()
    const server = await RedisServer.start()
    const own = server.client()
    await own.ping()
    await server.stop()
    const limiter = new RateLimiter({
      policy: '5/1h',
      name: 'api',
      store: new RedisStore(own),
      observer,
      localShare: 0.5,
    })
    expect(await limiter.consume('user:1')).toMatchObject({ source: 'fallback' })
    own.disconnect()
    await page.shows('limits', ({ rows }) => rows.length === 1)
    const api = limiterOf('api', '5/1h', observer)
    await api.consume('user:1')
    await eventually('it can be blocked', async () => {
      expect(await page.act({ act: 'block', limiter: 'api', key: 'user:1', for: '1h' })).toMatchObject({ status: 200 })
    })
    expect(await api.consume('user:1')).toMatchObject({ allowed: false, blocked: true })
  })

  test('a store that did not answer at first is not taken for Redis', async () => {
    const observer = report()
    const page = await start()
    let answers: () => Promise<never> | undefined = () => Promise.reject(new Error('away'))
    const store = new MemoryStore()
    const failing: Store = {
      consume: async (charges, cost) => answers() ?? store.consume(charges, cost),
      peek: (charges, cost) => store.peek(charges, cost),
      refund: (charges, units) => store.refund(charges, units),
      reset: charges => store.reset(charges),
    }
    const limiter = new RateLimiter({ policy: '5/1h', name: 'other', store: failing, observer })
    expect(await limiter.consume('user:1')).toMatchObject({ source: 'fallback' })
    const block = { act: 'block', limiter: 'other', key: 'user:1', for: '1h' } as const
    await page.shows('limits', ({ rows }) => rows.length === 1)
    expect(await page.act(block)).toMatchObject({ status: 400 })
    answers = () => undefined
    expect(await limiter.consume('user:1')).toMatchObject({ source: 'redis' })
    await page.shows('limits', ({ rows }) => rows[0]?.open?.sources.own !== undefined)
    expect(await page.act(block)).toMatchObject({ status: 400 })
  })

  test('decisions made while Redis was away are reported when it is back, in their own steps', async () => {
    const observer = report()
    const limiter = new RateLimiter({ policy: '100/1h', name: 'api', store: new MemoryStore(), observer })
    await limiter.consume('before')
    const page = await start()
    await page.shows('limits', ({ rows }) => rows.length === 1)
    await redis.restart()
    for (let i = 0; i < 7; i++) await limiter.consume('meanwhile')
    await eventually('it tells again', async () => ((await counted())['api 100-per-1h']?.[0] ?? 0) > 0)
    expect(await counted()).toEqual({ 'api 100-per-1h': [7, 0] })
  })

  test('alerts that the service judges by its own rules are those that are shown', async () => {
    const at = new Date(Date.now() - 60_000)
    const firing = [
      { rule: { name: 'too many', when: 'denied-share' }, state: 'firing', subject: 'login', value: 0.4, at },
    ]
    const observer = report({ alerts: { firing } })
    const page = await start()
    await limiterOf('login', '5/1h', observer).consume('x')
    const { alerts } = await page.shows('limits', ({ alerts }) => alerts.length > 0)
    expect(alerts).toMatchObject([
      {
        title: expect.stringMatching(/^login refuses 40.%/),
        text: 'In the last 1 min, by rule too many, told by 1 process.',
        since: at.getTime(),
      },
    ])
  })

  test('what a killed process told ends within 15 s', async () => {
    const page = await start()
    const since = Date.now()
    const record = (heardAt: number, more: object) =>
      `1 ${heardAt} ${JSON.stringify({ service: 's', version: '1', host: 'h', pid: 1, startedAt: 1, perSecond: 0, everyMs: 500, ...more })}`
    const alerts = [{ rule: 'r', when: 'denied-share', subject: 'api', value: 0.5, since }]
    const breaker = { since, reason: 'gone' }
    const records = 'spillway:{!dashboard}:records'
    const titles = async () => (await (await start()).view({ page: 'limits' })).alerts.map(({ title }) => title)
    const login = limiterOf('login', '5/1h', report())
    for (let i = 0; i < 60; i++) await login.consume('x')
    await page.shows('limits', ({ alerts }) => alerts.length === 1)
    await client.hset(records, 'other', record(Date.now(), { alerts, breaker }))
    await eventually('three alerts', async () => (await titles()).length === 3)
    expect((await titles()).sort()).toEqual([
      '1 process does not ask Redis',
      'api refuses 50\u202f% of its requests',
      expect.stringMatching(/^login refuses/),
    ])
    await client.hset(records, 'other', record(Date.now() - 15_500, { alerts, breaker }))
    expect(await titles()).toEqual([expect.stringMatching(/^login refuses/)])
    const { processes } = await (await start()).view({ page: 'processes' })
    expect(processes.map(({ id, silent }) => [id === 'other', silent]).sort()).toEqual([
      [false, false],
      [true, true],
    ])
  })

  test('a queue whose consumers cannot work has a band of its own, and no process is said not to ask Redis', async () => {
    const observer = report()
    const page = await start()
    const queue = open(new DelayQueue<string>(client, 'mails', { observer }))
    const limiter = open(new SharedRateLimiter(client, 'never set'))
    await queue.push('x')
    const consumer = queue.consume(async () => {}, { limiter })
    const { alerts } = await page.shows('limits', ({ alerts }) => alerts.length > 0)
    expect(alerts).toMatchObject([
      {
        title: 'mails is not worked on by 1 process',
        text: expect.stringMatching(/^Its consumers cannot work: .*no rate/),
        queue: 'mails',
        since: expect.any(Number),
      },
    ])
    const { processes } = await page.view({ page: 'processes' })
    expect(processes[0].breaker).toBeUndefined()
    await consumer.close()
  })

  test('an opened row tells of the breakers of those who use its limiter, and of no others', async () => {
    const [shop, mail] = [report(), report({ service: 'mail' })]
    await limiterOf('api', '5/1h', shop).consume('x')
    await limiterOf('mails', '5/1h', mail).consume('x')
    mail.breakerOpened?.(new Error('connect ECONNREFUSED'))
    const page = await start()
    await page.shows('limits', ({ rows, alerts }) => rows.length === 2 && alerts.length > 0)
    const ids = (await page.view({ page: 'limits' })).rows.map(({ id }) => id)
    await eventually('it stands at the limiter of that service', async () => {
      const { rows } = await page.view({ page: 'limits', open: ids })
      const broken = rows.filter(({ open }) => open?.breaker !== undefined).map(({ limiter }) => limiter)
      return broken.length > 0 && JSON.stringify(broken) === '["mails"]'
    })
    const { rows } = await page.view({ page: 'limits', open: ids })
    expect(rows.find(({ limiter }) => limiter === 'api')?.open?.breaker).toBeUndefined()
  })

  test('a key that is blocked says so where it is listed', async () => {
    const observer = report()
    const login = limiterOf('login', '2/1h', observer)
    for (let i = 0; i < 9; i++) await login.consume('203.0.113.9')
    const page = await start()
    await page.shows('limits', ({ rows }) => (rows[0]?.open?.mostRefused.length ?? 0) > 0)
    await page.act({ act: 'block', limiter: 'login', key: '203.0.113.9', for: '1h' })
    const { rows } = await page.view({ page: 'limits' })
    expect((rows[0].open?.mostRefused[0].key.blockedUntil ?? 0) - Date.now()).toBeGreaterThan(3_500_000)
    await page.act({ act: 'unblock', limiter: 'login', key: '203.0.113.9' })
    expect((await page.view({ page: 'limits' })).rows[0].open?.mostRefused[0].key.blockedUntil).toBeUndefined()
  })

  test('are found by a part of the name of their limiter or of their own', async () => {
    const observer = report()
    for (const name of ['checkout', 'login', 'search']) await limiterOf(name, '5/1h name=hourly', observer).consume('x')
    const page = await start()
    await page.shows('limits', ({ rows }) => rows.length === 3)
    const found = async (text: string) =>
      (await page.view({ page: 'limits', text })).rows.map(({ limiter }) => limiter).sort()
    expect(await found('LOG')).toEqual(['login'])
    expect(await found('hourly')).toEqual(['checkout', 'login', 'search'])
    expect(await page.view({ page: 'limits', text: 'nothing' })).toMatchObject({ rows: [], total: 0 })
  })

  test('a rule that holds for many limiters has one band, which names some; what is not shown is counted', async () => {
    const since = new Date(Date.now() - 60_000)
    const fires = (name: string, subject: string, value: number) => {
      return { rule: { name, when: 'denied-share' }, subject, value, at: since }
    }
    const many = Array.from({ length: 11 }, (_, i) => fires('many', `api-${i}`, 0.9 - i / 100))
    const rules = Array.from({ length: 12 }, (_, i) => fires(`rule ${i}`, 'api', 0.5))
    const observer = report({ alerts: { firing: [...many, ...rules] } })
    const page = await start()
    await limiterOf('api', '5/1h', observer).consume('x')
    const { alerts, moreAlerts } = await page.shows('limits', ({ alerts }) => alerts.length > 0)
    expect(alerts[0]).toMatchObject({
      title: 'api-0 refuses 90\u202f% of its requests',
      text: 'Also, less so: api-1, api-2, api-3, api-4, api-5 and 2 others.',
    })
    // Of 23 that fire the process tells 20, with each of its rules.
    expect([alerts.length, moreAlerts]).toEqual([8, 13 - 8 + 3])
  })

  test('the denials of a blocked key raise no alert, and it is not blamed for those of others', async () => {
    const observer = report()
    const page = await start({ keys: 'plain' })
    const login = limiterOf('login', '2/1h', observer)
    await login.block('203.0.113.9', '1h')
    for (let i = 0; i < 100; i++) await login.consume('203.0.113.9')
    await page.shows('limits', ({ rows }) => rows.length === 1 && rows[0].refused > 0)
    for (let i = 0; i < 15; i++) await login.consume(`user ${i % 2}`)
    // Judged once a second: an alert about another limiter shows that this one was judged.
    const api = limiterOf('api', '2/1h', observer)
    for (let i = 0; i < 40; i++) await api.consume('x')
    const first = await page.shows('limits', ({ alerts }) => alerts.length > 0)
    expect(first.alerts.map(({ subject }) => subject)).toEqual(['api'])
    for (let i = 0; i < 15; i++) await login.consume(`user ${i % 2}`)
    const { alerts } = await page.shows('limits', ({ alerts }) => alerts.length > 1)
    const ofLogin = alerts.find(({ subject }) => subject === 'login')
    expect(ofLogin?.title).toBe('login refuses 87\u202f% of its requests')
    expect(ofLogin?.key?.text).not.toBe('203.0.113.9')
  })

  test('a new dead letter raises an alert; those that were there before raise none', async () => {
    const old = open(new DelayQueue<string>(client, 'mails', { maxAttempts: 1 }))
    const fails = async (queue: DelayQueue<string>) => {
      const consumer = queue.consume(() => Promise.reject(new Error('no such host')))
      await queue.push('x')
      await eventually('it is dead', async () => (await queue.stats()).ready === 0)
      await consumer.close()
    }
    await fails(old)
    const observer = report()
    const page = await start()
    const queue = open(new DelayQueue<string>(client, 'mails', { maxAttempts: 1, observer }))
    const api = limiterOf('api', '2/1h', observer)
    for (let i = 0; i < 40; i++) await api.consume('x')
    await queue.stats()
    const first = await page.shows(
      'limits',
      ({ alerts, queues }) => alerts.length > 0 && queues[0]?.unread === undefined,
    )
    expect(first.alerts.map(({ subject }) => subject)).toEqual(['api'])
    await fails(queue)
    const { alerts } = await page.shows('limits', ({ alerts }) => alerts.length > 1)
    expect(alerts[1]).toMatchObject({ title: 'mails has 1 dead letter', queue: 'mails' })
  })

  test('an open breaker has its own band', async () => {
    const observer = report()
    const page = await start()
    observer.breakerOpened?.(new Error('connect ECONNREFUSED'))
    const { alerts } = await page.shows('limits', ({ alerts }) => alerts.length > 0)
    expect(alerts).toMatchObject([
      { title: '1 process does not ask Redis', text: 'It failed too often: connect ECONNREFUSED' },
    ])
    observer.breakerClosed?.()
    await page.shows('limits', ({ alerts }) => alerts.length === 0)
  })
})

describe('keys', () => {
  test('are masked unless a user types them, and masked keys can be changed', async () => {
    const observer = report()
    const page = await start()
    const login = limiterOf('login', '2/1h', observer)
    for (let i = 0; i < 9; i++) await login.consume('customer-4711@example.com')
    const { mostRefused } = await page.shows('keys', ({ mostRefused }) => mostRefused.length > 0)
    expect(JSON.stringify(mostRefused)).not.toContain('4711')
    const { ref, text } = mostRefused[0].key
    expect(text).toBe('cust••.com')
    expect((await page.view({ page: 'keys', ref })).found).toMatchObject({
      key: { text },
      limiters: [{ limiter: 'login', limits: [{ remaining: 0, most: 2 }] }],
    })
    expect((await page.view({ page: 'keys', key: 'customer-4711@example.com' })).found?.key.text).toBe(
      'customer-4711@example.com',
    )
    expect((await page.act({ act: 'reset', limiter: 'login', ref })).status).toBe(200)
    expect((await login.peek('customer-4711@example.com', 0)).remaining).toBe(2)
    const [change] = (await page.view({ page: 'changes' })).changes
    expect(change).toMatchObject({ what: 'Key reset', subject: 'login', user: 'ann', key: { text } })
  })

  test('that are masked keep what says their kind and their end, and who may write sees one whole', async () => {
    const observer = report()
    const page = await start()
    const api = limiterOf('api', '9/1h', observer)
    const keys = ['user:12', 'user:13', 'tenant:acme-corporation', 'ab', 'x:', '203.0.113.9']
    for (const key of keys) await api.consume(key)
    const { mostAsking } = await page.shows('keys', ({ mostAsking }) => mostAsking.length === keys.length)
    expect(mostAsking.map(({ key }) => key.text).sort()).toEqual(
      ['user:••2', 'user:••3', 'tenant:••tion', '••', '••', '20••9'].sort(),
    )
    const { ref } = mostAsking.find(({ key }) => key.text === 'user:••2')?.key ?? { ref: '' }
    expect(await page.act({ act: 'show-key', ref })).toMatchObject({ status: 200, text: 'The key is user:12' })
    const [change] = (await page.view({ page: 'changes' })).changes
    expect(change).toMatchObject({ what: 'Key shown', user: 'ann', key: { text: 'user:••2' } })
    const reader = await start({ authorize: () => 'read' })
    expect((await reader.act({ act: 'show-key', ref })).status).toBe(403)
  })

  test.each(['masked', 'hashed'] as const)(
    'who sees them %s cannot confirm a guess, and another dashboard knows the same references',
    async keys => {
      const page = await start({ keys, authorize: () => 'read' })
      const { mostAsking } = await eventually('its keys are told', async () => {
        await limiterOf('login', '2/1h', report()).consume('203.0.113.57')
        const view = await page.view({ page: 'keys' })
        expect(view.mostAsking.length).toBeGreaterThan(0)
        return view
      })
      const { ref, text } = mostAsking[0].key
      const guesses = ['sha256', 'sha512', 'md5'].flatMap(name =>
        (['utf16le', 'utf8'] as const).flatMap(encoding =>
          (['base64url', 'base64', 'hex'] as const).map(form =>
            createHash(name).update(Buffer.from('203.0.113.57', encoding)).digest(form),
          ),
        ),
      )
      for (const guess of guesses) expect([guess.slice(0, ref.length), `#${guess.slice(0, 10)}`]).not.toContain(ref)
      for (const guess of guesses) expect(`#${guess.slice(0, 10)}`).not.toBe(text)
      expect(text.replaceAll('•', '').length).toBeLessThanOrEqual(keys === 'masked' ? 4 : 11)
      const other = await start({ keys })
      expect((await other.view({ page: 'keys', ref })).found?.key.ref).toBe(ref)
      expect(JSON.stringify(await page.view({ page: 'keys' }))).not.toContain(
        String(await client.get('spillway:{!dashboard}:secret')),
      )
      expect(await client.pttl('spillway:{!dashboard}:secret')).toBeGreaterThan(80 * 86_400_000)
    },
  )

  test('block and unblock are shown with their author, and can be undone from the history', async () => {
    const observer = report()
    const page = await start()
    const [login, api] = [limiterOf('login', '5/1h', observer), limiterOf('api', '9/1h', observer)]
    await login.consume('203.0.113.9')
    await api.consume('somebody')
    await page.shows('limits', ({ rows }) => rows.length === 2)
    const done = await page.act({ act: 'block', limiter: 'login', key: '203.0.113.9', for: '1h' })
    expect(done).toMatchObject({
      status: 200,
      text: expect.stringMatching(/^login refuses 20••9 for 1 h\.$/),
      until: expect.any(Number),
    })
    expect((await login.consume('203.0.113.9')).blocked).toBe(true)
    const { found, blocks } = await page.view({ page: 'keys', key: '203.0.113.9' })
    expect(found?.limiters).toMatchObject([{ limiter: 'login', blockedBy: 'ann' }])
    expect((found?.limiters[0].blockedUntil ?? 0) - Date.now()).toBeGreaterThan(3_500_000)
    expect(blocks).toMatchObject([{ limiter: 'login', by: 'ann' }])
    expect((await page.act(done.undo as never)).status).toBe(200)
    // The limiter remembers for a second that the key was denied.
    await eventually('the block has ended', async () => (await login.consume('203.0.113.9')).allowed)
    const { changes } = await page.view({ page: 'changes' })
    expect(changes.map(({ what, user }) => [what, user])).toEqual([
      ['Block ended', 'ann'],
      ['Blocked for 1 h', 'ann'],
    ])
  })

  test('a block ends when the page says, whatever the limit; its undo restores the block that was there, or is refused', async () => {
    const page = await start()
    const login = limiterOf('login', '1/1h', report())
    await login.consume('k')
    await login.consume('k')
    await page.shows('limits', ({ rows }) => rows.length === 1)
    const ends = async () => {
      const { found } = await page.view({ page: 'keys', key: 'k' })
      const { blockedUntil, blockedBy } = found!.limiters[0]
      return [blockedUntil && Math.round((blockedUntil - Date.now()) / 60_000), blockedBy]
    }
    expect(await ends()).toEqual([undefined, undefined])
    const long = await page.act({ act: 'block', limiter: 'login', key: 'k', for: '7d' })
    const short = await page.act({ act: 'block', limiter: 'login', key: 'k', for: '10m' })
    expect(await ends()).toEqual([10, 'ann'])
    // Another block than the first stands there by now.
    expect(await page.act(long.undo as ChangeRequest)).toMatchObject({
      status: 400,
      error: expect.stringContaining('another block'),
    })
    expect((await page.act(short.undo as ChangeRequest)).status).toBe(200)
    expect(await ends()).toEqual([7 * 1440, 'ann'])
    const ended = await page.act({ act: 'unblock', limiter: 'login', key: 'k' })
    expect(await ends()).toEqual([undefined, undefined])
    expect((await page.act(ended.undo as ChangeRequest)).status).toBe(200)
    expect(await ends()).toEqual([7 * 1440, 'ann'])
    await page.act({ act: 'unblock', limiter: 'login', key: 'k' })
    await login.block('k', '2h')
    expect(await ends()).toEqual([120, undefined])
  })

  test('an address is found in any notation, an unknown key is not found, and hostile keys are shown as text', async () => {
    const observer = report()
    const page = await start({ keys: 'plain' })
    const login = limiterOf('login', '5/1h', observer)
    const hostile = '<img src=x onerror=alert(1)>{}%:\u202e\n"'
    for (const key of ['2001:db8:0:ff00::/56', hostile, 'ش'.repeat(4000)]) await login.consume(key)
    await page.shows('limits', ({ rows }) => rows.length === 1)
    expect((await page.view({ page: 'keys', key: '2001:DB8:0:FF12::7' })).found).toMatchObject({
      as: '2001:db8:0:ff00::/56',
      limiters: [{ limiter: 'login' }],
    })
    expect((await page.view({ page: 'keys', key: 'nobody' })).found).toMatchObject({ limiters: [], asked: 1 })
    expect((await page.view({ page: 'keys', key: hostile })).found).toMatchObject({
      key: { text: hostile },
      limiters: [{ limiter: 'login' }],
    })
    expect((await page.act({ act: 'block', limiter: 'login', key: hostile, for: '10m' })).status).toBe(200)
    expect((await page.view({ page: 'keys' })).blocks).toMatchObject([{ key: { text: hostile } }])
  })

  test('an invalid act is refused with a reason, and changes nothing', async () => {
    const page = await start()
    for (const act of [
      { act: 'drop' },
      { act: 'block', limiter: 'none', key: 'x', for: '1h' },
      { act: 'reset', limiter: 'login', ref: 'unknown' },
      { act: 'redrive' },
      { act: 'set-limit', limiter: 'login', policy: '5/1m' },
    ]) {
      const reply = await page.act(act as never)
      expect([reply.status, typeof reply.error]).toEqual([400, 'string'])
    }
    expect((await page.view({ page: 'changes' })).changes).toEqual([])
  })
})

describe('live limits', () => {
  test('are set and taken back, shown in words before and after, for all and for one key', async () => {
    const observer = report()
    const live = open(new LivePolicies(client, { defaults: { api: '100/1m' } }))
    const page = await start({ live })
    const api = new RateLimiter({
      policy: live.policy('api', (key: string) => key),
      name: 'api',
      store: new RedisStore(client),
      observer,
    })
    await api.consume('user:1')
    const { rows } = await page.shows('limits', ({ rows }) => rows[0]?.changeable === true)
    expect(rows[0].live).toBeUndefined()
    const done = await page.act({ act: 'set-limit', limiter: 'api', policy: '3/1m', for: '1h' })
    expect(done).toMatchObject({ status: 200, text: 'api now allows 3 in any minute.', until: expect.any(Number) })
    await eventually('it is in force', () => live.for('api')[0].quota === 3)
    const changed = (await page.view({ page: 'limits' })).rows[0]
    expect(changed).toMatchObject({
      facts: { quota: 3 },
      live: { words: '3 in any minute', default: '100 in any minute', by: 'ann' },
    })
    await page.act({ act: 'set-limit', limiter: 'api', policy: '7/1m', key: 'user:1' })
    const { found } = await page.view({ page: 'keys', key: 'user:1' })
    expect(found?.limiters).toMatchObject([{ live: { words: '7 in any minute', by: 'ann' } }])
    expect((await page.act(done.undo as never)).text).toBe('api is back to 100 in any minute.')
    const { changes } = await page.view({ page: 'changes' })
    expect(changes.map(({ what, before, after, user }) => [what, before, after, user])).toEqual([
      ['Live limit cleared', '3 in any minute', '100 in any minute', 'ann'],
      ['Live limit set', '3 in any minute', '7 in any minute', 'ann'],
      ['Live limit set', '100 in any minute', '3 in any minute', 'ann'],
    ])
    expect(await page.act({ act: 'set-limit', limiter: 'api', policy: '0' })).toMatchObject({ status: 400 })
  })

  /** A dashboard that knows the limiter 'api', with its live limits. */
  const startWithApi = async (policy: string) => {
    const live = open(new LivePolicies(client, { defaults: { api: policy } }))
    const page = await start({ live })
    const store = new RedisStore(client)
    const api = new RateLimiter({ policy: live.policy('api'), name: 'api', store, observer: report() })
    await api.consume('user:1')
    await page.shows('limits', ({ rows }) => rows[0]?.changeable === true)
    /** What Redis holds, the permanent and the temporary limit with its end. */
    const held = async () => {
      const { names } = await new LiveRecords(client, 'test', 'spillway').names()
      return names[0].limit.stateAt(Date.now())
    }
    return { live, page, api, held }
  }

  test.each<[string, string | undefined, Date | undefined]>([
    ['a temporary limit', undefined, new Date(Date.now() + 3_600_000)],
    ['a permanent one', '200/1m', undefined],
    ['both', '200/1m', new Date(Date.now() + 3_600_000)],
    ['neither', undefined, undefined],
  ])('an undone change leaves what was there before: %s', async (_, standing, end) => {
    const { live, page, held } = await startWithApi('100/1m')
    if (standing !== undefined) await live.set('api', standing)
    if (end !== undefined) await live.set('api', '1000/1m', { until: end })
    const before = await held()
    for (const act of [
      { act: 'set-limit', policy: '500/1m' },
      { act: 'set-limit', policy: '500/1m', for: '1h' },
      { act: 'clear-limit' },
    ] as const) {
      const done = await page.act({ ...act, limiter: 'api' })
      expect(done.status).toBe(200)
      const undone = await page.act(done.undo as ChangeRequest)
      expect([undone.status, await held()]).toEqual([200, before])
      // Undoing the undoing is the change once more.
      const again = await page.act(undone.undo as ChangeRequest)
      expect([again.status, (await page.act(again.undo as ChangeRequest)).status, await held()]).toEqual([
        200,
        200,
        before,
      ])
    }
    expect(before.temporary?.untilMs).toBe(end?.getTime())
  })

  test('a change is not undone when somebody has changed the limit since; every change of everybody is in the history once', async () => {
    const { live, page, held } = await startWithApi('100/1m')
    const ann = await page.act({ act: 'set-limit', limiter: 'api', policy: '200/1m' })
    await live.set('api', '1/1m', { by: 'deploy-script' })
    expect(await page.act(ann.undo as ChangeRequest)).toMatchObject({
      status: 400,
      error: 'api was changed again by deploy-script since: look at the changes, and change it anew',
    })
    expect(await held()).toEqual({ standing: '1/1m' })
    await page.act({ act: 'set-limit', limiter: 'api', policy: '300/1m', key: 'user:1' })
    const { changes } = await page.view({ page: 'changes' })
    expect(changes.map(({ user, after, key }) => [user, after, key?.text])).toEqual([
      ['ann', '300 in any minute', 'user:••'],
      ['deploy-script', '1/1m', undefined],
      ['ann', '200 in any minute', undefined],
    ])
  })

  test.each([
    { policy: 'x', untilMs: Date.now() + 60_000 },
    { policy: '5/1m', untilMs: 'soon' },
    { policy: '5/1m', untilMs: 1e300 },
  ])('an undo that cannot be carried out whole changes nothing: %j', async temporary => {
    const { page, held } = await startWithApi('100/1m')
    const { undo } = await page.act({ act: 'set-limit', limiter: 'api', policy: '200/1m' })
    const before = { standing: '7/1m', temporary }
    expect((await page.act({ ...undo, before } as never)).status).toBe(400)
    expect(await held()).toEqual({ standing: '200/1m' })
  })

  test('a row names all limits of its policy; after a change the others are marked as not in force', async () => {
    const { page } = await startWithApi('5/1s; 200/1h')
    const { rows } = await page.view({ page: 'limits' })
    expect(rows.map(({ limit, policy, replaced }) => [limit, policy, replaced]).sort()).toEqual([
      ['api', '5/1s; 200/1h', undefined],
      ['api-2', '5/1s; 200/1h', undefined],
    ])
    await page.act({ act: 'set-limit', limiter: 'api', policy: '8/1s' })
    const changed = (await page.view({ page: 'limits' })).rows
    expect(changed.map(({ limit, policy, replaced }) => [limit, policy, replaced]).sort()).toEqual([
      ['api', '8/1s', undefined],
      ['api-2', '8/1s', true],
    ])
  })

  test('a change whose note fails is done, and says so', async () => {
    const { page, held } = await startWithApi('100/1m')
    await client.set('spillway:{!dashboard}:changes', 'not a list')
    const done = await page.act({ act: 'set-limit', limiter: 'api', policy: '200/1m' })
    expect(done).toMatchObject({
      status: 200,
      text: expect.stringMatching(/^api now allows 200 in any minute\. The history does not have it: .*WRONGTYPE/),
    })
    expect(await held()).toEqual({ standing: '200/1m' })
  })

  test('all keys with limits of their own are listed, with until and by whom, and how many more there are', async () => {
    const live = open(new LivePolicies(client, { defaults: { api: '100/1m', login: '5/1m' } }))
    const observer = report()
    await limiterOf('api', '100/1m', observer).consume('x')
    await live.set('login', '9/1m')
    await live.set('api', '5/1m', { key: 'user:1', by: 'ann', until: '1h' })
    await live.set('login', '6/1m', { key: 'user:2' })
    const page = await start({ keys: 'plain', live })
    const view = await page.shows('keys', ({ ownLimits }) => ownLimits.length === 2)
    expect(view.ownLimits).toMatchObject([
      { limiter: 'login', key: { text: 'user:2' }, policy: '6/1m' },
      { limiter: 'api', key: { text: 'user:1' }, policy: '5/1m', by: 'ann', until: expect.any(Number) },
    ])
    expect(view.moreOwnLimits).toBe(0)
    for (let i = 0; i < 60; i++) await live.set('api', '7/1m', { key: `tenant:${i}` })
    const many = await page.shows('keys', ({ ownLimits }) => ownLimits.length === 50)
    expect(many.moreOwnLimits).toBe(12)
  })

  test('changes by LivePolicies elsewhere are in the history too; without `live` nothing can be changed, and a text says why', async () => {
    const live = open(new LivePolicies(client, { defaults: { api: '100/1m' } }))
    await live.set('api', '50/1m', { by: 'deploy' })
    const page = await start()
    const { changes, noLive } = await page.view({ page: 'changes' })
    expect(changes).toMatchObject([{ what: 'Live limit set', subject: 'api', after: '50/1m', user: 'deploy' }])
    expect(noLive).toContain('no `live`')
    expect((await page.act({ act: 'set-limit', limiter: 'api', policy: '1/1m' })).status).toBe(400)
    expect(live.for('api')[0].quota).toBe(50)
  })
})

describe('shared objects', () => {
  test('a semaphore shows its holders and waiters, and a lease can be ended by force', async () => {
    const observer = report()
    const page = await start()
    const semaphore = open(new Semaphore(client, 'reports', { permits: 1, observer }))
    const lease = await semaphore.acquire()
    const waiting = semaphore.acquire()
    const { shared } = await page.shows('waiting', ({ shared }) => shared[0]?.waiting === 1)
    expect(shared[0]).toMatchObject({
      kind: 'semaphore',
      name: 'reports',
      inUse: 1,
      of: 1,
      holders: [{ id: lease.id, permits: 1 }],
    })
    expect((await page.act({ act: 'force-release', name: 'reports', lease: lease.id })).status).toBe(200)
    const next = await waiting
    await next.release()
    expect(await page.act({ act: 'force-release', name: 'reports', lease: lease.id })).toMatchObject({
      status: 400,
      error: expect.stringContaining('ended'),
    })
  })

  test('each budget of a partner is shown with what is used over all processes, its debt, and the calls that wait', async () => {
    const page = await start()
    const budgets = [
      { name: 'calls', rate: 100, interval: '1h' },
      { name: 'tokens', rate: 1000, interval: '1h', cost: () => 900, settle: () => 1300 },
    ]
    const polite = [report(), report({ service: 'admin' })].map(observer => {
      const limits = { 'https://model.test': { budgets } }
      return politeFetch({ client, observer, limits, maxWait: '1d', fetch: async () => new Response() })
    })
    await polite[0]('https://model.test')
    const ending = new AbortController()
    const waiting = polite.map(one => one('https://model.test', { signal: ending.signal }).catch(error => error))
    const { shared } = await page.shows(
      'waiting',
      ({ shared }) => shared[1]?.inUse === 1300 && shared.every(({ waiting }) => waiting === 2),
    )
    expect(shared).toEqual([
      { kind: 'budget', name: 'https://model.test calls', inUse: 1, of: 100, intervalMs: 3_600_000, waiting: 2 },
      { kind: 'budget', name: 'https://model.test tokens', inUse: 1300, of: 1000, intervalMs: 3_600_000, waiting: 2 },
    ])
    ending.abort('enough')
    expect(await Promise.all(waiting)).toEqual(['enough', 'enough'])
  })

  test('a rate is shown, set with its state kept, and set back', async () => {
    const observer = report()
    const page = await start()
    const rate = open(new SharedRateLimiter(client, 'partner', { observer }))
    await rate.trySetRate({ rate: 5, interval: '1h' })
    for (let i = 0; i < 3; i++) await rate.acquire()
    const { shared } = await page.shows('waiting', ({ shared }) => shared.some(({ name }) => name === 'partner'))
    expect(shared).toMatchObject([
      { kind: 'rate', name: 'partner', inUse: 3, of: 5, intervalMs: 3_600_000, waiting: 0 },
    ])
    const done = await page.act({ act: 'set-rate', name: 'partner', rate: 10, interval: '1h' })
    expect(await rate.availablePermits()).toBe(7)
    await page.act(done.undo as never)
    expect(await rate.getConfig()).toMatchObject({ rate: 5 })
    expect(await page.act({ act: 'set-rate', name: 'partner', rate: 0, interval: '1h' })).toMatchObject({ status: 400 })
    expect(await page.act({ act: 'set-rate', name: 'never-set', rate: 1, interval: '1h' })).toMatchObject({
      status: 400,
    })
  })

  test('a queue shows its dead letters with their reasons; one and all are redriven; it is paused and resumed', async () => {
    const observer = report()
    const page = await start({ keys: 'plain' })
    const queue = open(new DelayQueue<string>(client, 'mail', { maxAttempts: 1, observer }))
    for (const text of ['a', '<b>b</b>', 'c'.repeat(5000)]) await queue.push(text)
    const failing = queue.consume(async () => {
      throw new Error('no <route>')
    })
    const view = await page.shows(
      'queues',
      ({ queues }) => queues[0]?.letters.length === 3 && queues[0].late99 !== undefined,
    )
    await failing.close()
    const [{ letters, late99 }] = view.queues
    expect(letters.map(({ reason }) => reason)).toEqual(new Array(3).fill(expect.stringContaining('no <route>')))
    expect(letters.map(({ payload }) => payload)).toContain('"<b>b</b>"')
    expect(Math.max(...letters.map(({ payload }) => payload?.length ?? 0))).toBe(1024)
    const masked = await (await start()).view({ page: 'queues' })
    expect(masked.queues[0].letters.map(({ payload }) => payload)).toEqual(new Array(3).fill(undefined))
    expect(late99).toBeGreaterThanOrEqual(0)
    expect((await page.act({ act: 'pause', name: 'mail' })).status).toBe(200)
    expect((await page.act({ act: 'redrive', name: 'mail', ids: [letters[0].id] })).text).toBe(
      '1 dead letter of mail is delivered again.',
    )
    expect((await page.act({ act: 'redrive', name: 'mail' })).text).toBe('2 dead letters of mail are delivered again.')
    expect((await page.view({ page: 'queues' })).queues[0]).toMatchObject({ ready: 3, dead: 0, paused: true })
    await page.act({ act: 'resume', name: 'mail' })
    expect((await page.view({ page: 'queues' })).queues[0]).toMatchObject({ paused: false })
    const failingAgain = queue.consume(async () => {
      throw new Error('no')
    })
    const again = await page.shows('queues', ({ queues }) => queues[0]?.letters.length === 3)
    await failingAgain.close()
    const [first] = again.queues[0].letters
    expect((await page.act({ act: 'discard', name: 'mail', ids: [first.id] })).text).toBe(
      '1 dead letter of mail is gone for good.',
    )
    expect((await page.act({ act: 'discard', name: 'mail' })).text).toBe('2 dead letters of mail are gone for good.')
    expect(await page.act({ act: 'discard', name: 'mail', ids: [5] } as never)).toMatchObject({ status: 400 })
    expect((await page.view({ page: 'queues' })).queues[0]).toMatchObject({ ready: 0, dead: 0 })
    expect((await page.view({ page: 'changes' })).changes[0]).toMatchObject({ what: 'Dead letters discarded' })
  })

  test('a message is looked up by its id, made due, and cancelled', async () => {
    const observer = report()
    const page = await start({ keys: 'plain' })
    const queue = open(new DelayQueue<string>(client, 'mail', { observer }))
    await queue.push('to ada', { id: 'order-17', delay: '1h' })
    await page.shows('queues', ({ queues }) => queues.length === 1)
    const look = async (id: string, of = page) => (await of.view({ page: 'queues', queue: 'mail', id })).sought
    expect(await look('order-17')).toMatchObject({
      queue: 'mail',
      id: 'order-17',
      found: { state: 'delayed', attempt: 0, payload: '"to ada"' },
    })
    expect(await look('order-18')).toMatchObject({ found: null })
    const masked = await look('order-17', await start())
    expect(masked?.found).toMatchObject({ state: 'delayed' })
    expect(masked?.found?.payload).toBeUndefined()
    const done = await page.act({ act: 'deliver-message', name: 'mail', id: 'order-17' })
    expect(done).toMatchObject({ status: 200, text: 'The message order-17 of mail is due now.' })
    expect((await look('order-17'))?.found).toMatchObject({ state: 'ready' })
    expect(await page.act({ act: 'deliver-message', name: 'mail', id: 'order-17' })).toMatchObject({ status: 400 })
    expect((await page.act({ act: 'cancel-message', name: 'mail', id: 'order-17' })).status).toBe(200)
    expect((await look('order-17'))?.found).toBeNull()
    const { changes } = await page.view({ page: 'changes' })
    expect(changes.map(({ what, after }) => [what, after])).toEqual([
      ['Message cancelled', 'order-17'],
      ['Message made due', 'order-17'],
    ])
  })
})

describe('faults', () => {
  test('when Redis is dead, the last view stays and is marked, and changes fail with a reason', async () => {
    const observer = report()
    const page = await start()
    await limiterOf('login', '5/1h', observer).consume('x')
    await page.shows('limits', ({ rows }) => rows.length === 1)
    await redis.kill()
    const view = await page.shows('limits', ({ failing }) => failing !== undefined)
    expect(view.rows).toHaveLength(1)
    expect(view.failing?.reason).not.toBe('')
    expect(view.now - view.readAt).toBeGreaterThan(0)
    expect(await page.act({ act: 'pause', name: 'mail' })).toMatchObject({ status: 503 })
    await redis.restart()
    await page.shows('limits', ({ failing }) => failing === undefined)
  })

  test('an empty installation is distinguished from a quiet one', async () => {
    const page = await start()
    expect(await page.view({ page: 'limits' })).toMatchObject({ installed: false, rows: [], status: { processes: 0 } })
  })

  test('foreign values under its keys in Redis break nothing', async () => {
    const observer = report()
    const page = await start()
    const login = limiterOf('login', '5/1h', observer)
    await login.consume('x')
    await page.shows('limits', ({ rows }) => rows.length === 1)
    const root = 'spillway:{!dashboard}'
    for (const wrong of ['', 'null', '{}', '[1]', '1 2 null', '9 9 {"service":5}', 'x'.repeat(1000)]) {
      await client.hset(`${root}:records`, `wrong${wrong}`, wrong)
      await client.hset(`${root}:details`, `wrong${wrong}`, wrong)
      await client.hset(`${root}:facts`, `wrong${wrong}`, wrong)
      await client.lpush(`${root}:changes`, wrong)
      for (const key of await client.keys(`${root}:sums:*`)) await client.hset(key, `9${wrong}`, wrong)
    }
    const record = (more: object) =>
      `1 ${Date.now()} ${JSON.stringify({ service: 's', version: '1', host: 'h', pid: 1, startedAt: 1, perSecond: 0, everyMs: 2000, ...more })}`
    for (const [i, more] of [
      { breaker: null },
      { breaker: 5 },
      { alerts: 5 },
      { alerts: [{}, { rule: 5 }, { rule: 'r', when: 'denied-share', subject: null, value: 1, since: 1 }] },
      { startedAt: 1e300 },
      { answerMs: 'x' },
    ].entries())
      await client.hset(`${root}:records`, `other${i}`, record(more))
    await client.hset(`${root}:records`, 'far', record({}).replace(/^1 \d+/, '1 99999999999999999999'))
    const limit = { name: 'l', quota: 1, windowMs: 1000, burst: 1, algorithm: 'sliding-window' }
    for (const [i, wrong] of [
      { algorithm: 'gcra-v9' },
      { windowMs: 0 },
      { name: '' },
      { calendar: { window: 'day', timezone: 'Mars/Base' } },
      { quota: -1 },
    ].entries()) {
      const facts = { kind: 'limit', name: `newer${i}`, limit: { ...limit, ...wrong }, store: 'redis', tags: -1 }
      await client.hset(`${root}:facts`, `newer${i}`, JSON.stringify(facts))
    }
    for (const rows of ['[["mail",[[1]],1,1]]', '[["mail",[[]],1,1]]', '[["mail",[5],1,1]]', '[["mail","x",1,1]]'])
      await client.hset(
        `${root}:details`,
        `wrong${rows}`,
        `{"keys":[["login",[["x",1]]]],"queues":${rows},"levels":[5,{"object":"x"}]}`,
      )
    for (const wrong of [
      { undo: null },
      { undo: { act: 'restore-limit', key: 5 } },
      { key: 5 },
      { until: 'x' },
      { until: 1e300 },
      { live: 5 },
    ])
      await client.lpush(
        `${root}:changes`,
        `${Date.now()} ${JSON.stringify({ what: 'w', subject: 's', act: { act: 'pause', name: 'q' }, ...wrong })}`,
      )
    await new LivePolicies(client, { defaults: { api: '5/1m', broken: '5/1m' } }).close()
    await client.hset('spillway:{!live}:defaults', 'broken', '{bad json')
    await client.hincrby(`${root}:index`, 'version', 1)
    await login.block('for ever', Number.MAX_SAFE_INTEGER)
    const fresh = await start()
    expect((await fresh.view({ page: 'keys', key: 'x' })).found).toMatchObject({ asked: 1, unread: 0 })
    for (const shown of ['limits', 'keys', 'waiting', 'queues', 'events', 'changes', 'processes'] as const) {
      expect((await fresh.view({ page: shown })).failing).toBeUndefined()
    }
    expect((await fresh.view({ page: 'limits' })).rows).toHaveLength(1)
  })

  test('a dashboard without viewers, and a reporter without events, send nothing to Redis', async () => {
    const lazy = redis.client({ lazyConnect: true })
    const page = await start({ client: lazy })
    report({ client: lazy })
    await page.get('')
    expect(lazy.status).toBe('wait')
  })
})

/** What Redis has summed of the last 15 minutes: limiter and limit → allowed, refused. */
async function counted(): Promise<Record<string, [allowed: number, refused: number]>> {
  const reports = new FleetReports(client, 'spillway')
  await reports.refresh()
  const rows: Record<string, [number, number]> = {}
  for (const [id, entry] of reports.entries) {
    if (entry.kind !== 'limit') continue
    const [allowed, refused] = reports.recent(id, 90).counts
    rows[`${entry.name} ${entry.limit.name}`] = [allowed, refused]
  }
  return rows
}

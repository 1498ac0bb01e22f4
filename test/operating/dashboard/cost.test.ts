import { request } from 'node:http'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { DelayQueue, parsePolicy, RateLimiter, RedisStore, Semaphore } from '../../../src/index.js'
import { reporter } from '../../../src/operating/dashboard/index.js'
import { RecordKeys, STEP_MS, stepOf } from '../../../src/operating/dashboard/records.js'
import { LivePolicies } from '../../../src/operating/live/index.js'
import { limitFacts, limitId, ObjectIndex, objectId } from '../../../src/operating/object-index.js'
import { queueLook } from '../../../src/redis/scripts.js'
import { eventually } from '../../support/eventually.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { RedisServer } from '../../support/redis-server.js'
import { encoded, OpenDashboard } from './open-dashboard.js'
import { sendReport } from './send-report.js'

const PAGES = ['limits', 'keys', 'waiting', 'queues', 'events', 'changes', 'processes'] as const
const NOT_REPORTED = ',0,0,100,0,0,0'

const closing: Array<() => unknown> = []
let aheadMs = 0
beforeEach(() => {
  aheadMs = 0
  const real = performance.now.bind(performance)
  jest.spyOn(performance, 'now').mockImplementation(() => real() + aheadMs)
})
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  jest.restoreAllMocks()
})

/** What was read is old by now, as for a page that asks every two seconds. */
const later = () => {
  aheadMs += 2000
}

interface Reported {
  readonly everyMs?: number
  readonly heardAt?: number
  readonly keys?: ReadonlyArray<readonly [limiter: string, rows: ReadonlyArray<readonly [string, number, number]>]>
  readonly alerts?: readonly object[]
}

/** Writes what processes report. */
class Told {
  readonly keys = new RecordKeys('spillway')

  constructor(readonly client: object) {}

  async limit(
    name: string,
    policy: string,
    steps: ReadonlyArray<readonly [step: number, counts: string]>,
  ): Promise<void> {
    const [limit] = parsePolicy(policy)
    const id = limitId(name, limit)
    const notes = [[id, limitFacts(name, limit, { store: 'redis' })]] as const
    for (const [step, counts] of steps)
      await this.#report('p', {}, { stepAt: step * STEP_MS, rows: [[id, counts]], notes })
  }

  async process(id: string, told: Reported): Promise<void> {
    const record = await this.#report(id, told, {})
    if (told.heardAt !== undefined)
      await (this.client as { hset(...args: unknown[]): Promise<unknown> }).hset(
        this.keys.processes[1],
        id,
        `1 ${told.heardAt} ${JSON.stringify(record)}`,
      )
  }

  async #report(id: string, told: Reported, sums: Partial<Parameters<typeof sendReport>[1]>): Promise<object> {
    const { everyMs = 2000, keys = [], alerts } = told
    const record = { service: 's', version: '1', host: 'h', pid: 1, startedAt: 1, perSecond: 10, everyMs, alerts }
    await sendReport(this.client, { process: id, record, details: { keys, queues: [], levels: [] }, ...sums })
    return record
  }

  async object(kind: string, name: string): Promise<void> {
    await this.#report('p', {}, { notes: [[objectId(kind, name), { kind, name }]] })
  }
}

/**
 * Counts what a dashboard asks Redis, and in how many rounds: the answers of a round are given together, whichever node
 * is slow.
 */
class Asked {
  calls = 0
  rounds = 0
  readonly client: object
  #open: Promise<unknown>[] = []
  #round: Promise<void> | undefined

  constructor(client: object) {
    this.client = new Proxy(client, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        if (name !== 'evalsha' && name !== 'eval' && name !== 'hgetall') return value.bind(target)
        return (...args: unknown[]) => {
          this.calls++
          const answer: Promise<unknown> = value.apply(target, args)
          this.#open.push(answer)
          this.#round ??= this.#allAnswered()
          return this.#round.then(() => answer)
        }
      },
    })
  }

  async #allAnswered(): Promise<void> {
    this.rounds++
    // More may be asked meanwhile.
    for (let i = 0; i < this.#open.length; i++) await this.#open[i].catch(() => {})
    this.#open = []
    this.#round = undefined
  }

  async of(act: () => Promise<unknown>): Promise<[calls: number, rounds: number]> {
    const [calls, rounds] = [this.calls, this.rounds]
    await act()
    return [this.calls - calls, this.rounds - rounds]
  }
}

const start = async (options: object) => {
  const page = await OpenDashboard.start({
    client: {},
    authorize: () => ({ access: 'write', user: 'ann' }),
    ...options,
  })
  closing.push(() => page.close())
  return page
}

describe('on one server', () => {
  let redis: RedisServer
  let client: ReturnType<RedisServer['client']>
  let told: Told
  beforeAll(async () => {
    redis = await RedisServer.start()
    client = redis.client()
    told = new Told(client)
  })
  afterEach(() => client.flushall())
  afterAll(() => redis.stop())

  const now = () => stepOf(Date.now())
  const aFleet = async () => {
    for (let i = 0; i < 5; i++) await told.limit(`api-${i}`, '5/1m', [[now(), `50,50${NOT_REPORTED}`]])
    for (let i = 0; i < 20; i++) await told.process(`p-${i}`, { keys: [['api-0', [['203.0.113.9', 1, 1]]]] })
    for (const name of ['mail', 'news']) {
      await told.object('queue', name)
      const queue = new DelayQueue<string>(client, name)
      closing.push(() => queue.close())
      await queue.push('x')
    }
    await told.object('semaphore', 'reports')
  }

  test.each(PAGES)('the page %s asks Redis in one round trip, and viewers who come together share it', async page => {
    await aFleet()
    const live = new LivePolicies(client, { defaults: { 'api-0': '5/1m' } })
    closing.push(() => live.close())
    const asked = new Asked(redis.client())
    const open = await start({ client: asked.client, live })
    const ask = page === 'keys' ? ({ page, key: '203.0.113.9' } as const) : { page }
    for (let i = 0; i < 3; i++) {
      later()
      await open.view(ask)
    }
    later()
    const [calls, rounds] = await asked.of(() => open.view(ask))
    expect(rounds).toBe(1)
    later()
    const [together] = await asked.of(() => Promise.all([open.view(ask), open.view(ask), open.view(ask)]))
    expect(together).toBeLessThanOrEqual(calls)
    // Who comes just after them reads what they have read.
    expect(await asked.of(() => open.view(ask))).toEqual([0, 0])
  })

  test('what has not changed since the last view is not decoded again', async () => {
    await aFleet()
    const open = await start({ client })
    await open.view({ page: 'limits' })
    later()
    await open.view({ page: 'limits' })
    later()
    const parsed = jest.spyOn(JSON, 'parse')
    await open.view({ page: 'limits' })
    // The question, and its answer in this test.
    expect(parsed.mock.calls.length).toBe(2)
  })

  test('a change is seen by who looks next, here and in another dashboard', async () => {
    await aFleet()
    const limiter = new RateLimiter({ policy: '5/1m', name: 'api-0', store: new RedisStore(client), deadline: '5s' })
    await limiter.consume('k')
    const [here, there] = [await start({ client }), await start({ client })]
    const blocked = async (page: OpenDashboard) => (await page.view({ page: 'keys', key: 'k' })).blocks.length
    expect([await blocked(here), await blocked(there)]).toEqual([0, 0])
    await here.act({ act: 'block', limiter: 'api-0', key: 'k', for: '1h' })
    expect(await blocked(here)).toBe(1)
    expect((await here.view({ page: 'changes' })).changes).toHaveLength(1)
    later()
    expect(await blocked(there)).toBe(1)
    await there.act({ act: 'unblock', limiter: 'api-0', key: 'k' })
    expect(await blocked(there)).toBe(0)
    await here.act({ act: 'pause', name: 'mail' })
    expect((await here.view({ page: 'queues' })).queues[0]).toMatchObject({ name: 'mail', paused: true })
  })

  test('a key is searched in 50 limiters: those whose reports name it, then the worst; the page says how many there are', async () => {
    for (let i = 0; i < 60; i++)
      await told.limit(`api-${String(i).padStart(2, '0')}`, '5/1m', [[now(), `${100 - i},${i}${NOT_REPORTED}`]])
    // The calmest.
    await told.process('p', { keys: [['api-00', [['k', 1, 0]]]] })
    const page = await start({ client })
    for (const name of ['api-00', 'api-05', 'api-59']) {
      const limiter = new RateLimiter({ policy: '5/1m', name, store: new RedisStore(client), deadline: '5s' })
      await limiter.consume('k')
    }
    const { found } = await page.view({ page: 'keys', key: 'k' })
    expect(found).toMatchObject({ asked: 50, unasked: 10 })
    expect(found?.limiters.map(({ limiter }) => limiter)).toEqual(['api-00', 'api-59'])
  })

  test('a search asks once for each limiter, and records none of them as used', async () => {
    const names = Array.from({ length: 20 }, (_, i) => `api-${i}`)
    for (const name of names) await told.limit(name, '5/1m', [[now(), `50,50${NOT_REPORTED}`]])
    const live = new LivePolicies(client, { defaults: Object.fromEntries(names.map(name => [name, '5/1m'])) })
    closing.push(() => live.close())
    const asked = new Asked(redis.client())
    const noted = jest.spyOn(ObjectIndex.prototype, 'note')
    const open = await start({ client: asked.client, live })
    const search = () => open.view({ page: 'keys', key: '203.0.113.9' })
    expect((await search()).found?.asked).toBe(20)
    later()
    await search()
    later()
    const [calls] = await asked.of(search)
    later()
    const [others] = await asked.of(() => open.view({ page: 'keys' }))
    // Their states, their blocks of this key, and the key's own limits.
    expect(calls - others).toBeLessThanOrEqual(20 + 1 + 1)
    expect(noted).not.toHaveBeenCalled()
  })

  test('queues with dead letters come first, however many queues there are', async () => {
    const dead = async (name: string) => {
      await told.object('queue', name)
      await client.zadd(`spillway:{${name}}:queue:dead`, 1, 'id')
    }
    for (let i = 0; i < 20; i++) await told.object('queue', `a-${String(i).padStart(2, '0')}`)
    await dead('z-1')
    const page = await start({ client })
    const { queues, moreQueues } = await page.view({ page: 'limits' })
    expect([queues.length, queues[7], moreQueues]).toMatchObject([8, { name: 'z-1', dead: 1 }, 13])
  })

  test('a queue costs the page of queues, and the first page, one call', async () => {
    for (let i = 0; i < 12; i++) await told.object('queue', `queue-${i}`)
    const own = redis.client()
    const sent = jest.spyOn(own, 'evalsha')
    const open = await start({ client: own })
    for (const page of ['queues', 'limits', 'queues', 'limits'] as const) {
      later()
      sent.mockClear()
      const { queues, moreQueues } = await open.view({ page })
      const looks = sent.mock.calls.filter(([sha1]) => sha1 === queueLook.sha1)
      expect([queues.length + moreQueues, looks.length]).toEqual([12, 12])
    }
  })

  test('an object that cannot be read stays on the page, and says why', async () => {
    await told.object('queue', 'mail')
    await client.set('spillway:{mail}:queue:delayed', 'not a set')
    const page = await start({ client })
    const { queues } = await page.view({ page: 'queues' })
    expect(queues).toMatchObject([{ name: 'mail', unread: expect.stringContaining('WRONGTYPE'), letters: [] }])
  })

  test('the alert of a limiter with several limits leads to the worst', async () => {
    await told.limit('api', '5/1s', [[now() - 1, `80,10${NOT_REPORTED}`]])
    await told.limit('api', '100/1h', [[now() - 1, `80,30${NOT_REPORTED}`]])
    const alert = { rule: 'refusals', when: 'denied-share', subject: 'api', value: 1 / 3, since: Date.now() }
    await told.process('judge', { alerts: [alert] })
    const page = await start({ client })
    const { alerts, rows } = await page.view({ page: 'limits' })
    const worst = rows.find(({ refused }) => refused === Math.max(...rows.map(row => row.refused)))
    expect(alerts).toMatchObject([{ title: 'api refuses 33\u202f% of its requests', limit: worst?.id }])
  })

  test('rates are those of the time that all processes have told of, whether they report often or rarely', async () => {
    const heardAt = Date.now() - 9000
    const last = stepOf(heardAt) - 1
    const steps = Array.from({ length: now() - last + 4 }, (_, i) => last - 3 + i)
    // Two processes with ten requests a second each; of the last steps only one has told.
    const counts = (step: number) => `${step <= last ? 200 : 100},0${NOT_REPORTED}`
    await told.limit(
      'api',
      '100/1s',
      steps.map(step => [step, counts(step)]),
    )
    await told.process('p', { everyMs: 1000 })
    await told.process('rare', { everyMs: 10_000, heardAt })
    const { rows } = await (await start({ client })).view({ page: 'limits' })
    expect(rows).toMatchObject([{ allowed: 20 }])
    const { from, allowed } = rows[0].series
    expect(allowed.slice(-3)).toEqual([20, 20, 20])
    expect(from + (allowed.length - 1) * STEP_MS).toBe(last * STEP_MS)
  })

  test('what would be refused in shadow mode is counted per second of the time that it was counted in', async () => {
    await told.limit('api', '100/1s', [
      [now() - 1, `0,0,200,200,0,0,0,0`],
      [now(), `0,0,0,0,0,0,0,0`],
    ])
    const { rows, readAt } = await (await start({ client })).view({ page: 'limits' })
    const seconds = 10 + (readAt - stepOf(readAt) * STEP_MS) / 1000
    expect(rows[0].shadow).toBeCloseTo(200 / seconds, 0)
    expect(rows[0].shadow).toBeLessThan(20)
  })
})

describe('on a cluster', () => {
  let cluster: RedisCluster
  let client: ReturnType<RedisCluster['client']>
  let told: Told
  beforeAll(async () => {
    cluster = await RedisCluster.start()
    client = cluster.client()
    await client.ping()
    told = new Told(client)
  }, 30_000)
  afterAll(() => cluster.stop())

  test('the blocks of all limits are read in one call for each hash tag, all at a time', async () => {
    for (let i = 0; i < 12; i++) await told.limit(`api-${i}`, '5/1m', [[stepOf(Date.now()), `50,50${NOT_REPORTED}`]])
    const limiters = ['api-0', 'api-7'].map(
      name => new RateLimiter({ policy: '5/1m', name, store: new RedisStore(client), deadline: '5s' }),
    )
    for (const limiter of limiters) for (let i = 0; i < 10; i++) await limiter.block(`key-${i}`, '1h')
    const asked = new Asked(client)
    const page = await start({ client: asked.client, keys: 'plain' })
    const shown = async () =>
      (await page.view({ page: 'keys' })).blocks.map(({ limiter, key }) => `${limiter} ${key.text}`).sort()
    const expected = ['api-0', 'api-7'].flatMap(name => Array.from({ length: 10 }, (_, i) => `${name} key-${i}`))
    expect(await shown()).toEqual(expected.sort())
    aheadMs += 5000
    await shown()
    aheadMs += 5000
    const [calls, rounds] = await asked.of(shown)
    expect(rounds).toBeLessThanOrEqual(4)
    expect(calls).toBeLessThanOrEqual(64 + 15)
    // They are kept for the next viewers, until somebody changes something.
    later()
    expect((await asked.of(shown))[0]).toBeLessThanOrEqual(15)
    await page.act({ act: 'unblock', limiter: 'api-7', key: 'key-3' })
    expect(await shown()).toHaveLength(19)
  })

  test('a view whose request is closed asks nothing more', async () => {
    for (let i = 0; i < 99; i++) await told.limit(`many-${i}`, '5/1m', [[stepOf(Date.now()), `50,50${NOT_REPORTED}`]])
    const asked = new Asked(client)
    const page = await start({ client: asked.client })
    await page.view({ page: 'limits' })
    const before = asked.calls
    for (const node of cluster.nodes) node.pause()
    later()
    const viewing = request(`${page.url}view`, { headers: { 'x-spillway-request': encoded({ page: 'keys' }) } })
    viewing.on('error', () => {})
    viewing.end()
    await eventually('it asks on', () => asked.calls > before + 60)
    const sent = asked.calls
    viewing.destroy()
    for (const node of cluster.nodes) node.unpause()
    await page.view({ page: 'processes' })
    expect(asked.calls - sent).toBeLessThan(20)
  })

  test('a queue and a semaphore whose node does not answer stay on the page as not known', async () => {
    const home = await cluster.ownerOf(await cluster.slotOf('spillway:{!dashboard}:records'))
    const live = await cluster.ownerOf(await cluster.slotOf('spillway:{!live}:state'))
    const other = cluster.nodes.find(node => node !== home && node !== live) as RedisServer
    const isThere = async (name: string) => (await cluster.ownerOf(await cluster.slotOf(`{${name}}`))) === other
    const names: string[] = []
    for (let i = 0; names.length < 2; i++) if (await isThere(`object-${i}`)) names.push(`object-${i}`)
    await told.object('queue', names[0])
    await told.object('semaphore', names[1])
    const semaphore = new Semaphore(client, names[1], { permits: 3 })
    closing.push(() => semaphore.close())
    await semaphore.permits()
    await client.zadd(`spillway:{${names[0]}}:queue:dead`, 1, 'id')
    const page = await start({ client })
    const known = await page.view({ page: 'limits' })
    expect(known.queues).toMatchObject([{ name: names[0], dead: 1 }])
    other.pause()
    closing.push(() => other.unpause())
    aheadMs += 10_000
    const { queues, shared } = await page.view({ page: 'limits' })
    expect(queues).toEqual([{ name: names[0], unread: 'does not answer', letters: [] }])
    expect(shared).toEqual([{ kind: 'semaphore', name: names[1], unread: 'does not answer', waiting: 0 }])
    other.unpause()
    const back = await page.shows(
      'limits',
      ({ queues, shared }) => queues[0].unread === undefined && shared[0].unread === undefined,
    )
    expect(back.queues).toMatchObject([{ name: names[0], dead: 1 }])
  })
})

test('a limit that allows what another one refuses counts nothing', async () => {
  const redis = await RedisServer.start()
  const client = redis.client()
  const observer = reporter({ client, every: '20ms', service: 's', version: '1' })
  const limiter = new RateLimiter({
    policy: '1/1h; 100/1d',
    name: 'api',
    store: new RedisStore(client),
    deadline: '5s',
    observer,
  })
  const page = await OpenDashboard.start({ client, authorize: () => 'read' })
  for (let i = 0; i < 5; i++) await limiter.consume('k')
  const { rows } = await page.shows(
    'limits',
    ({ rows }) =>
      rows.length === 2 && rows.some(({ refused }) => refused > 0) && rows.every(({ allowed }) => allowed > 0),
  )
  const [hourly, daily] = ['1-per-1h', '100-per-1d'].map(name => rows.find(({ limit }) => limit === name))
  expect(daily).toMatchObject({ allowed: hourly?.allowed, refused: 0 })
  await observer.close()
  await page.close()
  await redis.stop()
})

import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { createClient, createCluster } from 'redis'
import { PolicyError, StoreError } from '../../../src/limiter/core/errors.js'
import type { LiveChange } from '../../../src/operating/live/live-limit.js'
import { LivePolicies, type LivePoliciesOptions } from '../../../src/operating/live/live-policies.js'
import { LiveRecords } from '../../../src/operating/live/live-records.js'
import type { RedisClient } from '../../../src/redis/client.js'
import { eventually } from '../../support/eventually.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { RedisServer } from '../../support/redis-server.js'
import { TcpProxy } from '../../support/tcp-proxy.js'
import { warnings } from '../../support/warnings.js'

const warned = warnings()

let redis: RedisServer
let prefix: string
let count = 0
const open = new Set<LivePolicies>()
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(() => redis.stop())
beforeEach(async () => {
  for (const live of open) await live.close()
  open.clear()
  prefix = `p${++count}`
})

function liveOf(client: RedisClient = redis.client(), options: Partial<LivePoliciesOptions> = {}): LivePolicies {
  const live = new LivePolicies(client, { defaults: { api: '100/1m', login: '5/15m' }, prefix, ...options })
  open.add(live)
  return live
}
const quotaOf = (live: LivePolicies, key?: string) => live.for('api', key)[0].quota
const follows = (live: LivePolicies, quota: number, key?: string) =>
  eventually(`${quota} is in force`, async () => quotaOf(live, key) === quota)

describe('without changes', () => {
  test('the defaults hold from the first moment, also while Redis cannot be reached', () => {
    const live = liveOf(redis.client({ port: 1 }))
    expect(live.for('api')).toEqual([
      { name: 'api', quota: 100, windowMs: 60_000, burst: 100, algorithm: 'sliding-window' },
    ])
  })

  test.each([
    ['100/1m', ['api']],
    ['100/1m; 5/1s', ['api', 'api-2']],
    ['100/1m; 100/1m token-bucket burst=5', ['api', 'api-2']],
    [
      ['100/1m name=api', { quota: 5, window: 1000 }],
      ['api', 'api-2'],
    ],
    [
      ['100/1m', '5/1s name=spike', '1000/1h'],
      ['api', 'spike', 'api-2'],
    ],
    [{ quota: 3, window: '1s', name: 'per user' }, ['per user']],
  ])('a limit without a name is named after the live name: %j', (given, names) => {
    const live = liveOf(undefined, { defaults: { api: given } })
    expect(live.for('api').map(({ name }) => name)).toEqual(names)
    const input = live.policy('api')()
    expect(live.policy('api')()).toBe(input)
  })
})

describe('a change', () => {
  test('to a policy of a newer version leads processes that run and those that start to the same limit', async () => {
    const running = liveOf()
    await running.set('api', '50/1m')
    const newer = new LiveRecords(redis.client(), 'test', prefix)
    const held = () => follows(liveOf(), quotaOf(running))
    await newer.change({ name: 'api', policy: '70/1m gcra-v9' })
    await follows(running, 100)
    await held()
    await running.set('api', '50/1m')
    await newer.change({ name: 'api', policy: '70/1m gcra-v9' }, { afterMs: 60_000 })
    await newer.change({ name: 'login', policy: '1/1m' })
    await eventually('all is followed', async () => running.for('login')[0].quota === 1)
    expect(quotaOf(running)).toBe(50)
    await held()
  })

  test('is in force in this process when set resolves, and in all others within 1 s', async () => {
    const [one, two] = [liveOf(), liveOf()]
    await one.set('api', '50/1m', { by: 'ann' })
    expect(quotaOf(one)).toBe(50)
    await follows(two, 50)
    await two.clear('api')
    expect(quotaOf(two)).toBe(100)
    await follows(one, 100)
  })

  test('of one key leaves the others as they are', async () => {
    const [one, two] = [liveOf(), liveOf()]
    const policy = two.policy('api', (key: string) => key)
    expect(policy('alice')).toBe('100/1m name=api')
    await one.set('api', '500/1m', { key: 'alice' })
    await follows(two, 500, 'alice')
    expect(policy('alice')).toBe('500/1m name=api')
    expect(policy('bob')).toBe('100/1m name=api')
    await one.clear('api', { key: 'alice' })
    await follows(two, 100, 'alice')
  })

  test('of one key is loaded in the background when a process first meets the key', async () => {
    const one = liveOf()
    await one.set('api', '500/1m', { key: 'alice' })
    await one.set('api', '7/1m', { key: `long ${'x'.repeat(5000)}` })
    const late = liveOf()
    let changes = 0
    late.onChange(() => changes++)
    await follows(late, 500, 'alice')
    await follows(late, 7, `long ${'x'.repeat(5000)}`)
    expect(quotaOf(late, 'bob')).toBe(100)
    expect(changes).toBe(0)
  })

  test('with until goes back by itself to what was set before without an end', async () => {
    const [one, two] = [liveOf(), liveOf()]
    await one.set('api', '50/1m')
    await one.set('api', '10/1m', { until: 300 })
    await one.set('api', '20/1m', { until: new Date(Date.now() + 300), key: 'alice' })
    expect([quotaOf(one), quotaOf(one, 'alice')]).toEqual([10, 20])
    await follows(two, 20, 'alice')
    expect(quotaOf(two)).toBe(10)
    for (const live of [one, two]) {
      await follows(live, 50)
      await follows(live, 50, 'alice')
    }
    const late = liveOf()
    await follows(late, 50)
    expect(quotaOf(late, 'alice')).toBe(50)
  })

  test('by two at once: the last stands, and both are in the history', async () => {
    const [one, two] = [liveOf(), liveOf()]
    await Promise.all([one.set('api', '50/1m', { by: 'ann' }), two.set('api', '60/1m', { by: 'bob' })])
    const history = await one.history('api')
    expect(history.map(({ by }) => by).sort()).toEqual(['ann', 'bob'])
    const last = history[0].policy === '50/1m' ? 50 : 60
    await follows(one, last)
    await follows(two, last)
  })

  test.each([
    ['100', {}],
    ['100/1m; ', {}],
    [{ quota: -1, window: '1s' }, {}],
    [['1/1s name=a', '2/1s name=a'], {}],
    ['1/1s', { until: 0 }],
    ['1/1s', { until: new Date(0) }],
    ['1/1s', { until: new Date(Number.NaN) }],
    ['1/1s', { key: 42 }],
    ['1/1s', { by: 42 }],
    ['1/1s', { untill: '1h' }],
  ])('that is invalid rejects with PolicyError, and nothing changes: %j %j', async (policy, options) => {
    const live = liveOf()
    await expect(live.set('api', policy as string, options as object)).rejects.toThrow(PolicyError)
    expect(quotaOf(live)).toBe(100)
    expect(await live.history()).toEqual([])
  })

  test('of a name that has no default is a PolicyError everywhere', async () => {
    const live = liveOf()
    await expect(live.set('apii', '1/1s')).rejects.toThrow(
      /unknown name "apii": expected one of defaults: "api", "login"/,
    )
    await expect(live.clear('apii')).rejects.toThrow(PolicyError)
    await expect(live.history('apii')).rejects.toThrow(PolicyError)
    expect(() => live.policy('apii')).toThrow(PolicyError)
    expect(() => live.for('toString')).toThrow(PolicyError)
  })

  test('rejects with StoreError while Redis is away, and after close', async () => {
    const client = redis.client()
    const away = liveOf(client)
    client.disconnect()
    await expect(away.set('api', '1/1s')).rejects.toThrow(StoreError)
    const closed = liveOf()
    await closed.close()
    await expect(closed.set('api', '1/1s')).rejects.toThrow(StoreError)
  })
})

describe('the history', () => {
  test('lists changes with author, moment and end, newest first', async () => {
    const live = liveOf()
    const until = new Date(Date.now() + 60_000)
    await live.set('api', '50/1m', { by: 'ann' })
    await live.set('login', { quota: 3, window: 60_000, algorithm: 'fixed-window' }, { key: 'alice', until })
    await live.clear('api', { by: 'bob' })
    const at = expect.any(Date)
    expect(await live.history()).toEqual([
      { name: 'api', policy: null, at, by: 'bob' },
      { name: 'login', key: 'alice', policy: '3/1m fixed-window', at, until },
      { name: 'api', policy: '50/1m', at, by: 'ann' },
    ])
    expect((await live.history('login')).map(({ key }) => key)).toEqual(['alice'])
  })

  test('keeps the newest 100', async () => {
    const live = liveOf()
    for (let i = 1; i <= 110; i++) await live.set('api', `${i}/1m`)
    await live.set('login', '1/1m')
    expect((await live.history()).map(({ policy }) => policy).slice(0, 3)).toEqual(['1/1m', '110/1m', '109/1m'])
    const history = await live.history('api')
    expect(history).toHaveLength(100)
    expect(history.at(-1)?.policy).toBe('11/1m')
  })
})

describe('onChange', () => {
  test('calls back once for each change, in order, in the process that made it and in others', async () => {
    const [one, two] = [liveOf(), liveOf()]
    const heard: Record<string, Array<LiveChange['policy']>> = { one: [], two: [] }
    one.onChange(({ policy }) => heard.one.push(policy))
    two.onChange(({ policy }) => heard.two.push(policy))
    for (const [i, live] of [one, two].entries()) await live.set('login', `${i}/1m`)
    await eventually('both follow', async () => one.for('login')[0].quota === 1)
    heard.one = []
    heard.two = []
    for (let i = 1; i <= 20; i++) await (i % 2 ? one : two).set('api', `${i}/1m`, i > 15 ? { key: 'alice' } : {})
    await eventually('all is heard', async () => heard.one.length >= 20 && heard.two.length >= 20)
    const expected = Array.from({ length: 20 }, (_, i) => `${i + 1}/1m`)
    expect(heard).toEqual({ one: expected, two: expected })
  })

  test('may throw, which causes a warning, and can be unsubscribed', async () => {
    const live = liveOf()
    const end = live.onChange(() => {
      throw new Error('oops')
    })
    await live.set('api', '1/1m')
    expect(warned.texts).toEqual(['LivePolicies: a listener of onChange threw: oops'])
    expect(warned.codes).toEqual(['SPILLWAY_OBSERVER'])
    end()
    await live.set('api', '2/1m')
    expect(quotaOf(live)).toBe(2)
  })
})

describe('what Redis holds', () => {
  test('names, defaults and set limits can be read from outside', async () => {
    const live = liveOf(undefined, { defaults: { login: '5/15m', api: [{ quota: 7, window: '1s', name: 'a b' }] } })
    await live.set('login', '3/1m')
    const records = new LiveRecords(redis.client(), 'test', prefix)
    await eventually('they are registered', async () => (await records.names()).names.length === 2)
    const { names, nowMs } = await records.names()
    expect(names.map(({ name, default: given, limit }) => [name, given, limit.at(() => nowMs)?.given])).toEqual([
      ['api', [{ quota: 7, window: '1s', name: 'a b' }], undefined],
      ['login', '5/15m', '3/1m'],
    ])
  })

  test('temporary limits that have ended are removed', async () => {
    const live = liveOf()
    for (let i = 0; i < 10; i++) await live.set('api', '1/1m', { key: `k${i}`, until: 20 })
    const admin = redis.client()
    await eventually('they have ended', async () => quotaOf(live, 'k9') === 100)
    await live.set('api', '1/1m', { key: 'x' })
    expect(await admin.hlen(`${prefix}:{live}:live:temporary:api`)).toBe(0)
    expect(await admin.zcard(`${prefix}:{live}:live:ends:api`)).toBe(0)
  })

  test('foreign values in its keys, and foreign messages, change nothing and break nothing', async () => {
    const live = liveOf()
    await live.set('api', '50/1m')
    const admin = redis.client()
    const base = `${prefix}:{live}:live`
    for (const text of [
      '',
      '{}',
      'e 2 1 -1 {"name":1,"from":"x"}',
      'e 2 1 -1 {"name":"api","policy":"[null]","from":"x"}',
    ]) {
      await admin.publish(`${prefix}!live`, text)
      await admin.hset(`${base}:limits:api`, 'alice', text)
    }
    await admin.hset(`${base}:limits`, 'login', 'e 1 1 -1 {"name":"login","policy":"5 per fortnight","from":"x"}')
    const late = liveOf()
    await follows(late, 50)
    expect(quotaOf(late, 'alice')).toBe(50)
    await live.set('api', '60/1m')
    await follows(late, 60, 'alice')
    expect(late.for('login')[0].quota).toBe(5)
  })

  test('lost data are lost for all: every process returns to the defaults and follows later changes', async () => {
    const [one, two] = [liveOf(), liveOf()]
    await one.set('api', '50/1m')
    await one.set('api', '5/1m', { key: 'alice' })
    await follows(two, 5, 'alice')
    await redis.client().del(...(await redis.client().keys(`${prefix}:{live}*`)))
    for (const live of [one, two]) {
      await follows(live, 100)
      await follows(live, 100, 'alice')
    }
    await one.set('api', '70/1m')
    await follows(two, 70)
    const records = new LiveRecords(redis.client(), 'test', prefix)
    await eventually('names are registered again', async () => (await records.names()).names.length === 2)
  }, 20_000)
})

describe('faults', () => {
  test.each(['ioredis', 'node-redis'])(
    'Redis gone: the last known limits stay; a process that starts then uses defaults; both catch up (%s)',
    async library => {
      const server = await RedisServer.start({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] })
      const others: Array<{ destroy(): void }> = []
      const clientOf = (): RedisClient => {
        if (library === 'ioredis') return server.client()
        const client = createClient({ url: server.url })
        client.on('error', () => {})
        client.connect().catch(() => {})
        others.push(client)
        return client
      }
      const one = liveOf(clientOf())
      await one.set('api', '50/1m')
      await one.set('api', '5/1m', { key: 'alice' })
      await server.kill()
      const late = liveOf(clientOf())
      expect([quotaOf(one), quotaOf(one, 'alice'), quotaOf(late)]).toEqual([50, 5, 100])
      await server.restart()
      await follows(late, 50)
      await follows(late, 5, 'alice')
      await late.set('api', '60/1m')
      await follows(one, 60)
      expect(quotaOf(one, 'alice')).toBe(5)
      for (const client of others) client.destroy()
      await server.stop()
    },
    30_000,
  )

  test('a lost message, or a silent connection, is noticed and recovered within 5 s', async () => {
    const proxy = await TcpProxy.start(redis.port)
    const one = liveOf()
    const two = liveOf(redis.client({ port: proxy.port }))
    await one.set('api', '50/1m')
    await one.set('api', '5/1m', { key: 'alice' })
    await follows(two, 5, 'alice')
    // It listens by the newest one.
    proxy.swallowNewest()
    await one.set('api', '60/1m')
    await one.set('api', '6/1m', { key: 'alice' })
    const changedAt = performance.now()
    await eventually('both are in force', async () => quotaOf(two) === 60 && quotaOf(two, 'alice') === 6, 8000)
    expect(performance.now() - changedAt).toBeLessThan(5000)
    await proxy.stop()
  }, 20_000)

  test('after more changes than the log holds, everything is read anew', async () => {
    const proxy = await TcpProxy.start(redis.port)
    const one = liveOf()
    const client = redis.client({ port: proxy.port })
    const two = liveOf(client)
    await one.set('api', '5/1m', { key: 'alice' })
    await follows(two, 5, 'alice')
    expect(quotaOf(two, 'bob')).toBe(100)
    client.disconnect()
    await proxy.stop()
    for (let i = 0; i < 22; i++) {
      await Promise.all(Array.from({ length: 50 }, (_, j) => one.set('login', '1/1m', { key: `k${i * 50 + j}` })))
    }
    await one.set('api', '6/1m', { key: 'alice' })
    await one.set('api', '7/1m', { key: 'bob' })
    await Promise.all(Array.from({ length: 1100 }, (_, i) => one.clear('login', { key: `k${i}` })))
    client.options.port = redis.port
    await client.connect()
    await follows(two, 6, 'alice')
    await follows(two, 7, 'bob')
  }, 30_000)

  test('without an observer one process warning reports an outage; an observer is called for every failure', async () => {
    const errors: Error[] = []
    liveOf(redis.client({ port: 1 }))
    liveOf(redis.client({ port: 1 }), { observer: { storeFailed: error => errors.push(error) } })
    await eventually('it is told', async () => warned.texts.length > 0 && errors.length > 3)
    expect(warned.texts).toEqual([
      expect.stringMatching(
        /^Redis at 127\.0\.0\.1:1 does not answer .*the limits that were known last stay in force$/,
      ),
    ])
  }, 20_000)
})

describe('keys with limits of their own', () => {
  test('of a hundred thousand keys, a process loads and keeps only those that it has met', async () => {
    const admin = redis.client()
    const live = liveOf()
    await live.set('api', '9/1m', { key: 'k0' })
    const [line] = await admin.lrange(`${prefix}:{live}:live:log`, 0, 0)
    for (let i = 0; i < 100; i++) {
      const entries = Array.from({ length: 1000 }, (_, j) => [
        `k${i * 1000 + j}`,
        line.replace('"k0"', `"k${i * 1000 + j}"`),
      ])
      await admin.hset(`${prefix}:{live}:live:limits:api`, ...entries.flat())
    }
    const late = liveOf()
    await follows(late, 9, 'k77777')
    await admin.config('RESETSTAT')
    for (let i = 0; i < 2000; i++) quotaOf(late, `k${i}`)
    await follows(late, 9, 'k1999')
    const stats = await admin.info('commandstats')
    // 2000 keys, 500 in a call, two hashes each.
    expect(Number(/cmdstat_hmget:calls=(\d+)/.exec(stats)?.[1])).toBeLessThan(20)
    expect(stats).not.toMatch(/cmdstat_(hgetall|hscan|hkeys|hvals)/)
  }, 20_000)
})

describe('works over', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await RedisCluster.start()
  }, 60_000)
  afterAll(() => cluster.stop())

  async function agree(one: LivePolicies, two: LivePolicies): Promise<void> {
    await one.set('api', '50/1m', { by: 'ann' })
    await follows(two, 50)
    await two.set('api', '5/1m', { key: 'alice' })
    await follows(one, 5, 'alice')
    await two.set('api', '6/1m', { key: 'alice', until: '1h' })
    await follows(one, 6, 'alice')
    await two.clear('api')
    await follows(one, 100)
    expect((await one.history('api')).map(({ policy }) => policy)).toEqual([null, '6/1m', '5/1m', '50/1m'])
  }

  test('a cluster of ioredis', () => agree(liveOf(cluster.client()), liveOf(cluster.client())))

  test('node-redis, connected before or after', async () => {
    const clients = [createClient({ url: redis.url }), createClient({ url: redis.url })]
    await clients[0].connect()
    const lives = clients.map(client => liveOf(client))
    await clients[1].connect()
    await agree(lives[0], lives[1])
    for (const client of clients) client.destroy()
  })

  test('a cluster of node-redis', async () => {
    const client = createCluster({ rootNodes: cluster.nodes.map(({ url }) => ({ url })) })
    await client.connect()
    await agree(liveOf(client), liveOf(cluster.client()))
    client.destroy()
  })
})

test('a closed object leaves no connection open', async () => {
  const own = await RedisServer.start()
  const client = own.client()
  const live = new LivePolicies(client, { defaults: { api: '100/1m' } })
  const listeners = async () => String(await client.call('CLIENT', 'LIST', 'TYPE', 'pubsub')).trim()
  await eventually('it listens', async () => (await listeners()) !== '')
  await live.close()
  await eventually('its connection is closed', async () => (await listeners()) === '', 5000)
  await own.stop()
})

test('a temporary limit ends at its moment, also in a process that was interrupted before it read the answer to a question', async () => {
  const client = redis.client()
  const live = liveOf(client)
  await live.set('api', '1000/1m', { until: '30s' })
  expect(quotaOf(live)).toBe(1000)
  let aheadMs = 0
  const real = performance.now.bind(performance)
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => real() + aheadMs)
  let answered = false
  const send = client.sendCommand.bind(client)
  const sends = jest.spyOn(client, 'sendCommand').mockImplementation((...words) => {
    // Redis has not stood still with the process, so what it says of its clock later does not count here.
    if (aheadMs > 0) return new Promise(() => {})
    const answer = send(...words) as Promise<unknown>
    // The process stands still for a minute, from the moment of the first answer on.
    aheadMs = 60_000
    const read = () => setImmediate(() => (answered = true))
    answer.then(read, read)
    return answer
  })
  try {
    await redis.client().call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await eventually('it has asked', async () => answered)
    expect(quotaOf(live)).toBe(100)
  } finally {
    clock.mockRestore()
    sends.mockRestore()
  }
})

describe('list', () => {
  test('tells all limits in force that are not the defaults, of names and of keys, and changes nothing', async () => {
    const live = liveOf()
    expect(await live.list()).toEqual({ items: [], more: 0 })
    await live.set('login', '9/15m', { by: 'ann' })
    await live.set('api', '5/1m', { key: 'user:1' })
    await live.set('api', '6/1m', { key: 'user:1', until: '1h', by: 'bob' })
    await live.set('api', '7/1m', { key: 'x'.repeat(300) })
    await live.set('api', '8/1m', { key: 'gone' })
    await live.clear('api', { key: 'gone' })
    await live.set('api', '8/1m', { key: 'over', until: 1 })
    await eventually('it is over', async () => (await live.list()).items.every(({ key }) => key !== 'over'))
    const admin = redis.client()
    const stored = async () =>
      Promise.all((await admin.keys(`${prefix}:*`)).sort().map(key => admin.dumpBuffer(key).then(String)))
    const before = await stored()
    const { items, more } = await live.list()
    expect(await stored()).toEqual(before)
    expect(more).toBe(0)
    expect(items.map(({ name, key, policy, by }) => [name, key?.slice(0, 6), policy, by])).toEqual([
      ['login', undefined, '9/15m', 'ann'],
      ['api', 'xxxxxx', '7/1m', undefined],
      ['api', 'user:1', '6/1m', 'bob'],
    ])
    expect(Math.abs((items[2].until?.getTime() ?? 0) - Date.now() - 3_600_000)).toBeLessThan(60_000)
    expect((await live.list({ name: 'login' })).items).toHaveLength(1)
    expect(await live.list({ limit: 1 })).toMatchObject({ items: [{ name: 'login' }], more: 2 })
  })

  test('is bounded, however many keys have their own limit, and says how many it does not list', async () => {
    const live = liveOf()
    const admin = redis.client()
    const records = new LiveRecords(redis.client(), 'test', prefix)
    const fields = Array.from({ length: 3000 }, (_, i) => {
      const change = JSON.stringify({ name: 'api', key: `user:${i}`, policy: '5/1m', from: 'test' })
      return [`user:${i}`, `epoch ${i + 1} ${Date.now()} -1 ${change}`]
    })
    await admin.hset(records.keys.ofKeys('api')[0], ...fields.flat())
    await live.list()
    const calls = async () => Number(/cmdstat_hscan:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1])
    const before = await calls()
    const { items, more } = await live.list({ limit: 20 })
    expect((await calls()) - before).toBeLessThanOrEqual(2)
    expect([items.length, more]).toEqual([20, 2980])
    expect(new Set(items.map(({ key }) => key)).size).toBe(20)
    expect(items.every(({ policy }) => policy === '5/1m')).toBe(true)
  })

  test('leaves out a record that cannot be read, and refuses invalid options', async () => {
    const live = liveOf()
    await live.set('api', '5/1m', { key: 'user:1' })
    const records = new LiveRecords(redis.client(), 'test', prefix)
    await redis.client().hset(records.keys.ofKeys('api')[0], 'bad', 'what is this', 'worse', 'e 1 1 -1 {"name":3}')
    expect((await live.list()).items).toHaveLength(1)
    for (const options of [{ name: 'other' }, { limit: -1 }, { most: 1 }])
      await expect(live.list(options as never)).rejects.toThrow(PolicyError)
  })
})

import { readFileSync } from 'node:fs'
import { afterAll, expect, test } from '@jest/globals'
import { GlideClient, Logger } from '@valkey/valkey-glide'
import { RedisStore } from '../../src/index.js'
import { TimeoutError } from '../../src/limiter/core/errors.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { reporter } from '../../src/operating/dashboard/index.js'
import { LivePolicies } from '../../src/operating/live/live-policies.js'
import { LiveRecords } from '../../src/operating/live/live-records.js'
import type { RedisClient } from '../../src/redis/client.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { OpenDashboard } from '../operating/dashboard/open-dashboard.js'
import { eventually } from '../support/eventually.js'
import { testRedis } from '../support/test-redis.js'

const page = readFileSync('docs/operating.md', 'utf8')
const least = /ACL SETUSER app ([\s\S]*?)```/.exec(page)?.[1].trim().split(/\s+/) ?? []
const more = (name: string) => new RegExp(`^ *${name} +([+&].*)$`, 'm').exec(page)?.[1].split(' ') ?? []

const redis = testRedis()

/** What the page allows to each, and a life of each: everything that it can be asked, at least once. */
const LIVES: Record<string, (client: RedisClient) => Promise<void>> = {
  async SharedRateLimiter(client) {
    const limiter = new SharedRateLimiter(client, 'a')
    for (const mode of ['overall', 'per-client'] as const) {
      await limiter.setRate({ rate: 2, interval: '50ms', mode, keepAlive: '1m' })
      await limiter.acquire(2)
      await Promise.all([limiter.acquire(), limiter.acquire(2)])
      await limiter.release(1)
      await limiter.setRate({ rate: 3, interval: '50ms', mode }, { keepState: true })
      expect(await limiter.availablePermits()).toBeGreaterThanOrEqual(0)
      expect((await limiter.inspect()).config).toMatchObject({ rate: 3 })
      expect(await limiter.expire('1m')).toBe(true)
      expect(await limiter.delete()).toBe(true)
    }
    await limiter.close()
  },

  async Semaphore(client) {
    const semaphore = new Semaphore(client, 'a', { permits: 1, idleTtl: '1m' })
    const lease = await semaphore.acquire({ lease: '1s' })
    const waiting = semaphore.acquire({ timeout: '5s' })
    await semaphore.waiting()
    const behind = new Semaphore(client, 'a').acquire({ timeout: 5 })
    await expect(behind).rejects.toThrow(TimeoutError)
    expect(await lease.renew()).toBe(true)
    await lease.release()
    const next = await waiting
    expect(await semaphore.holders()).toHaveLength(1)
    expect((await semaphore.inspect()).holders.items).toHaveLength(1)
    const taken = await semaphore.resume(next.id)
    await semaphore.setPermits(2)
    await semaphore.addPermits(1)
    // Those who have left are told to Redis together, a little later.
    await eventually('nobody waits', async () => (await semaphore.waiting()) === 0)
    expect(await semaphore.forceRelease(taken?.id ?? '')).toBe(true)
    const forgotten = await semaphore.acquire({ lease: 20, renew: false })
    await eventually('its lease is over', async () => (await semaphore.availablePermits()) === 3)
    expect(await forgotten.release()).toBe(false)
    expect(await semaphore.delete()).toBe(true)
    await semaphore.close()
  },

  async DelayQueue(client) {
    const queue = new DelayQueue<number>(client, 'a', {
      maxAttempts: 2,
      maxSize: 10,
      backoff: { type: 'fixed', delay: 20 },
    })
    const done: number[] = []
    const consumer = queue.consume(async ({ payload }) => {
      if (payload === 0) throw new Error('never')
      done.push(payload)
    })
    await queue.pushMany([
      { payload: 0 },
      { payload: 1 },
      { payload: 2, options: { delay: 40, ttl: '1m', priority: 3 } },
    ])
    const later = await queue.push(3, { delay: '1h' })
    expect(await queue.reschedule(later ?? '', 60)).toBe(true)
    await eventually('all are done', async () => done.length === 3 && (await queue.stats()).dead === 1)
    expect(done.sort()).toEqual([1, 2, 3])
    await consumer.close()
    expect(await queue.dead()).toHaveLength(1)
    expect((await queue.inspect()).messages.items).toHaveLength(1)
    expect(await queue.redrive()).toBe(1)
    const [delivery] = await queue.receive({ wait: '1s' })
    await delivery.extend()
    await delivery.reject('no')
    await queue.pause()
    await queue.resume()
    expect(await queue.cancel((await queue.push(4, { delay: '1h' })) ?? '')).toBe(true)
    await queue.clear()
    await queue.close()
  },

  async reporter(client) {
    const observer = reporter({ client, every: '20ms', service: 'shop' })
    const limiter = new RateLimiter({
      name: 'a',
      policy: '2/1h',
      store: new RedisStore(client),
      observer,
      deadline: '5s',
    })
    for (let i = 0; i < 3; i++) await limiter.consume('x')
    const own = redis.client()
    const tens = () => own.keys('spillway:{!dashboard}:tens:*')
    await eventually('its counts are in all sums', async () => (await tens()).length > 0)
    await limiter.consume('x')
    await observer.close()
    expect(await own.exists('spillway:{!dashboard}:processes')).toBe(0)
  },

  async dashboard(client) {
    await LIVES.reporter(redis.client())
    const own = redis.client()
    const observer = reporter({ client: own, every: '20ms', service: 'shop' })
    const semaphore = new Semaphore(own, 'a', { permits: 1, observer })
    await semaphore.acquire()
    const rate = new SharedRateLimiter(own, 'a', { observer })
    await rate.setRate({ rate: 2, interval: '50ms' })
    await Promise.all([rate.acquire(2), rate.acquire()])
    const queue = new DelayQueue<number>(own, 'a', { observer, maxAttempts: 1 })
    await queue.push(1)
    const failing = queue.consume(() => Promise.reject(new Error('no')))
    await eventually('a letter is dead', async () => (await queue.stats()).dead === 1)
    await failing.close()
    const page = await OpenDashboard.start({ client, authorize: () => 'read' })
    await eventually('all is shown', async () => {
      const [{ shared }, { queues }] = [await page.view({ page: 'waiting' }), await page.view({ page: 'queues' })]
      return shared.length === 2 && queues[0]?.letters.length === 1
    })
    for (const name of ['keys', 'waiting', 'queues', 'changes', 'processes'] as const) {
      expect((await page.view({ page: name, key: 'x' })).failing).toBeUndefined()
    }
    expect((await page.view({ page: 'limits', range: '24h' })).rows).toHaveLength(1)
    await page.close()
    for (const each of [semaphore, rate, queue, observer]) await each.close()
  },

  async LivePolicies(client) {
    const live = new LivePolicies(client, { defaults: { api: '100/1m' } })
    for (const key of [undefined, 'alice']) {
      await live.set('api', '50/1m', { key })
      await live.set('api', '10/1m', { key, until: 20 })
      await live.clear('api', { key })
    }
    await live.set('api', '10/1m', { until: 5, key: 'bob' })
    // Both are over then, by the clock of Redis.
    await new Promise(resolve => setTimeout(resolve, 20))
    const late = new LivePolicies(client, { defaults: { api: '100/1m' } })
    await late.set('api', '5/1m', { key: 'carol' })
    expect(late.for('api', 'alice')[0].quota).toBe(100)
    expect(await late.history()).toHaveLength(8)
    expect((await late.list()).items).toHaveLength(1)
    const records = new LiveRecords(client, 'test')
    expect((await records.ownLimits(['api'], 'carol'))[0].isSet).toBe(true)
    await eventually('its name is told', async () => (await records.names()).names.length === 1)
    await live.close()
    await late.close()
  },
}

/** Opens a client for a user who has these rights, and closes it. */
const CLIENTS = {
  ioredis: {
    rules: [] as string[],
    open: (username: string): RedisClient => redis.client({ username, password: 'password', enableReadyCheck: false }),
  },
  GLIDE: {
    rules: more('GLIDE'),
    async open(username: string): Promise<RedisClient> {
      Logger.setLoggerConfig('off')
      const { host, port } = redis
      const client = await GlideClient.createClient({
        addresses: [{ host, port }],
        credentials: { username, password: 'password' },
      })
      closing.push(() => client.close())
      return client
    },
  },
}
const closing: (() => void)[] = []
afterAll(() => {
  for (const close of closing) close()
})

const CASES = Object.keys(LIVES).flatMap(name => (['ioredis', 'GLIDE'] as const).map(client => [name, client] as const))

test.each(CASES)('the documented permissions are sufficient for a %s over %s', async (name, by) => {
  const rules = [...more(name), ...CLIENTS[by].rules]
  expect(rules.length).toBeGreaterThan(3)
  const admin = redis.client()
  await admin.flushall()
  await admin.call('ACL', 'LOG', 'RESET')
  await admin.call('ACL', 'SETUSER', name, 'reset', ...least, ...rules)
  await LIVES[name](await CLIENTS[by].open(name))
  const log = (await admin.call('ACL', 'LOG')) as unknown[][]
  // Clients introduce themselves, and take no for an answer.
  const refused = log.map(entry => String(entry[entry.indexOf('object') + 1]))
  expect(refused.filter(what => !/^client(\|set(info|name))?$/.test(what))).toEqual([])
})

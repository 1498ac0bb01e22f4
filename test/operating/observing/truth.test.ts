import { once } from 'node:events'
import { Agent, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import express from 'express'
import { Registry } from 'prom-client'
import { concurrencyLimit, rateLimit } from '../../../src/http/adapters/express.js'
import { RedisStore } from '../../../src/index.js'
import type { Decision } from '../../../src/limiter/core/decision.js'
import { TimeoutError } from '../../../src/limiter/core/errors.js'
import { observers } from '../../../src/limiter/core/observer.js'
import { optionsOf, RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { openTelemetryObserver } from '../../../src/operating/observing/opentelemetry.js'
import { prometheusObserver } from '../../../src/operating/observing/prometheus.js'
import { Semaphore } from '../../../src/waiting/semaphore/semaphore.js'
import { ALL_CASES } from '../../support/cases.js'
import { eventually } from '../../support/eventually.js'
import { randomFrom } from '../../support/random.js'
import { StubStore } from '../../support/stub-store.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

/** Counts by name. */
class Tally {
  readonly counts = new Map<string, number>()

  add(...parts: readonly string[]): void {
    const name = parts.join(' ')
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
  }

  get sorted(): Array<[string, number]> {
    return [...this.counts].sort(([a], [b]) => (a < b ? -1 : 1))
  }
}

const DECISIONS = ALL_CASES ? 100_000 : 4000
const random = randomFrom('truth')

test(`after ${DECISIONS} random decisions metrics and callers have the same counts, to the unit, with no waiters or holders left`, async () => {
  const registry = new Registry()
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
  const provider = new MeterProvider({ readers: [reader] })
  const events = new Tally()
  const counter = {
    storeAnswered: () => events.add('answered'),
    storeFailed: () => events.add('failed'),
  }
  const observer = observers(
    prometheusObserver({ registry }),
    openTelemetryObserver({ meter: provider.getMeter('t') }),
    counter,
  )

  const client = redis.client()
  const store = new RedisStore(client)
  const flaky = () => {
    const stub = new StubStore()
    const allow = stub.answer
    stub.answer = (charges, cost) => {
      if (random.integer(0, 9) < 3) throw new Error('a fault')
      return allow(charges, cost)
    }
    return stub
  }
  const common = { observer, deadline: '5s' } as const
  const policy = [
    // Windows that outlast a slow machine, which refuses as many.
    { quota: 20, window: '10m', name: 'burst' },
    { quota: 100, window: '100m', name: 'steady', algorithm: 'token-bucket' },
  ] as const
  const limiters = [
    new RateLimiter({ ...common, policy, name: 'memory' }),
    new RateLimiter({ ...common, policy, name: 'trial', shadow: true }),
    new RateLimiter({ ...common, policy: '5/20ms', name: 'lone' }),
    new RateLimiter({ ...common, policy, name: 'redis', store }),
    new RateLimiter({ ...common, policy: '10/10m', name: 'denied by cache', store }),
    new RateLimiter({ ...common, policy: '10/10m', name: 'uncached', store, denyCache: false }),
    new RateLimiter({ ...common, policy: '5/10m', name: 'local', store: flaky() }),
    new RateLimiter({ ...common, policy: '5/10m', name: 'open', store: flaky(), onStoreFailure: 'open' }),
    new RateLimiter({ ...common, policy: '5/10m', name: 'closed', store: flaky(), onStoreFailure: 'closed' }),
  ]
  const decided = new Tally()
  const count = (limiter: string, { limit, shadow, allowed, source }: Decision) =>
    decided.add(limiter, limit.name, shadow ? 'shadow' : allowed ? 'allowed' : 'refused', source)

  let left = DECISIONS
  const caller = async () => {
    while (left > 0) {
      left--
      const limiter = random.pick(limiters)
      const key = `k${random.integer(0, 30)}`
      const { name = '' } = optionsOf(limiter)
      count(name, await limiter.consume(key, random.integer(0, 20) === 0 ? 3 : 1))
      if (random.integer(0, 50) === 0) await limiter.peek(key)
      // Breakers open and close meanwhile.
      if (left % 1000 === 0) await sleep(5)
    }
  }
  await Promise.all(Array.from({ length: 100 }, caller))

  const waited = new Tally()
  const outcomeOf = (error: unknown) => {
    if (error instanceof TimeoutError) return 'timeout'
    if (error === 'gone') return 'aborted'
    throw error
  }
  const line = new RateLimiter({ ...common, policy: '5/20ms', name: 'line' })
  const shared = new RateLimiter({ ...common, policy: '5/20ms', name: 'shared line', store })
  const acquire = async (limiter: RateLimiter, name: string) => {
    const gone = new AbortController()
    const timeout = random.pick([0, 30, 100, Number.POSITIVE_INFINITY])
    // Callers give up, work and leave at random moments, in real time: that is the traffic to count.
    if (timeout > 100 && random.integer(0, 1) === 0) setTimeout(() => gone.abort('gone'), random.integer(0, 60))
    try {
      count(name, await limiter.acquire(`k${random.integer(0, 3)}`, { timeout, signal: gone.signal }))
      waited.add('limiter', name, 'granted')
    } catch (error) {
      waited.add('limiter', name, outcomeOf(error))
    }
  }
  const semaphore = new Semaphore(client, 'jobs', { permits: 3, observer })
  let held = 0
  const work = async () => {
    try {
      await semaphore.use(() => sleep(random.integer(0, 5)), { timeout: random.pick([0, 40, 2000]) })
      held++
      waited.add('semaphore', 'jobs', 'granted')
    } catch (error) {
      waited.add('semaphore', 'jobs', outcomeOf(error))
    }
  }
  await Promise.all([
    ...Array.from({ length: 200 }, () => acquire(line, 'line')),
    ...Array.from({ length: 200 }, () => acquire(shared, 'shared line')),
    ...Array.from({ length: 200 }, work),
  ])

  const app = express()
  const answered = new Tally()
  // As the service itself counts them: a client that has gone does not see its status.
  let open = 0
  app.use((_req, res, next) => {
    open++
    res.once('close', () => {
      open--
      answered.add(String(res.statusCode))
    })
    next()
  })
  app.use(rateLimit({ ...common, policy: '300/1m', name: 'http', key: req => req.get('x-user') }))
  app.use(concurrencyLimit({ permits: 2, queue: 20, wait: 150, name: 'places', observer }))
  app.get('/', async (_req, res) => {
    await sleep(random.integer(0, 4))
    res.end('done')
  })
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const agent = new Agent({ keepAlive: true, maxSockets: 40 })
  const ask = (leaves: boolean) =>
    new Promise<void>(resolve => {
      const req = get({ port, agent, headers: { 'x-user': `u${random.integer(0, 3)}` } }, res => {
        res.resume().once('close', resolve)
      })
      req.once('error', () => resolve())
      if (leaves) setTimeout(() => req.destroy(), random.integer(0, 10))
    })
  for (let i = 0; i < 50; i++) await Promise.all(Array.from({ length: 30 }, () => ask(random.integer(0, 20) === 0)))
  agent.destroy()
  // The server may still have to read that a client has left.
  await eventually('no connection is open', async () => {
    expect([open, await promisify(server.getConnections.bind(server))()]).toEqual([0, 0])
  })

  // What metrics say, in the words of the callers.
  const seriesOf = async (name: string, part: 'value' | 'count', labels: readonly string[]) => {
    const { values } = (await registry.getSingleMetric(name)!.get()) as {
      values: Array<{ value: number; metricName?: string; labels: Record<string, string> }>
    }
    const ofPart = values.filter(({ metricName }) => part === 'value' || metricName === `${name}_count`)
    return ofPart
      .map(({ value, labels: given }): [string, number] => [labels.map(label => given[label]).join(' '), value])
      .sort(([a], [b]) => (a < b ? -1 : 1))
  }
  const without = (name: string, all: Array<[string, number]>) => all.filter(([series]) => !series.includes(name))
  const sum = (all: ReadonlyArray<readonly [string, number]>) => all.reduce((total, [, value]) => total + value, 0)

  const all = await seriesOf('ratelimit_decisions_total', 'value', ['limiter', 'limit', 'outcome', 'source'])
  // Each outcome has a series from the first decision on.
  const decisions = all.filter(([, count]) => count > 0)
  expect(without('http ', decisions)).toEqual(decided.sorted)
  // Every kind has happened.
  for (const kind of [
    'shadow memory',
    'refused deny-cache',
    'allowed fallback',
    'allowed open',
    'refused closed',
    'refused redis',
  ]) {
    expect([kind, decisions.some(([series, value]) => series.endsWith(kind) && value > 0)]).toEqual([kind, true])
  }
  const http = decisions.filter(([series]) => series.startsWith('http '))
  const refused = http.filter(([series]) => series.includes('refused'))
  expect(sum(refused)).toBe(answered.counts.get('429'))

  const waits = await seriesOf('ratelimit_wait_seconds', 'count', ['object', 'name', 'outcome'])
  expect(without('places', waits)).toEqual(waited.sorted)
  const places = Object.fromEntries(waits.filter(([series]) => series.includes('places')))
  expect(places['concurrency places timeout']).toBe(answered.counts.get('503'))
  expect(sum(Object.entries(places))).toBe(sum(http) - sum(refused))
  // The handler of a client that has left ends later.
  await eventually('what was held is counted', async () => {
    const ends = await seriesOf('ratelimit_hold_seconds', 'count', ['object', 'name', 'outcome'])
    expect(Object.fromEntries(ends.filter(([, count]) => count > 0))).toEqual({
      'semaphore jobs released': held,
      'concurrency places released': places['concurrency places granted'],
    })
  })

  expect(await seriesOf('ratelimit_store_duration_seconds', 'count', [])).toEqual([['', events.counts.get('answered')]])
  expect(await seriesOf('ratelimit_store_operations_total', 'value', ['outcome'])).toEqual([
    ['error', events.counts.get('failed')],
    ['ok', events.counts.get('answered')],
  ])

  await eventually('all levels are zero', async () => {
    for (const name of ['ratelimit_waiting', 'ratelimit_concurrency_in_use']) {
      const levels = await seriesOf(name, 'value', ['object', 'name'])
      expect(levels.length).toBeGreaterThanOrEqual(2)
      expect(levels.map(([, value]) => value)).toEqual(levels.map(() => 0))
    }
  })

  // OpenTelemetry says the same.
  await provider.forceFlush()
  const [{ metrics }] = exporter.getMetrics().at(-1)?.scopeMetrics ?? []
  const pointsOf = (name: string, labels: readonly string[]) =>
    (metrics.find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? [])
      .map(({ attributes, value }): [string, number] => [
        labels.map(label => attributes[label]).join(' '),
        typeof value === 'number' ? value : value.count,
      ])
      .sort(([a], [b]) => (a < b ? -1 : 1))
  expect(pointsOf('ratelimit.decisions', ['limiter', 'limit', 'outcome', 'source'])).toEqual(all)
  expect(pointsOf('ratelimit.wait.duration', ['object', 'name', 'outcome'])).toEqual(waits)
  for (const name of ['ratelimit.waiting', 'ratelimit.concurrency.in_use']) {
    const levels = pointsOf(name, ['object', 'name'])
    expect(levels.map(([, value]) => value)).toEqual(levels.map(() => 0))
  }
  await provider.shutdown()
  await semaphore.close()
  await Promise.all([...limiters, line, shared].map(limiter => limiter.close()))
  server.closeAllConnections()
  server.close()
}, 60_000)

import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { metrics } from '@opentelemetry/api'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { Counter, Registry, register } from 'prom-client'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import type { Observer } from '../../../src/limiter/core/observer.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { METRICS } from '../../../src/operating/observing/metrics.js'
import { openTelemetryObserver } from '../../../src/operating/observing/opentelemetry.js'
import { prometheusObserver } from '../../../src/operating/observing/prometheus.js'
import { freePort } from '../../support/free-port.js'

const [limit] = parsePolicy({ quota: 5, window: '1m', name: 'burst' })

/** One event of each kind, and of each outcome. */
async function tellEverything(observer: Observer): Promise<void> {
  const api = new RateLimiter({ policy: { quota: 2, window: '1m', name: 'per-minute' }, name: 'api', observer })
  const trial = new RateLimiter({ policy: '1/1m', name: 'trial', shadow: true, observer })
  for (let i = 0; i < 5; i++) await api.consume('203.0.113.7')
  for (let i = 0; i < 3; i++) await trial.consume('203.0.113.7')
  observer.storeAnswered?.({ durationMs: 2, decisions: 3 })
  observer.storeAnswered?.({ durationMs: 30, decisions: 0 })
  observer.storeFailed?.(new Error('down'))
  observer.breakerOpened?.(new Error('down'))
  observer.breakerOpened?.(new Error('down'))
  observer.breakerClosed?.()
  observer.leaseBought?.({ limit, units: 10, ttlMs: 1000 })
  observer.leaseExpired?.({ limit, units: 4 })
  observer.waited?.({ object: 'semaphore', name: 'reports', waitMs: 1500, outcome: 'granted' })
  observer.waited?.({ object: 'semaphore', name: 'reports', waitMs: 20_000, outcome: 'timeout' })
  observer.held?.({ object: 'concurrency', name: 'pdf', heldMs: 250, lost: false })
  observer.held?.({ object: 'concurrency', name: 'pdf', heldMs: 250, lost: true })
  observer.level?.({ object: 'semaphore', name: 'reports', inUse: 3, waiting: 7 })
  observer.level?.({ object: 'semaphore', name: 'reports', inUse: 2, waiting: 1 })
  observer.level?.({ object: 'queue', name: 'mails', depth: 12 })
  observer.level?.({ object: 'bottleneck', name: 'partner', reservoir: 40 })
  observer.level?.({ object: 'rate', name: 'model', used: 130, debt: 30, rate: 100, intervalMs: 1000 })
  observer.delivered?.({ queue: 'mails', latenessMs: 400, attempt: 1 })
  observer.settledDelivery?.({ queue: 'mails', outcome: 'ack', durationMs: 30 })
  observer.settledDelivery?.({ queue: 'mails', outcome: 'dead', durationMs: 50 })
}

/** What a page of metrics says: the value of each series, without the buckets of histograms. */
function seriesOf(page: string): Record<string, number> {
  const lines = page.split('\n').filter(line => line !== '' && !line.startsWith('#') && !line.includes('_bucket{'))
  return Object.fromEntries(lines.map(line => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
}

const DECISIONS = [
  ['limiter="api",limit="per-minute",outcome="allowed",source="memory"', 2],
  ['limiter="api",limit="per-minute",outcome="refused",source="memory"', 3],
  ['limiter="api",limit="per-minute",outcome="shadow",source="memory"', 0],
  ['limiter="trial",limit="1-per-1m",outcome="allowed",source="memory"', 1],
  ['limiter="trial",limit="1-per-1m",outcome="refused",source="memory"', 0],
  ['limiter="trial",limit="1-per-1m",outcome="shadow",source="memory"', 2],
] as const
const REPORTS = 'object="semaphore",name="reports"'
const PARTNER = 'object="bottleneck",name="partner"'
const PDF = 'object="concurrency",name="pdf"'

describe('prometheusObserver', () => {
  test('counts every event under the names and labels of the table, and never a key', async () => {
    const registry = new Registry()
    await tellEverything(prometheusObserver({ registry }))
    const page = await registry.metrics()
    expect(seriesOf(page)).toEqual({
      ...Object.fromEntries(DECISIONS.map(([labels, count]) => [`ratelimit_decisions_total{${labels}}`, count])),
      ratelimit_store_duration_seconds_sum: 0.032,
      ratelimit_store_duration_seconds_count: 2,
      'ratelimit_store_operations_total{outcome="ok"}': 2,
      'ratelimit_store_operations_total{outcome="error"}': 1,
      ratelimit_breaker_state: 1,
      [`ratelimit_waiting{${REPORTS}}`]: 1,
      [`ratelimit_wait_seconds_sum{${REPORTS},outcome="granted"}`]: 1.5,
      [`ratelimit_wait_seconds_count{${REPORTS},outcome="granted"}`]: 1,
      [`ratelimit_wait_seconds_sum{${REPORTS},outcome="timeout"}`]: 20,
      [`ratelimit_wait_seconds_count{${REPORTS},outcome="timeout"}`]: 1,
      [`ratelimit_concurrency_in_use{${REPORTS}}`]: 2,
      [`ratelimit_hold_seconds_sum{${REPORTS},outcome="released"}`]: 0,
      [`ratelimit_hold_seconds_count{${REPORTS},outcome="released"}`]: 0,
      [`ratelimit_hold_seconds_sum{${REPORTS},outcome="lost"}`]: 0,
      [`ratelimit_hold_seconds_count{${REPORTS},outcome="lost"}`]: 0,
      [`ratelimit_hold_seconds_sum{${PDF},outcome="released"}`]: 0.25,
      [`ratelimit_hold_seconds_count{${PDF},outcome="released"}`]: 1,
      [`ratelimit_hold_seconds_sum{${PDF},outcome="lost"}`]: 0.25,
      [`ratelimit_hold_seconds_count{${PDF},outcome="lost"}`]: 1,
      [`ratelimit_reservoir{${PARTNER}}`]: 40,
      ...Object.fromEntries(
        ['released', 'lost'].flatMap(outcome =>
          ['sum', 'count'].map(part => [`ratelimit_hold_seconds_${part}{${PARTNER},outcome="${outcome}"}`, 0]),
        ),
      ),
      'ratelimit_budget_used{object="rate",name="model"}': 130,
      'ratelimit_budget_debt{object="rate",name="model"}': 30,
      'ratelimit_queue_lateness_seconds_sum{queue="mails"}': 0.4,
      'ratelimit_queue_lateness_seconds_count{queue="mails"}': 1,
      'ratelimit_queue_depth{queue="mails"}': 12,
      'ratelimit_queue_settlements_total{queue="mails",outcome="ack"}': 1,
      'ratelimit_queue_settlements_total{queue="mails",outcome="nack"}': 0,
      'ratelimit_queue_settlements_total{queue="mails",outcome="dead"}': 1,
      'ratelimit_queue_settlements_total{queue="mails",outcome="stale"}': 0,
      'ratelimit_queue_handling_seconds_sum{queue="mails"}': 0.08,
      'ratelimit_queue_handling_seconds_count{queue="mails"}': 2,
      'ratelimit_lease_units_total{limit="burst",outcome="bought"}': 10,
      'ratelimit_lease_units_total{limit="burst",outcome="expired"}': 4,
    })
    expect(page).not.toContain('203.0.113.7')
    expect(await registry.metrics()).toBe(page)
    for (const { name } of Object.values(METRICS)) expect(page).toContain(`# TYPE ratelimit_${name} `)
    expect(page.match(/^# TYPE /gm)).toHaveLength(Object.keys(METRICS).length)
  })

  test('prefix and labels can be set; several observers of one registry share its metrics', async () => {
    const registry = new Registry()
    const eu = prometheusObserver({ registry, prefix: 'shop_', labels: { region: 'eu' } })
    const us = prometheusObserver({ registry, prefix: 'shop_', labels: { region: 'us' } })
    expect(prometheusObserver({ registry, prefix: 'shop_', labels: { region: 'eu' } })).toBe(eu)
    for (const observer of [eu, us, us]) await new RateLimiter({ policy: '5/1m', observer }).consume('k')
    us.storeFailed?.(new Error('down'))
    const series = seriesOf(await registry.metrics())
    const labels = 'limiter="default",limit="5-per-1m",outcome="allowed",source="memory"'
    expect(series[`shop_decisions_total{${labels},region="eu"}`]).toBe(1)
    expect(series[`shop_decisions_total{${labels},region="us"}`]).toBe(2)
    expect(series['shop_store_operations_total{outcome="error",region="us"}']).toBe(1)
    expect(series['shop_breaker_state{region="eu"}']).toBe(0)
  })

  test('after registry.clear() it registers anew, and registry.resetMetrics() leaves open breakers', async () => {
    const registry = new Registry()
    const first = prometheusObserver({ registry, labels: { region: 'eu' } })
    first.breakerOpened?.(new Error('down'))
    registry.resetMetrics()
    expect(seriesOf(await registry.metrics())['ratelimit_breaker_state{region="eu"}']).toBe(1)
    registry.clear()
    const again = prometheusObserver({ registry, labels: { region: 'eu' } })
    expect(again).not.toBe(first)
    again.storeFailed?.(new Error('down'))
    const series = seriesOf(await registry.metrics())
    expect(series['ratelimit_store_operations_total{outcome="error",region="eu"}']).toBe(1)
  })

  test('decisions of a blocked key are counted apart, from the first on', async () => {
    const registry = new Registry()
    const limiter = new RateLimiter({ policy: '1/1m', name: 'api', observer: prometheusObserver({ registry }) })
    await limiter.block('203.0.113.7', '1h')
    for (let i = 0; i < 3; i++) await limiter.consume('203.0.113.7')
    const outcomes = Object.entries(seriesOf(await registry.metrics())).flatMap(([series, value]) =>
      value > 0 ? (/decisions_total.*outcome="(\w+)"/.exec(series)?.[1] ?? []) : [],
    )
    expect(outcomes).toEqual(['blocked'])
  })

  test('the depth of a queue is absent once nobody has asked for 15 s', async () => {
    const registry = new Registry()
    const observer = prometheusObserver({ registry })
    const depth = async () => seriesOf(await registry.metrics())['ratelimit_queue_depth{queue="mails"}']
    const now = jest.spyOn(performance, 'now')
    now.mockReturnValue(1000)
    observer.level?.({ object: 'queue', name: 'mails', depth: 1200, overdueMs: 0 })
    now.mockReturnValue(16_000)
    expect(await depth()).toBe(1200)
    now.mockReturnValue(16_001)
    expect(await depth()).toBeUndefined()
    observer.level?.({ object: 'queue', name: 'mails', depth: 3, overdueMs: 0 })
    expect(await depth()).toBe(3)
    now.mockRestore()
  })

  test('without a registry it is the global one', async () => {
    const observer = prometheusObserver()
    observer.storeFailed?.(new Error('down'))
    expect(await register.metrics()).toContain('ratelimit_store_operations_total{outcome="error"} 1')
    register.clear()
  })

  test('up to a thousand names from requests are distinguished, further ones are counted together', async () => {
    const registry = new Registry()
    const observer = prometheusObserver({ registry })
    for (let i = 0; i < 1500; i++) await new RateLimiter({ policy: '5/1m', name: `n${i}`, observer }).consume('k')
    for (let i = 0; i < 1500; i++) observer.waited?.({ object: 'rate', name: `n${i}`, waitMs: 1, outcome: 'granted' })
    const series = seriesOf(await registry.metrics())
    const decisions = Object.entries(series).filter(([name]) => name.startsWith('ratelimit_decisions_total'))
    // Three outcomes each.
    expect(decisions).toHaveLength(3 * 1001)
    expect(decisions.reduce((sum, [, count]) => sum + count, 0)).toBe(1500)
    const waits = Object.entries(series).filter(([name]) => name.startsWith('ratelimit_wait_seconds_count'))
    expect(waits).toHaveLength(1001)
    expect(waits.reduce((sum, [, count]) => sum + count, 0)).toBe(1500)
  })

  test('a registry that has such metrics already, or has them with other labels, is refused with the remedy', () => {
    const registry = new Registry()
    new Counter({ name: 'ratelimit_decisions_total', help: 'mine', registers: [registry] })
    expect(() => prometheusObserver({ registry })).toThrow(
      'has a metric ratelimit_decisions_total already: expected another prefix',
    )
    prometheusObserver({ registry, prefix: 'own_' })
    expect(() => prometheusObserver({ registry, prefix: 'own_', labels: { region: 'eu' } })).toThrow(
      'have the labels []',
    )
  })
})

describe('openTelemetryObserver', () => {
  afterEach(() => metrics.disable())

  test('measures every event under its instrument, unit and attributes, through the real SDK', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
    const provider = new MeterProvider({ readers: [reader] })
    await tellEverything(
      openTelemetryObserver({ meter: provider.getMeter('test'), attributes: { 'service.region': 'eu' } }),
    )
    await provider.forceFlush()
    const [{ metrics: told }] = exporter.getMetrics().at(-1)?.scopeMetrics ?? []
    const found = Object.fromEntries(
      told.map(({ descriptor, dataPoints }) => [
        descriptor.name,
        {
          unit: descriptor.unit,
          points: dataPoints.map(({ attributes, value }) => {
            const { 'service.region': region, ...rest } = attributes
            expect(region).toBe('eu')
            return [
              rest,
              typeof value === 'number' ? value : { count: value.count, sum: (value as { sum: number }).sum },
            ]
          }),
        },
      ]),
    )
    const expected = {
      decisions: DECISIONS.map(([labels, count]) => [attributesOf(labels), count]),
      'store.duration': [[{}, { count: 2, sum: 0.032 }]],
      'store.operations': [
        [{ outcome: 'ok' }, 2],
        [{ outcome: 'error' }, 1],
      ],
      'breaker.state': [[{}, 1]],
      waiting: [[attributesOf(REPORTS), 1]],
      'wait.duration': [
        [
          { ...attributesOf(REPORTS), outcome: 'granted' },
          { count: 1, sum: 1.5 },
        ],
        [
          { ...attributesOf(REPORTS), outcome: 'timeout' },
          { count: 1, sum: 20 },
        ],
      ],
      'concurrency.in_use': [[attributesOf(REPORTS), 2]],
      'hold.duration': [
        [
          { ...attributesOf(PDF), outcome: 'released' },
          { count: 1, sum: 0.25 },
        ],
        [
          { ...attributesOf(PDF), outcome: 'lost' },
          { count: 1, sum: 0.25 },
        ],
      ],
      reservoir: [[attributesOf(PARTNER), 40]],
      'budget.used': [[{ object: 'rate', name: 'model' }, 130]],
      'budget.debt': [[{ object: 'rate', name: 'model' }, 30]],
      'queue.lateness': [[{ queue: 'mails' }, { count: 1, sum: 0.4 }]],
      'queue.depth': [[{ queue: 'mails' }, 12]],
      'queue.settlements': [
        [{ queue: 'mails', outcome: 'ack' }, 1],
        [{ queue: 'mails', outcome: 'nack' }, 0],
        [{ queue: 'mails', outcome: 'dead' }, 1],
        [{ queue: 'mails', outcome: 'stale' }, 0],
      ],
      'queue.handling': [[{ queue: 'mails' }, { count: 2, sum: 0.08 }]],
      'lease.units': [
        [{ limit: 'burst', outcome: 'bought' }, 10],
        [{ limit: 'burst', outcome: 'expired' }, 4],
      ],
    }
    const units = Object.fromEntries(Object.values(METRICS).map(({ instrument, unit }) => [instrument, unit]))
    expect(found).toEqual(
      Object.fromEntries(
        Object.entries(expected).map(([name, points]) => [
          `ratelimit.${name}`,
          { unit: units[`ratelimit.${name}`], points },
        ]),
      ),
    )
    await provider.shutdown()
  })

  test('can be read from a real exporter over HTTP', async () => {
    const port = await freePort()
    const exporter = new PrometheusExporter({ port, host: '127.0.0.1' })
    const provider = new MeterProvider({ readers: [exporter] })
    metrics.setGlobalMeterProvider(provider)
    await tellEverything(openTelemetryObserver())
    const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    for (const [labels, count] of DECISIONS) {
      const line = page.split('\n').find(line => line.startsWith('ratelimit_decisions_total{') && line.includes(labels))
      expect(line).toMatch(new RegExp(`} ${count}$`))
    }
    expect(page).toMatch(/^ratelimit_store_duration_count(\{.*\})? 2$/m)
    expect(page).toMatch(/^ratelimit_wait_duration_bucket\{.*le="2.5".*\} 1$/m)
    expect(page).not.toContain('203.0.113.7')
    await provider.shutdown()
  })
})

function attributesOf(labels: string): Record<string, string> {
  return Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value]))
}

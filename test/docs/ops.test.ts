import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { METRICS, type Metric } from '../../src/operating/observing/metrics.js'
import { eventually } from '../support/eventually.js'
import { ExampleService } from '../support/example-service.js'
import { root } from '../support/files.js'
import { filledIn, panelsOf } from '../support/grafana-dashboard.js'
import { rulesInPrometheus } from '../support/prometheus-rules.js'
import { PrometheusServer, promtool } from '../support/prometheus-server.js'
import { RedisServer } from '../support/redis-server.js'

const file = (name: string) => join(root, 'ops', name)
const text = (name: string) => readFileSync(file(name), 'utf8')
const panels = panelsOf(file('dashboard.json'))
const alertNames = [...text('alerts.yml').matchAll(/^ {6}- alert: (\w+)$/gm)].map(([, name]) => name)

/** The labels of each name that a query may use: a histogram has three names. */
const labelsOf = new Map<string, readonly string[]>()
for (const { kind, name, labels } of Object.values(METRICS) as readonly Metric[]) {
  const ends = kind === 'histogram' ? ['_bucket', '_count', '_sum'] : ['']
  for (const end of ends) labelsOf.set(`ratelimit_${name}${end}`, end === '_bucket' ? [...labels, 'le'] : labels)
}

/** The names and labels in a query that no metric has. */
function unknownIn(query: string): string[] {
  const unknown: string[] = []
  const names = [...query.matchAll(/ratelimit_\w+/g)].map(([name]) => name)
  const common = [...new Set(names.flatMap(name => labelsOf.get(name) ?? []))]
  for (const name of names) if (!labelsOf.has(name)) unknown.push(name)
  for (const [, name, matchers] of query.matchAll(/(ratelimit_\w+)\{([^}]*)\}/g)) {
    const labels = [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) => label)
    for (const label of labels)
      if (label !== 'job' && !labelsOf.get(name)?.includes(label)) unknown.push(`${name}{${label}}`)
  }
  for (const [, list] of query.matchAll(/\bby \(([^)]*)\)/g)) {
    for (const label of list.split(/,\s*/)) if (!common.includes(label)) unknown.push(`by (${label})`)
  }
  return unknown
}

describe('alert rules', () => {
  test('each has series for which promtool sees it fire', () => {
    const firing = [...text('alerts.test.yml').matchAll(/alertname: (\w+)\n\s+exp_alerts:\n/g)].map(([, name]) => name)
    expect(new Set(firing)).toEqual(new Set(alertNames))
  })

  test('what processes judge too has the same thresholds', () => {
    for (const { rule, alert, thresholds } of rulesInPrometheus(file('alerts.yml'))) {
      expect([alert, new Set(thresholds)]).toEqual([alert, new Set([rule.above])])
    }
  })

  test('they use metrics and labels that exist, and the README says what to do about each', () => {
    const readme = text('README.md')
    expect(unknownIn(text('alerts.yml').replaceAll(/\{\{[^}]*\}\}/g, ''))).toEqual([])
    const told = [...readme.matchAll(/^\| `(RateLimit\w+)`/gm)].map(([, name]) => name)
    expect(told).toEqual(alertNames)
  })
})

describe('the Grafana dashboard', () => {
  test('shows every metric, by queries whose metrics and labels exist', () => {
    const queries = panels.flatMap(({ queries }) => queries.map(({ expression }) => expression))
    expect(queries.flatMap(unknownIn)).toEqual([])
    for (const { name } of Object.values(METRICS)) expect(queries.join('\n')).toContain(`ratelimit_${name}`)
    for (const { queries } of panels) {
      for (const { expression, legend } of queries) {
        for (const [, label] of legend.matchAll(/\{\{(\w+)\}\}/g)) {
          expect(expression).toMatch(new RegExp(`by \\([^)]*\\b${label}\\b`))
        }
      }
    }
  })

  test('a query with a name or a label that does not exist is found', () => {
    expect(unknownIn('sum by (key) (rate(ratelimit_decision_total{outcom="x"}[1m]))')).toEqual([
      'ratelimit_decision_total',
      'ratelimit_decision_total{outcom}',
      'by (key)',
    ])
  })
})

describe('a real Prometheus that scrapes examples/metrics.ts', () => {
  let redis: RedisServer
  let service: ExampleService
  let prometheus: PrometheusServer
  beforeAll(async () => {
    redis = await RedisServer.start()
    service = await ExampleService.start({ REDIS_URL: redis.url })
    prometheus = await PrometheusServer.start(service.url, file('alerts.yml'))
  }, 60_000)
  afterAll(async () => {
    await prometheus?.stop()
    await service?.stop()
    await redis?.stop()
  })

  test('knows to the unit what the clients counted, accepts every query, and runs every rule', async () => {
    const counted = { allowed: 0, refused: 0 }
    for (let i = 0; i < 3; i++) {
      for (const user of ['ada', 'bob']) {
        const statuses = await service.ask('/', 30, { headers: { 'x-user': user } })
        counted.allowed += statuses.get(200) ?? 0
        counted.refused += statuses.get(429) ?? 0
      }
    }
    const reports = await service.ask('/report', 15, { headers: { 'x-user': 'carl' } })
    counted.allowed += 15
    const mails = 12
    for (let i = 0; i < mails; i++) {
      await service.ask(i % 4 === 0 ? '/mails/nobody' : `/mails/${i}@example.com`, 1, {
        method: 'POST',
        headers: { 'x-user': `m${i}` },
      })
      counted.allowed++
    }
    expect(counted.refused).toBeGreaterThan(0)
    const decisions = (outcome: string) => prometheus.value(`sum(ratelimit_decisions_total{outcome="${outcome}"})`)
    await eventually(
      'Prometheus has all counts',
      async () => {
        expect([await decisions('allowed'), await decisions('refused')]).toEqual([counted.allowed, counted.refused])
        const waits = (outcome: string) =>
          prometheus.value(`sum(ratelimit_wait_seconds_count{object="concurrency",outcome="${outcome}"})`)
        expect([await waits('granted'), await waits('timeout')]).toEqual([reports.get(200) ?? 0, reports.get(503) ?? 0])
        expect(await prometheus.value('sum(ratelimit_queue_settlements_total{outcome="ack"})')).toBe(9)
        expect(await prometheus.value('sum(ratelimit_queue_settlements_total{outcome="dead"})')).toBe(3)
        expect(await prometheus.query('ratelimit_concurrency_in_use')).toMatchObject([
          { value: [expect.any(Number), '0'] },
        ])
        expect(await prometheus.query('ratelimit_queue_depth')).toMatchObject([{ value: [expect.any(Number), '0'] }])
      },
      30_000,
    )
    // A rate needs two scrapes.
    await eventually('no panel is silent', async () => {
      const silent: string[] = []
      for (const { title, queries } of panels) {
        const answers = await Promise.all(
          queries.map(({ expression }) => prometheus.query(filledIn(expression, '30s'))),
        )
        if (answers.every(series => series.length === 0)) silent.push(title)
      }
      // Nothing is leased here, and no consumer fails.
      expect(silent).toEqual(['Units bought in advance', 'Consumers that cannot work'])
    })
    await eventually('all rules are evaluated', async () => {
      const rules = await prometheus.rules()
      expect(rules.map(({ name, health }) => [name, health])).toEqual(alertNames.map(name => [name, 'ok']))
    })
  }, 90_000)

  test('promtool accepts the page of metrics', async () => {
    expect(promtool(['check', 'metrics'], await service.metrics())).toEqual({
      ok: true,
      output: expect.not.stringContaining('ratelimit_'),
    })
  })
})

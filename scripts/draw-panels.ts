// Draws docs/observing/: for each panel of ops/dashboard.json what a real Prometheus answers to its query, on traffic
// through examples/metrics.ts. Takes a minute and a half: two minutes of traffic are squeezed into one, and Redis
// stands still for ten seconds of it.
//
//   node scripts/ensure.mjs redis prometheus && npm run build && node --import tsx scripts/draw-panels.ts
import { mkdirSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ExampleService } from '../test/support/example-service.js'
import { filledIn, panelsOf } from '../test/support/grafana-dashboard.js'
import { PrometheusServer } from '../test/support/prometheus-server.js'
import { randomFrom } from '../test/support/random.js'
import { RedisServer } from '../test/support/redis-server.js'
import { type Line, panelChart, panelFile } from './panel-chart.js'

const TRAFFIC_MS = 80_000
const path = (file: string) => fileURLToPath(new URL(`../${file}`, import.meta.url))
const random = randomFrom('panels')

const redis = await RedisServer.start()
const service = await ExampleService.start({ REDIS_URL: redis.url })
const prometheus = await PrometheusServer.start(service.url, path('ops/alerts.yml'))
await sleep(2000)
const from = Date.now() / 1000

const until = performance.now() + TRAFFIC_MS
const leftMs = () => until - performance.now()
const client = async (user: string, request: string, everyMs: () => number, init: RequestInit = {}) => {
  while (leftMs() > 0) {
    await service.ask(request, 1, { ...init, headers: { 'x-user': user } }).catch(() => {})
    await sleep(everyMs())
  }
}
const mails = async () => {
  while (leftMs() > 0) {
    const address = random.integer(0, 19) === 0 ? 'nobody' : 'ada@example.com'
    await service.ask(`/mails/${address}`, 1, { method: 'POST', headers: { 'x-user': 'mailer' } }).catch(() => {})
    await sleep(random.integer(50, 300))
  }
}
const outage = async () => {
  await sleep(TRAFFIC_MS * 0.6)
  redis.pause()
  await sleep(10_000)
  redis.unpause()
}
/** One client asks too much for a third of the time. */
const greedy = async () => {
  await sleep(TRAFFIC_MS * 0.2)
  const end = performance.now() + TRAFFIC_MS * 0.25
  while (performance.now() < end) {
    await service.ask('/', 8, { headers: { 'x-user': 'greedy' } }).catch(() => {})
    await sleep(100)
  }
}
await Promise.all([
  ...Array.from({ length: 12 }, (_, i) => client(`user-${i}`, '/', () => random.integer(50, 400))),
  ...Array.from({ length: 4 }, (_, i) => client(`reader-${i}`, '/report', () => random.integer(50, 400))),
  mails(),
  outage(),
  greedy(),
])
await sleep(3000)
const to = Date.now() / 1000

mkdirSync(path('docs/observing'), { recursive: true })
for (const { title, unit, queries } of panelsOf(path('ops/dashboard.json'))) {
  const lines: Line[] = []
  for (const { expression, legend } of queries) {
    for (const { metric, values = [] } of await prometheus.range(filledIn(expression, '10s'), from, to, 1)) {
      const name = legend.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? '')
      lines.push({ name, points: values.map(([at, value]) => [at - from, Number(value)]) })
    }
  }
  writeFileSync(path(`docs/observing/${panelFile(title)}`), panelChart({ title, unit, lines, seconds: to - from }))
  console.log(`${title}: ${lines.length} series`)
}
await prometheus.stop()
await service.stop()
await redis.stop()

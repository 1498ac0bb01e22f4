// One limiter over memory with the observer that setup names: awaited decisions, as a service asks for them.
import { metrics } from '@opentelemetry/api'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { Registry } from 'prom-client'
import { alerts } from '../../dist/alerts.mjs'
import { RateLimiter } from '../../dist/index.mjs'
import { openTelemetryObserver } from '../../dist/opentelemetry.mjs'
import { prometheusObserver } from '../../dist/prometheus.mjs'
import { answer, setup } from './answering.mjs'
import { policyOf } from './policy.mjs'
import { clients, PLENTY } from './traffic.mjs'

let told = 0
/** @type {Record<string, () => import('../../dist/index.js').Observer | undefined>} */
const observers = {
  none: () => undefined,
  counting: () => ({ decided: () => void told++ }),
  prometheus: () => prometheusObserver({ registry: new Registry() }),
  opentelemetry() {
    metrics.setGlobalMeterProvider(new MeterProvider())
    return openTelemetryObserver()
  },
  alerts: () =>
    alerts({
      rules: [
        { name: 'refusals', when: 'denied-share', above: 0.1 },
        { name: 'degraded', when: 'degraded-share', above: 0.05 },
        { name: 'breaker', when: 'breaker-open', above: 0 },
      ],
      notify: () => {},
    }),
  'alerts by key': () => alerts({ rules: [{ name: 'one key', when: 'one-key-share', above: 0.5 }], notify: () => {} }),
}

const { observer } = setup
const build = (/** @type {number} */ quota) =>
  new RateLimiter({ policy: policyOf(quota, 'token-bucket'), observer: observers[observer]() })
const limiter = build(PLENTY)
const keys = clients(10_000)
const CHUNK = 2000
let at = 0

answer({
  async check() {
    const limiter = build(10)
    let passed = 0
    for (let i = 0; i < 30; i++) if ((await limiter.consume('a')).allowed) passed++
    return passed
  },

  async run({ ms }) {
    const before = told
    let decisions = 0
    const startedAt = performance.now()
    const { user, system } = process.cpuUsage()
    do {
      for (let i = at; i < at + CHUNK; i++) await limiter.consume(keys[i])
      decisions += CHUNK
      at = (at + CHUNK) % keys.length
    } while (performance.now() - startedAt < ms)
    const used = process.cpuUsage()
    return { decisions, told: told - before, cpuUs: used.user + used.system - user - system }
  },
})

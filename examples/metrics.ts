// A service that Prometheus can watch, and that sends alerts: Express, with state in this process, or in Redis and with
// a queue.
//
//   node --import tsx examples/metrics.ts
//   REDIS_URL=redis://localhost:6379 WEBHOOK_URL=https://hooks.example.com/services/T0/B0 node --import tsx
//   examples/metrics.ts
//
// ops/ holds alert rules and a Grafana dashboard for its metrics.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { Redis } from 'ioredis'
import { register } from 'prom-client'
import { DelayQueue, MemoryStore, observers, RedisStore } from 'spillway'
import { type Alert, alerts } from 'spillway/alerts'
import { addressKey, concurrencyLimit, rateLimit } from 'spillway/express'
import { prometheusObserver } from 'spillway/prometheus'

const { REDIS_URL, WEBHOOK_URL, PORT = '3000' } = process.env
const client = REDIS_URL === undefined ? undefined : new Redis(REDIS_URL, { retryStrategy: () => 100 })
client?.on('error', () => {})

async function notify({ rule, state, value, subject }: Alert): Promise<void> {
  const text = `${state} ${rule.name}: ${subject} at ${value.toFixed(2)}`
  console.log(text)
  if (WEBHOOK_URL === undefined) return
  const headers = { 'Content-Type': 'application/json' }
  const body = JSON.stringify({ text })
  const { status } = await fetch(WEBHOOK_URL, { method: 'POST', headers, body, signal: AbortSignal.timeout(5000) })
  if (status >= 400) throw new Error(`the webhook answered ${status}`)
}
const alarms = alerts({
  rules: [
    { name: 'many refusals', when: 'denied-share', above: 0.1, over: '30s' },
    { name: 'Redis is down', when: 'breaker-open', above: 0 },
    { name: 'without Redis', when: 'degraded-share', above: 0.05, over: '10s' },
    { name: 'one key', when: 'one-key-share', above: 0.5, atLeast: 100 },
    { name: 'dead letters', when: 'dead-letters', above: 0 },
  ],
  notify,
})
// One observer, passed to every object to measure.
const observer = observers(prometheusObserver(), alarms)

const app = express()
const byAddress = addressKey()
app.get('/metrics', async (_req, res) => {
  res.type(register.contentType).send(await register.metrics())
})
app.use(
  rateLimit({
    policy: { quota: 20, window: '1s', name: 'burst' },
    name: 'api',
    key: req => req.get('x-user') ?? byAddress(req),
    store: client === undefined ? new MemoryStore() : new RedisStore(client),
    observer,
  }),
)
app.get('/', (req, res) => {
  res.send(`hello, ${req.rateLimit?.remaining} left\n`)
})
// Reports take long: two run at once, and ten may wait, for at most two seconds.
const reports = concurrencyLimit({ permits: 2, name: 'reports', wait: '2s', queue: 10, client, observer })
app.get('/report', reports, (_req, res) => {
  setTimeout(() => res.send('a report\n'), 200)
})

const queue = client && new DelayQueue<{ to: string }>(client, 'mails', { maxAttempts: 2, observer })
const consumer = queue?.consume(async ({ payload }) => {
  if (!payload.to.includes('@')) throw new Error(`${payload.to} is no address`)
})
app.post('/mails/:to', async (req, res) => {
  // It rejects while Redis does not answer.
  const id = await queue?.push({ to: req.params.to }, { delay: 100 }).catch(() => undefined)
  res.status(id === undefined ? 503 : 202).json({ id })
})

const server = app.listen(Number(PORT), '127.0.0.1')
await once(server, 'listening')
console.log(`Listening on http://127.0.0.1:${(server.address() as AddressInfo).port}/, metrics at /metrics`)

async function stop(): Promise<void> {
  server.close()
  server.closeAllConnections()
  alarms.close()
  await consumer?.close({ grace: '2s' })
  await queue?.close()
  client?.disconnect()
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void stop())
